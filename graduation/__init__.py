"""Graduation: make a log directory of Apache Kafka from a data directory of kmini (`kmini graduate`).

- `graduate`: the whole, in order
- `source`: reads and locks the data directory, and selects one replica of each partition
- `partition_files`: copies or links the logs; `tombstone_conversion` converts flagged tombstones
- `metadata_log`: topics, settings, users and rules as records of Kafka's metadata log; `snapshot_file` writes them
- `server_properties`: the settings that Kafka starts with
"""

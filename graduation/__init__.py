"""Graduation: make a log directory of Apache Kafka from a data directory of kmini (`kmini graduate`).

source.py reads and locks the data directory, and selects one replica of each partition partition_files.py copies or
links the logs; flagged tombstones are converted (tombstone_conversion.py) metadata_log.py topics, settings, users,
rules as records of Kafka's metadata log (snapshot_file.py) server_properties.py the settings that Kafka starts with
graduate.py the whole, in order
"""

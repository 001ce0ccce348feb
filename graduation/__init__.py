"""Graduation: a data directory of kmini becomes a log directory of Apache Kafka (`kmini graduate`).

source.py             what is there: locked, looked at, and the replica of each partition that is taken
partition_files.py    the logs: copied, linked, or with their flagged tombstones made Kafka's (tombstones.py)
metadata.py           topics, settings, users, rules: as records of Kafka's metadata log (snapshot_file.py)
server_properties.py  the settings that Kafka is started with
graduate.py           all of it, in order
"""

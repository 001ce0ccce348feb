"""Stages of Spark that topics join: declared, run, and purged behind.

Reading order: `declaration.py`, `pipeline.py`, `running_pipeline.py`; topics: `declared_topics.py`, `topic_frames.py`,
`topic_schemas.py`, `avro_values.py`; purging: `spark_checkpoint.py`, `purge.py`, `topic_owner.py`.
"""

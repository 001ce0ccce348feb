"""Stages of Spark that topics join: declared, run, and purged behind.

Reading order: `declaration.py`, `pipeline.py`, `running_pipeline.py`; purging: `spark_checkpoint.py`, `purge.py`.
"""

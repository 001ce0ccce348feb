"""Topics as Parquet files, and back.

Reading order: `archive_files.py`, `archive.py`, `replay.py`, `partition_replay.py`.
"""

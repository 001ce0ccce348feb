"""The files of a log directory, read without a broker: what lies there, and its records as Arrow batches.

Reading order: `log_dir.py`, `segment_bytes.py`, `segment_walk.py`, `readable_range.py`, `segment_splits.py`,
`pushed_filters.py`, `arrow_columns.py`, `segment_scan.py`. `log_source.py` (Spark) and the audit stand on it.
"""

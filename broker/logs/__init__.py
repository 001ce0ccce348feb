"""The broker's side of its logs: when the log cleaner runs, and what a change of a log leaves to be done.

The logs themselves are in `storage/`: a log in `storage/log.py`, retention in `storage/retention.py`, and a pass of
compaction in `storage/cleaner/`.

Reading order: `log_maintenance.py` (waiting requests, checkpoints, flushes, deletions), `log_cleaner.py`. What runs at
intervals is in `broker/housekeeping.py`.
"""

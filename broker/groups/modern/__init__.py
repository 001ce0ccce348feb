"""What the kinds of groups that the coordinator assigns have in common: consumer, share and streams groups.

A group is what its records say (`modern_group.py`): a request computes changes (`changes.py`), `group_life.py` appends
their records as one batch and applies them, and the same code applies the records that are read from the log.
"""

"""Consumer groups (KIP-848): the coordinator assigns the partitions, and members get to their share by heartbeats.

A group is what its records say (`consumer_group.py`): a request computes records, they are appended as one batch, and
the same code that loads them from the log applies them to memory (`state_changes.py`).
"""

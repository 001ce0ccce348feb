"""Share groups (KIP-932): groups whose members share partitions, and acknowledge single records.

This room has the members and their partitions. Where a group is in a partition, its state, belongs to the share
coordinator (`broker/share_state/`): a partition can be assigned once its state was initialized there.

Reading order: `share_group.py`, `state_changes.py`, `heartbeats.py`, `simple_assignor.py`; `partition_states.py`
initializes and deletes the states.
"""

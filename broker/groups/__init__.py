"""The group coordinator: groups and their committed offsets, in memory and in `__consumer_offsets`.

The kinds of groups have a folder each: `classic/`, `consumer/` (KIP-848), `share/` (KIP-932), `streams/` (KIP-1071);
`modern/` has what all but `classic/` share.

Reading order: `group.py` (what all kinds share), `group_coordinator.py` (which kind serves a request), a kind's folder,
then offsets: `committed_offsets.py`, `commits.py`, `transactional_offsets.py`, `offset_expiry.py`. In the log:
`group_records.py`, `group_store.py`, `group_loader.py`, `groups_by_partition.py`.
"""

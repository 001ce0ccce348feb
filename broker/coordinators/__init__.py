"""How the coordinators of groups, transactions and share states store their state in an internal topic, and load it.

Reading order: `internal_topics.py` (the topics), `coordinator_topic.py` (partitions of keys, appends), `loader.py`
(loading and unloading in slices) with `internal_records.py` (replay of a partition); `background_writes.py` has the
writes that no request waits for. The coordinators are in `broker/groups/`, `broker/transactions/` and
`broker/share_state/`.
"""

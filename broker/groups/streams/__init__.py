"""Streams groups (KIP-1071): groups of Kafka Streams, whose coordinator assigns tasks and makes the internal topics.

Reading order: `topology.py`, `configured_topology.py`, `statuses.py`, `streams_group.py`, `state_changes.py`,
`heartbeats.py`, `member_steps.py`, `sticky_assignor.py`, `task_reconciliation.py`; `internal_topics.py` makes the
internal topics.
"""

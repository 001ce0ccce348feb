"""Partitions and their replicas: as the leader serves them, as readers fetch them, and as followers copy them.

The leader: `replica_manager.py` (which partitions this broker leads or follows), `partition.py`, `in_sync_replicas.py`.
A fetch: `fetch_partition.py` (resolves and reads), `delayed_fetch.py` (waits), `fetch_byte_limits.py`,
`fetch_sessions.py` (KIP-227), `replica_selection.py` (KIP-392). A follower: `fetcher_manager.py`, `fetcher.py`,
`follower_session.py`, `truncation.py`. Beside them: `startup_reconciliation.py` (folders and database at a start),
`replication_metrics.py`.
"""

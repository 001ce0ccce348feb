"""Share groups at the leaders of partitions (KIP-932): members acquire records, and acknowledge them.

`share_partition.py` has the records in flight, `share_partition_manager.py` gives them time-outs and stores what
becomes of them, `share_sessions.py` knows which partitions a member reads, `delayed_share_fetch.py` waits and reads.
"""

"""The state of share partitions in `__share_group_state` (KIP-932): the share coordinator keeps it, the persister of
each broker reaches it."""

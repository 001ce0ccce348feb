"""How a broker reaches the state of share partitions, whichever broker coordinates it (KIP-932)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

NO_OFFSET = -1
"""The start offset of a share partition that has not been read yet."""
NO_LEADER_EPOCH = -1
NOT_COUNTED = -1
"""In place of a delivery complete count that is not known."""


class SharePartitionKey(NamedTuple):
    """A partition that a share group reads."""

    group_id: str
    topic_id: bytes
    partition: int


class Summary(NamedTuple):
    """The state of a share partition, without its batches."""

    state_epoch: int
    leader_epoch: int
    """-1 if no leader has read or written it."""
    start_offset: int
    """NO_OFFSET until a leader has written one, and for a share partition that there is not."""
    delivery_complete_count: int
    """Offsets from the start offset on whose delivery has ended (KIP-1226); NOT_COUNTED if that is not known."""


class Persister(Protocol):
    """What the group coordinator does with the states of share partitions."""

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin the state of a share partition, or begin it anew. Raises FencedStateEpoch, UnknownTopicOrPartition,
        InvalidRequest, and what the coordinator of a topic does."""

    async def summary(self, key: SharePartitionKey, leader_epoch: int) -> Summary:
        """The state, without batches. Raises UnknownTopicOrPartition, and what the coordinator of a topic does."""

    async def delete(self, key: SharePartitionKey) -> None:
        """Delete the state, if there is one. Raises UnknownTopicOrPartition, and what the coordinator of a topic
        does."""

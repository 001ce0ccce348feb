"""Answers that Metadata and DescribeTopicPartitions share: the state of a partition, and why a topic is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...protocol.errors import NONE, InvalidTopic, LeaderNotAvailable, UnknownTopicOrPartition
from ...protocol.topics import validate_topic_name
from .controller import Controller, PartitionState

P = TypeVar("P")


def described_partition(kind: Callable[..., P], number: int, state: PartitionState, controller: Controller) -> P:
    """Partition `number` of a topic as the `kind` of an answer that tells it."""
    return kind(
        error_code=NONE if state.leader >= 0 else LeaderNotAvailable.code,
        partition_index=number,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[node_id for node_id in state.replicas if not controller.is_live(node_id)],
    )


def why_missing(name: str) -> int:
    """The error code for a topic that there is not: its name may be one that no topic can have."""
    try:
        validate_topic_name(name)
    except InvalidTopic as error:
        return error.code
    return UnknownTopicOrPartition.code

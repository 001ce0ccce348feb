"""Giving a partition other replicas while it is served (KIP-455).

begun        replicas = the new ones and the old ones; the added ones fetch until they are in sync
complete     all new ones are in sync: the old ones go, and the first new one that may leads, if an old one did
called off   the added ones go, and all is as it was
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
)
from ...protocol.topics import TopicPartition
from . import elections
from .controller import Controller, PartitionState


def reassign(
    controller: Controller,
    topic_partition: TopicPartition,
    target: Sequence[int] | None,
    *,
    may_change_count: bool = True,
) -> None:
    """Begin to give a partition the replicas `target`, in place of what was under way; None calls that off.

    Raises UnknownTopicOrPartition, InvalidReplicaAssignment, InvalidReplicationFactor, NoReassignmentInProgress,
    KafkaStorageError.
    """
    topic_id, state = elections.find(controller, topic_partition)
    original = tuple(node_id for node_id in state.replicas if node_id not in state.adding)
    if target is None:
        if not state.is_reassigned:
            raise NoReassignmentInProgress(f"{topic_partition} is not being reassigned")
        target = original
    _check(controller, target)
    if not may_change_count and len(target) != len(original):
        raise InvalidReplicationFactor(f"{topic_partition} has {len(original)} replicas, and may not get {len(target)}")
    begun = state._replace(
        replicas=(*target, *(node_id for node_id in original if node_id not in target)),
        isr=tuple(node_id for node_id in state.isr if node_id in target or node_id in original),
        adding=tuple(node_id for node_id in target if node_id not in original),
        removing=tuple(node_id for node_id in original if node_id not in target),
    )
    controller.change_partitions({(topic_id, topic_partition.partition): elections.progressed(controller, begun)})


def _check(controller: Controller, target: Sequence[int]) -> None:
    if not target:
        raise InvalidReplicaAssignment("the assignment names no broker")
    if len(set(target)) < len(target):
        raise InvalidReplicaAssignment(f"the assignment names a broker twice: {[*target[:10]]}")
    missing = next((node_id for node_id in target if node_id not in controller.registered), None)
    if missing is not None:
        raise InvalidReplicaAssignment(f"there is no broker {missing}")


def under_way(controller: Controller) -> list[tuple[TopicPartition, PartitionState]]:
    """The partitions that are being reassigned."""
    return [
        (TopicPartition(topic.name, number), state)
        for topic in controller.topics.values()
        for number, state in enumerate(topic.partitions)
        if state.is_reassigned
    ]

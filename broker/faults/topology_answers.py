"""Answers about the cluster that differ from it: another leader, a broker that is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...protocol.errors import NONE, LeaderNotAvailable

Means: TypeAlias = Callable[[str | None, int | None], bool]
"""Whether a rule means an entry of this topic and partition."""

NO_BROKER = -1
NO_LEADER = LeaderNotAvailable.code


def name_leader(answer: Any, broker: int, epoch: int | None, means: Means | None) -> bool:
    """Have the answer to Metadata name another leader. Returns False where it has no partition that is meant."""
    meant = [
        partition
        for topic in answer.topics
        for partition in topic.partitions
        if means is None or means(topic.name, partition.partition_index)
    ]
    for partition in meant:
        partition.leader_id = broker
        partition.error_code = NO_LEADER if broker == NO_BROKER else NONE
        if epoch is not None:
            partition.leader_epoch = epoch
    return bool(meant)


def leave_out_broker(answer: Any, broker: int) -> bool:
    """Take a broker out of the answer to Metadata or DescribeCluster, as Kafka does with one that is not available.
    Returns False where it is not in it."""
    left = [one for one in answer.brokers if _number(one) != broker]
    found = len(left) < len(answer.brokers)
    answer.brokers = left
    if answer.controller_id == broker:
        answer.controller_id = min(map(_number, left), default=NO_BROKER)
    for topic in getattr(answer, "topics", ()):
        for partition in topic.partitions:
            if partition.leader_id == broker:
                partition.leader_id, partition.error_code = NO_BROKER, NO_LEADER
            if broker in partition.replica_nodes and broker not in partition.offline_replicas:
                partition.offline_replicas = [*partition.offline_replicas, broker]
    return found


def _number(broker: Any) -> int:
    number: int = broker.node_id if hasattr(broker, "node_id") else broker.broker_id
    return number

"""What is told of replication: of the leader's side, of the follower's, and of the controller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..controller.topology import NO_LEADER, PartitionState
from .replica_manager import ReplicaManager


class Reading(NamedTuple):
    """One metric as it is now; `mbean` is Kafka's name for it."""

    mbean: str
    about: str
    value: float
    labels: dict[str, str] = {}  # noqa: RUF012 (it is never changed)


def replication_readings(manager: ReplicaManager) -> Iterator[Reading]:
    """What the broker tells of replication. A reading is taken when it is asked for: over many partitions that takes a
    while."""
    yield from _as_controller(manager)
    yield from _as_leader(manager)
    yield from _as_follower(manager)


def _as_controller(manager: ReplicaManager) -> Iterator[Reading]:
    controller = manager.controller
    partitions = [state for topic in controller.topics.values() for state in topic.partitions]
    live = len(controller.brokers)
    readings: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("ActiveControllerCount", "Whether it is the controller.", lambda: controller.controller_id == manager.node_id),
        ("ActiveBrokerCount", "Brokers that are live.", lambda: live),
        ("FencedBrokerCount", "Brokers that are not.", lambda: max(len(controller.node_ids) - live, 0)),
        (
            "OfflinePartitionsCount",
            "Partitions without a leader.",
            lambda: sum(one.leader == NO_LEADER for one in partitions),
        ),
        (
            "PreferredReplicaImbalanceCount",
            "Partitions that another replica leads than their first.",
            lambda: sum(one.leader != one.replicas[0] for one in partitions),
        ),
    )
    for name, about, read in readings:
        yield Reading(f"kafka.controller:type=KafkaController,name={name}", about, read())


def _as_leader(manager: ReplicaManager) -> Iterator[Reading]:
    led = list(manager.partitions.values())
    metrics = manager.metrics
    readings: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("PartitionCount", "Partitions of this broker.", lambda: len(led) + len(manager.fetcher_manager.followed)),
        ("LeaderCount", "Partitions it leads.", lambda: len(led)),
        (
            "UnderReplicatedPartitions",
            "Those that it leads and that are not on all their replicas.",
            lambda: sum(_missing(one.state) > 0 for one in led),
        ),
        (
            "UnderMinIsrPartitionCount",
            "Those that take no records with acks=all: fewer in sync than min.insync.replicas.",
            lambda: sum(one.is_under_min_isr for one in led),
        ),
        (
            "ReassigningPartitions",
            "Those that get other replicas.",
            lambda: sum(one.state.is_reassigned for one in led),
        ),
        ("IsrShrinksPerSec", "How often it left out followers that did not keep up.", lambda: metrics.isr_shrinks),
        ("IsrExpandsPerSec", "How often it took one in that had caught up.", lambda: metrics.isr_expands),
        ("FailedIsrUpdatesPerSec", "How often the controller refused that.", lambda: metrics.failed_isr_updates),
    )
    for name, about, read in readings:
        yield Reading(f"kafka.server:type=ReplicaManager,name={name}", about, read())
    for name, about, value in (
        ("ReplicationBytesInPerSec", "Bytes of batches fetched from leaders.", metrics.replication_bytes_in),
        ("ReplicationBytesOutPerSec", "Bytes of batches sent to followers.", metrics.replication_bytes_out),
    ):
        yield Reading(f"kafka.server:type=BrokerTopicMetrics,name={name}", about, value)


def _missing(state: PartitionState) -> int:
    """How many of the replicas that a partition shall have are not in sync; those that are just added do not count."""
    if not state.adding:
        return len(state.replicas) - len(state.isr)
    return sum(node_id not in state.adding for node_id in state.replicas) - len(state.isr)


def _as_follower(manager: ReplicaManager) -> Iterator[Reading]:
    yield Reading(
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag",
        "Committed records that it lacks of the partition it is furthest behind with, as its leader told last.",
        max((followed.lag for followed in manager.fetcher_manager.followed.values()), default=0),
        {"clientId": "Replica"},
    )

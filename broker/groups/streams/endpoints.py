"""Where the members of a streams group answer interactive queries, and for which partitions (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .configured_topology import PartitionCount
from .task_members import CurrentTasks
from .tasks import Tasks
from .topology import Topology

Partitions = Mapping[str, tuple[int, ...]]
"""Partitions by topic."""


class EndpointPartitions(NamedTuple):
    """The partitions that the tasks of a member read."""

    endpoint: tuple[str, int]
    """Host and port."""
    active: Partitions
    standby: Partitions


def endpoint_partitions(
    endpoint: tuple[str, int], current: CurrentTasks, topology: Topology, partition_count: PartitionCount
) -> EndpointPartitions:
    """The partitions of the source topics and repartition topics of a member's tasks."""
    return EndpointPartitions(
        endpoint,
        dict(read_partitions(current.active, topology, partition_count)),
        dict(read_partitions(current.standby, topology, partition_count)),
    )


def read_partitions(
    tasks: Tasks, topology: Topology, partition_count: PartitionCount
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The partitions that tasks read, by topic. As in Kafka, of a topic with fewer partitions than these tasks are, so
    many of the first tasks count."""
    for subtopology_id in sorted(tasks):
        subtopology = topology.subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        numbers = sorted(tasks[subtopology_id])
        for topic in sorted({*subtopology.read_topics}):
            yield topic, tuple(numbers[: partition_count(topic)])

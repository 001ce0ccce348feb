"""A topology over the topics that there are: how many tasks it has, and which internal topics it needs (KIP-1071).

1. The source topics have to exist.
2. A repartition topic has the partitions that its application gives it; else as many as the largest topic that the
   subtopology which writes it reads. Those of a co-partition group have as many as its source topics, which have to
   agree; without source topics, as many as those of given size, or as the largest.
3. A subtopology has as many tasks as the largest topic that it reads has partitions, and so have its changelogs.
4. An internal topic that exists has to have that many partitions; those that are missing are to be made.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ....protocol.errors import StreamsInvalidTopology
from .statuses import Problem, Status
from .topology import InternalTopic, Subtopology, Topology

PartitionCount = Callable[[str], int]
"""How many partitions a topic has; 0 if there is no such topic."""

MOST_NAMED = 3
"""Topics that the detail of a status names."""


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose sizes are decided."""

    task_count: int
    source_topics: frozenset[str]
    repartition_sources: Mapping[str, InternalTopic]
    """By name, with their partitions."""
    repartition_sinks: frozenset[str]
    changelogs: Mapping[str, InternalTopic]
    """By name, with their partitions."""

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks keep something, so that they may have standbys."""
        return bool(self.changelogs)


class ConfiguredTopology(NamedTuple):
    """A topology over the topics that there are."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """By subtopology id, in order of that; None if the source topics do not allow it."""
    missing: Mapping[str, InternalTopic]
    """The internal topics that are to be made, by name."""
    problem: Problem | None
    """None if the topology is ready: all its topics exist."""

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Unfit(Exception):
    """The topics do not fit the topology."""

    def __init__(self, status: Status, detail: str) -> None:
        self.problem = Problem(status, detail)


def configure(topology: Topology, partition_count: PartitionCount) -> ConfiguredTopology:
    """Configure a topology. Raises StreamsInvalidTopology if no topics could make it work."""
    try:
        return _configure(topology, partition_count)
    except _Unfit as unfit:
        return ConfiguredTopology(topology.epoch, None, {}, unfit.problem)


def _configure(topology: Topology, partition_count: PartitionCount) -> ConfiguredTopology:
    subtopologies = topology.subtopologies.values()
    missing_sources = {name for each in subtopologies for name in each.source_topics if not partition_count(name)}
    if missing_sources:
        raise _Unfit(Status.MISSING_SOURCE_TOPICS, f"Source topics {_some(sorted(missing_sources))} are missing.")
    sizes = _Sizes(subtopologies, partition_count)
    configured = {each.subtopology_id: sizes.configured(each) for each in sorted(subtopologies)}
    needed = {
        **{name: topic for each in configured.values() for name, topic in each.repartition_sources.items()},
        **{name: topic for each in configured.values() for name, topic in each.changelogs.items()},
    }
    missing: dict[str, InternalTopic] = {}
    for name, topic in needed.items():
        found = partition_count(name)
        if found and found != topic.partitions:
            raise _Unfit(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found {found}",
            )
        if not found:
            missing[name] = topic
    problem = None
    if missing:
        problem = Problem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_some(missing)}")
    return ConfiguredTopology(topology.epoch, configured, missing, problem)


class _Sizes:
    """The partitions of the internal topics, as they are decided."""

    def __init__(self, subtopologies: Iterable[Subtopology], partition_count: PartitionCount) -> None:
        self._subtopologies = list(subtopologies)
        self._partition_count = partition_count
        given = (topic for each in self._subtopologies for topic in each.repartition_sources)
        self._fixed = {topic.name: topic.partitions for topic in given if topic.partitions}
        self._decided = dict(self._fixed)
        self._size_what_is_written()
        self._repartition_topics = {topic.name for each in self._subtopologies for topic in each.repartition_sources}
        if not self._repartition_topics <= self._decided.keys():
            raise StreamsInvalidTopology("no subtopology writes a repartition topic that another one reads")
        for each in self._subtopologies:
            for topics in each.copartitioned():
                self._copartition(topics)

    def _size_what_is_written(self) -> None:
        """Decide the sizes of repartition topics, as Kafka does: in rounds, each of which passes once over the
        subtopologies that read a topic of known size and write one of unknown size. Raises StreamsInvalidTopology for a
        loop."""
        subtopologies = self._subtopologies
        readers: dict[str, list[int]] = {}
        for number, each in enumerate(subtopologies):
            for topic in each.repartition_sources:
                readers.setdefault(topic.name, []).append(number)
        is_sized: set[int] = set()
        this_round = [number for number, each in enumerate(subtopologies) if self._size_read_by(each)]
        while this_round:
            next_round: list[int] = []
            while this_round:
                number = heapq.heappop(this_round)
                if number in is_sized:
                    continue
                is_sized.add(number)
                size = self._size_read_by(subtopologies[number])
                for sink in subtopologies[number].repartition_sinks:
                    if sink not in self._decided:
                        self._decided[sink] = size
                        for reader in readers.get(sink, ()):
                            heapq.heappush(this_round if reader > number else next_round, reader)
            this_round = next_round
        if any(sink not in self._decided for each in subtopologies for sink in each.repartition_sinks):
            raise StreamsInvalidTopology("repartition topics of the topology are in a loop that nothing feeds")

    def _size_read_by(self, subtopology: Subtopology) -> int:
        """The partitions of the largest topic that it reads, as far as that is known; else 0."""
        repartitioned = (self._decided.get(topic.name, 0) for topic in subtopology.repartition_sources)
        return max((*repartitioned, *map(self._partition_count, subtopology.source_topics)), default=0)

    def _size(self, topic: str) -> int:
        """The partitions of a topic: those that it has, or else will have. Raises StreamsInvalidTopology."""
        size = self._partition_count(topic) or self._decided.get(topic)
        if not size:
            raise StreamsInvalidTopology(f"the size of the topic {topic} cannot be decided")
        return size

    def _copartition(self, topics: frozenset[str]) -> None:
        """Give the repartition topics of a co-partition group one size."""
        if not topics:
            return
        repartition_topics = {topic: self._size(topic) for topic in topics if topic in self._repartition_topics}
        sources = {topic: self._size(topic) for topic in topics if topic not in repartition_topics}
        if sources:
            size = _same(sources, shown=sources)
        elif self._fixed:
            size = _same({topic: self._size(topic) for topic in self._fixed}, shown=repartition_topics)
        else:
            size = max(repartition_topics.values())
        for topic, present in repartition_topics.items():
            if topic in self._fixed and present != size:
                raise _Unfit(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{present}] of repartition topic [{topic}] doesn't match number of "
                    f"partitions [{size}] of the source topic.",
                )
            self._decided[topic] = size

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """The subtopology with the sizes that were decided. Raises StreamsInvalidTopology if it reads nothing."""
        task_count = max(map(self._size, subtopology.read_topics), default=0)
        if not task_count:
            raise StreamsInvalidTopology(f"the subtopology {subtopology.subtopology_id} reads no topic")
        return ConfiguredSubtopology(
            task_count,
            frozenset(subtopology.source_topics),
            {
                topic.name: topic._replace(partitions=topic.partitions or self._decided[topic.name])
                for topic in subtopology.repartition_sources
            },
            frozenset(subtopology.repartition_sinks),
            {topic.name: topic._replace(partitions=task_count) for topic in subtopology.changelogs},
        )


def _same(sizes: Mapping[str, int], *, shown: Mapping[str, int]) -> int:
    """The one size that all of these have."""
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{topic}={size}" for topic, size in sorted(shown.items()))
        raise _Unfit(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(sizes.values()))


def _some(topics: Iterable[str]) -> str:
    """The first of these topics, and how many more there are."""
    names = list(topics)
    more = f" and {len(names) - MOST_NAMED} additional topics" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more

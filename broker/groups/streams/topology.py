"""The topology of an application of Kafka Streams, as its members send it and its record holds it (KIP-1071).

A topology consists of subtopologies. The tasks of a subtopology read one partition each of all its source topics, and
of its repartition topics, which other subtopologies write; what they keep is in changelogs. Repartition topics and
changelogs are internal topics, which the coordinator makes (`configured_topology.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ....protocol.errors import StreamsInvalidTopology
from ....protocol.messages import streams_group_heartbeat as messages


class InternalTopic(NamedTuple):
    """A repartition topic or a changelog."""

    name: str
    partitions: int = 0
    """0 where the coordinator decides."""
    replication_factor: int = 0
    """0 for the default."""
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics that need the same number of partitions, as indexes of the lists of their subtopology."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of a topology."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    """Always empty: expressions are not supported, in Kafka 4.3 either."""
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    """The repartition topics that it writes."""
    repartition_sources: tuple[InternalTopic, ...]
    """The repartition topics that it reads."""
    copartition_groups: tuple[CopartitionGroup, ...]

    @property
    def read_topics(self) -> Iterator[str]:
        """The topics that its tasks read."""
        yield from self.source_topics
        yield from (topic.name for topic in self.repartition_sources)

    @property
    def topics(self) -> Iterator[str]:
        """The topics that have to exist."""
        yield from self.read_topics
        yield from (topic.name for topic in self.changelogs)

    def copartitioned(self) -> Iterator[frozenset[str]]:
        """The names of the topics of each co-partition group. Raises StreamsInvalidTopology for an index of none."""
        repartition_topics = [topic.name for topic in self.repartition_sources]
        for group in self.copartition_groups:
            yield frozenset(
                (
                    *self._at(self.source_topics, group.source_topics),
                    *self._at(repartition_topics, group.repartition_source_topics),
                )
            )

    def _at(self, topics: Sequence[str], indexes: Iterable[int]) -> Iterator[str]:
        for index in indexes:
            if not 0 <= index < len(topics):
                raise StreamsInvalidTopology(
                    f"a co-partition group of subtopology {self.subtopology_id} names a topic that it does not have"
                )
            yield topics[index]


@dataclass(frozen=True)
class Topology:
    """A topology. Two are equal whatever the order of their subtopologies."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    """By subtopology id, in the order in which the first member sent them."""

    @property
    def required_topics(self) -> set[str]:
        """The topics that have to exist."""
        return {topic for each in self.subtopologies.values() for topic in each.topics}

    @cached_property
    def readers(self) -> dict[str, str]:
        """The subtopology that reads a topic, by the name of that; the last one where several do, as in Kafka."""
        return {topic: each.subtopology_id for each in self.subtopologies.values() for topic in each.read_topics}


def topology_from(epoch: int, subtopologies: Iterable[Subtopology]) -> Topology:
    """The topology of these parts. Raises StreamsInvalidTopology for a negative epoch, and for two of the same id."""
    if epoch < 0:
        raise StreamsInvalidTopology("the epoch of a topology is not negative")
    by_id: dict[str, Subtopology] = {}
    for each in subtopologies:
        if each.subtopology_id in by_id:
            raise StreamsInvalidTopology(f"two subtopologies have the id {each.subtopology_id}")
        by_id[each.subtopology_id] = each
    return Topology(epoch, by_id)


# --- as requests and records have them


def read_topology(epoch: int, subtopologies: Iterable[messages.Subtopology]) -> Topology:
    """The topology of a request or of a record. Raises StreamsInvalidTopology."""
    return topology_from(epoch, map(_read, subtopologies))


def stored_subtopologies(topology: Topology) -> list[messages.Subtopology]:
    """The subtopologies, for a record."""
    return [_stored(each) for each in topology.subtopologies.values()]


def _read(given: messages.Subtopology) -> Subtopology:
    return Subtopology(
        given.subtopology_id,
        tuple(given.source_topics),
        tuple(given.source_topic_regex),
        tuple(map(_read_topic, given.state_changelog_topics)),
        tuple(given.repartition_sink_topics),
        tuple(map(_read_topic, given.repartition_source_topics)),
        tuple(
            CopartitionGroup(
                tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
            )
            for group in given.copartition_groups
        ),
    )


def _read_topic(given: messages.TopicInfo) -> InternalTopic:
    return InternalTopic(
        given.name,
        given.partitions,
        given.replication_factor,
        tuple((config.key, config.value) for config in given.topic_configs),
    )


def _stored(subtopology: Subtopology) -> messages.Subtopology:
    return messages.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=list(subtopology.source_topics),
        source_topic_regex=list(subtopology.source_topic_regex),
        state_changelog_topics=stored_topics(subtopology.changelogs),
        repartition_sink_topics=list(subtopology.repartition_sinks),
        repartition_source_topics=stored_topics(subtopology.repartition_sources),
        copartition_groups=[
            messages.CopartitionGroup(
                source_topics=list(group.source_topics),
                source_topic_regex=list(group.source_topic_regex),
                repartition_source_topics=list(group.repartition_source_topics),
            )
            for group in subtopology.copartition_groups
        ],
    )


def stored_topics(topics: Iterable[InternalTopic]) -> list[messages.TopicInfo]:
    """Internal topics, for a record or an answer."""
    return [
        messages.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[messages.KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in topics
    ]

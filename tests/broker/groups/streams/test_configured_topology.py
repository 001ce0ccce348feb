"""Topologies over topics: sizes of internal topics, tasks, and why a topology has none yet.

`tests/oracle/test_streams_decisions.py` compares 1,500 of them with Kafka's own classes.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kmini.broker.groups.streams.configured_topology import ConfiguredTopology, configure
from kmini.broker.groups.streams.statuses import Problem, Status
from kmini.broker.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, topology_from
from kmini.protocol.errors import StreamsInvalidTopology


def reads(
    name: str,
    *sources: str,
    writes: tuple[str, ...] = (),
    through: Mapping[str, int] | None = None,
    keeps: tuple[str, ...] = (),
    is_copartitioned: bool = False,
) -> Subtopology:
    """A subtopology that reads topics and, with their given sizes, repartition topics."""
    repartitions = tuple(InternalTopic(topic, size) for topic, size in (through or {}).items())
    together = CopartitionGroup((*range(len(sources)),), (), (*range(len(repartitions)),))
    return Subtopology(
        name,
        sources,
        (),
        tuple(map(InternalTopic, keeps)),
        writes,
        repartitions,
        (together,) if is_copartitioned else (),
    )


def configured(*subtopologies: Subtopology, **topics: int) -> ConfiguredTopology:
    return configure(topology_from(3, subtopologies), lambda name: topics.get(name, 0))


def sizes(found: ConfiguredTopology) -> dict[str, int]:
    """The internal topics that are to be made."""
    return {name: topic.partitions for name, topic in found.missing.items()}


def tasks(found: ConfiguredTopology) -> dict[str, int]:
    assert found.subtopologies is not None
    return {name: each.task_count for name, each in found.subtopologies.items()}


def test_a_topology_without_internal_topics_is_ready_when_its_sources_exist() -> None:
    found = configured(reads("0", "t", "u"), t=2, u=5)
    assert found.is_ready
    assert found.epoch == 3
    assert tasks(found) == {"0": 5}
    assert found.subtopologies is not None
    assert not found.subtopologies["0"].is_stateful


def test_missing_sources_are_named_in_order_the_first_three_of_them() -> None:
    found = configured(reads("0", "t", "d", "c"), reads("1", "b", "a"), t=1)
    detail = "Source topics a, b, c and 1 additional topics are missing."
    assert found.problem == Problem(Status.MISSING_SOURCE_TOPICS, detail)
    assert found.subtopologies is None
    assert not found.missing


def test_changelogs_have_a_partition_for_each_task() -> None:
    found = configured(reads("0", "t", keeps=("c", "d")), t=4)
    assert sizes(found) == {"c": 4, "d": 4}
    assert found.problem == Problem(Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c, d")
    assert found.subtopologies is not None
    assert found.subtopologies["0"].is_stateful


def test_internal_topics_that_exist_make_it_ready() -> None:
    found = configured(reads("0", "t", keeps=("c",)), t=4, c=4)
    assert found.is_ready
    assert not found.missing


def test_an_internal_topic_of_another_size_is_in_the_way() -> None:
    found = configured(reads("0", "t", keeps=("c",)), t=4, c=3)
    assert found.problem == Problem(
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic c has different number of partitions: expected 4, found 3",
    )
    assert found.subtopologies is None


def test_a_repartition_topic_is_as_large_as_what_feeds_it_through_others_too() -> None:
    found = configured(
        reads("0", "t", writes=("r",)),
        reads("1", through={"r": 0}, writes=("s",)),
        reads("2", through={"s": 0}, keeps=("c",)),
        t=6,
    )
    assert sizes(found) == {"r": 6, "s": 6, "c": 6}
    assert tasks(found) == {"0": 6, "1": 6, "2": 6}


def test_a_repartition_topic_of_given_size_keeps_it() -> None:
    found = configured(reads("0", "t", writes=("r",)), reads("1", through={"r": 2}, keeps=("c",)), t=6)
    assert sizes(found) == {"r": 2, "c": 2}


def test_copartitioned_repartition_topics_are_as_large_as_the_sources_beside_them() -> None:
    found = configured(
        reads("0", "t", writes=("r",)), reads("1", "u", through={"r": 0}, is_copartitioned=True), t=6, u=3
    )
    assert sizes(found) == {"r": 3}
    assert tasks(found) == {"0": 6, "1": 3}


def test_copartitioned_repartition_topics_without_sources_are_as_large_as_the_largest() -> None:
    found = configured(
        reads("0", "t", writes=("r",)),
        reads("1", "u", writes=("s",)),
        reads("2", through={"r": 0, "s": 0}, is_copartitioned=True),
        t=6,
        u=3,
    )
    assert sizes(found) == {"r": 6, "s": 6}


def test_copartitioned_topics_of_different_sizes_do_not_fit() -> None:
    found = configured(reads("0", "t", "u", is_copartitioned=True), t=2, u=3)
    assert found.problem is not None
    assert found.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert "t=2, u=3" in found.problem.detail
    found = configured(reads("0", "t", writes=("r",)), reads("1", "t", through={"r": 3}, is_copartitioned=True), t=2)
    assert found.problem is not None
    assert found.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS


def test_a_long_chain_that_is_given_backwards_is_sized_at_once() -> None:
    count = 20_000
    chain = [reads(str(number), through={f"r{number}": 0}, writes=(f"r{number + 1}",)) for number in range(count)]
    found = configured(
        *reversed(chain), reads("last", through={f"r{count}": 0}), reads("first", "t", writes=("r0",)), t=3
    )
    assert sizes(found) == {f"r{number}": 3 for number in range(count + 1)}


@pytest.mark.parametrize(
    "subtopologies",
    [
        pytest.param([reads("0", "t"), reads("1", through={"r": 0})], id="nothing writes r"),
        pytest.param(
            [reads("0", through={"r": 0}, writes=("s",)), reads("1", through={"s": 0}, writes=("r",))], id="a loop"
        ),
        pytest.param([reads("0", keeps=("c",))], id="nothing is read"),
    ],
)
def test_a_topology_that_no_topics_could_make_work_is_invalid(subtopologies: list[Subtopology]) -> None:
    with pytest.raises(StreamsInvalidTopology):
        configured(*subtopologies, t=1)

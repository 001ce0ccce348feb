"""Topologies as requests and records hold them."""

from __future__ import annotations

import pytest

from kmini.broker.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    read_topology,
    stored_subtopologies,
    topology_from,
)
from kmini.protocol.errors import StreamsInvalidTopology
from kmini.protocol.messages import streams_group_heartbeat as sent


def subtopology(name: str, *sources: str, groups: tuple[CopartitionGroup, ...] = ()) -> Subtopology:
    repartitions = (InternalTopic("r0", 3), InternalTopic("r1"))
    return Subtopology(name, sources, (), (InternalTopic("c"),), ("out",), repartitions, groups)


def test_a_request_is_read_with_all_that_it_says_and_stored_as_it_came() -> None:
    given = sent.Subtopology(
        subtopology_id="1",
        source_topics=["t"],
        source_topic_regex=[],
        state_changelog_topics=[
            sent.TopicInfo(
                name="c",
                partitions=0,
                replication_factor=2,
                topic_configs=[sent.KeyValue(key="cleanup.policy", value="compact")],
            )
        ],
        repartition_sink_topics=["out"],
        repartition_source_topics=[sent.TopicInfo(name="r", partitions=3, replication_factor=0, topic_configs=[])],
        copartition_groups=[
            sent.CopartitionGroup(source_topics=[0], source_topic_regex=[], repartition_source_topics=[0])
        ],
    )
    topology = read_topology(7, [given])
    assert topology.epoch == 7
    (read,) = topology.subtopologies.values()
    assert read == Subtopology(
        "1",
        ("t",),
        (),
        (InternalTopic("c", 0, 2, (("cleanup.policy", "compact"),)),),
        ("out",),
        (InternalTopic("r", 3),),
        (CopartitionGroup((0,), (), (0,)),),
    )
    assert stored_subtopologies(topology) == [given]
    assert topology.required_topics == {"t", "r", "c"}  # what it writes is read by another subtopology
    assert topology.readers == {"t": "1", "r": "1"}
    assert [*read.copartitioned()] == [{"t", "r"}]


def test_topologies_are_equal_whatever_the_order_of_their_subtopologies() -> None:
    first, second = subtopology("0", "a"), subtopology("1", "b")
    assert topology_from(1, [first, second]) == topology_from(1, [second, first])
    assert topology_from(1, [first, second]) != topology_from(2, [first, second])
    assert topology_from(1, [first]) != topology_from(1, [subtopology("0", "b")])


def test_a_negative_epoch_and_a_double_id_are_invalid() -> None:
    with pytest.raises(StreamsInvalidTopology):
        topology_from(-1, [])
    with pytest.raises(StreamsInvalidTopology):
        topology_from(0, [subtopology("0", "a"), subtopology("0", "b")])


@pytest.mark.parametrize(
    "group", [CopartitionGroup((1,), (), ()), CopartitionGroup((-1,), (), ()), CopartitionGroup((), (), (2,))]
)
def test_a_copartition_group_with_an_index_of_no_topic_is_invalid(group: CopartitionGroup) -> None:
    with pytest.raises(StreamsInvalidTopology):
        [*subtopology("0", "a", groups=(group,)).copartitioned()]

"""The partitions of the tasks at an endpoint."""

from __future__ import annotations

from kmini.broker.groups.streams.endpoints import EndpointPartitions, endpoint_partitions
from kmini.broker.groups.streams.task_members import CurrentTasks, TaskState
from kmini.broker.groups.streams.topology import InternalTopic, Subtopology, topology_from

TOPOLOGY = topology_from(
    0,
    [
        Subtopology("0", ("t", "small"), (), (), ("r",), (), ()),
        Subtopology("1", (), (), (InternalTopic("c"),), (), (InternalTopic("r"),), ()),
    ],
)
SIZES = {"t": 4, "small": 1, "r": 4}


def test_an_endpoint_has_the_source_and_repartition_topics_of_its_tasks() -> None:
    current = CurrentTasks(1, 0, TaskState.STABLE, {"0": {2: 1, 0: 1}}, {"1": frozenset({3})})
    assert endpoint_partitions(("h", 1), current, TOPOLOGY, SIZES.__getitem__) == EndpointPartitions(
        ("h", 1), {"small": (0,), "t": (0, 2)}, {"r": (3,)}
    )


def test_tasks_of_a_subtopology_that_is_not_known_have_none() -> None:
    current = CurrentTasks(1, 0, TaskState.STABLE, {"9": {0: 1}})
    assert endpoint_partitions(("h", 1), current, TOPOLOGY, SIZES.__getitem__) == EndpointPartitions(("h", 1), {}, {})

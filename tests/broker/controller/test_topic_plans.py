"""What a new topic, or new partitions of one, will be: the rules in Kafka's order, with nothing made yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kmini.broker.controller.controller import Controller
from kmini.broker.controller.topic_plans import (
    CLUSTER_METADATA,
    MAX_NEW_PARTITIONS,
    plan,
    plan_missing,
    plan_partitions,
)
from kmini.broker.controller.topology import BrokerRegistration, Topic
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.broker.settings.dynamic_config import DynamicBrokerConfig
from kmini.protocol.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
)
from kmini.protocol.topics import CONSUMER_OFFSETS
from kmini.storage.filesystem import OsFileSystem

SETTINGS = {"num.partitions": "4", "default.replication.factor": "2", "offsets.topic.num.partitions": "5"}


class Creator(NamedTuple):
    """The broker through which topics are created."""

    controller: Controller
    config: DynamicBrokerConfig


@pytest.fixture
def creator(tmp_path: Path) -> Iterator[Creator]:
    """Three live brokers, and a topic t of two partitions on brokers 1 and 2."""
    controller = Controller.open(str(tmp_path), node_ids=[1, 2, 3], filesystem=OsFileSystem(synced=False))
    for node_id in (1, 2, 3):
        controller.register(BrokerRegistration(node_id))
    controller.create_topics([controller.new_topic("t", [(1, 2), (2, 1)], {})])
    yield Creator(controller, DynamicBrokerConfig(BrokerConfig.parse(SETTINGS)))
    controller.close()


def replicas(topic: Topic) -> list[tuple[int, ...]]:
    return [state.replicas for state in topic.partitions]


# --- a new topic


def test_the_brokers_defaults_fill_what_is_not_given(creator: Creator) -> None:
    planned = plan(creator, "new")
    assert (len(planned.partitions), planned.replication_factor, planned.configs) == (4, 2, {})
    assert creator.controller.topic("new") is None


def test_counts_and_settings_are_taken_as_given(creator: Creator) -> None:
    planned = plan(creator, "new", partitions=1, replication_factor=3, configs={"cleanup.policy": "compact"})
    assert (len(planned.partitions), planned.replication_factor) == (1, 3)
    assert planned.configs == {"cleanup.policy": "compact"}


def test_an_assignment_is_taken_in_the_order_of_the_numbers(creator: Creator) -> None:
    assert replicas(plan(creator, "new", assignment=[(1, (3, 1)), (0, (2, 3))])) == [(2, 3), (3, 1)]


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"name": CLUSTER_METADATA}, InvalidRequest),
        ({"name": "t"}, TopicAlreadyExists),
        ({"name": "a/b"}, InvalidTopic),
        ({"configs": {"retention.ms": None}}, InvalidConfig),
        ({"configs": {"retention.msec": "1"}}, InvalidConfig),
        ({"partitions": 0}, InvalidPartitions),
        ({"partitions": -2}, InvalidPartitions),
        ({"replication_factor": 0}, InvalidReplicationFactor),
        ({"replication_factor": 4}, InvalidReplicationFactor),
        ({"partitions": MAX_NEW_PARTITIONS + 1}, PolicyViolation),
        ({"partitions": 3, "room": 2}, PolicyViolation),
        ({"partitions": 1, "assignment": [(0, (1,))]}, InvalidRequest),
        ({"assignment": [(0, (1,)), (0, (2,))]}, InvalidReplicaAssignment),
        ({"assignment": [(0, (1,)), (2, (2,))]}, InvalidReplicaAssignment),
        ({"assignment": [(0, (1, 2)), (1, (2,))]}, InvalidReplicaAssignment),
        ({"assignment": [(0, ())]}, InvalidReplicaAssignment),
        ({"assignment": [(0, (1, 1))]}, InvalidReplicaAssignment),
        ({"assignment": [(0, (9,))]}, InvalidReplicaAssignment),
    ],
)
def test_a_broken_rule_has_kafkas_error(creator: Creator, wishes: dict[str, Any], error: type[KafkaError]) -> None:
    with pytest.raises(error):
        plan(creator, **{"name": "new", **wishes})


def test_names_that_share_their_metrics_collide(creator: Creator) -> None:
    creator.controller.create_topics([creator.controller.new_topic("a.b", [(1,)], {})])
    with pytest.raises(InvalidTopic, match=r"a\.b"):
        plan(creator, "a_b")


# --- more partitions


def test_only_the_missing_partitions_are_planned(creator: Creator) -> None:
    planned = plan_partitions(creator, creator.controller.topics["t"], 5, None, MAX_NEW_PARTITIONS)
    assert [len(nodes) for nodes in planned] == [2, 2, 2]


def test_an_assignment_gives_the_replicas_of_the_missing_ones(creator: Creator) -> None:
    assert plan_partitions(creator, creator.controller.topics["t"], 3, [(3, 1)], MAX_NEW_PARTITIONS) == [(3, 1)]


@pytest.mark.parametrize(
    ("count", "assignment", "room", "error"),
    [
        (2, None, 10, InvalidPartitions),
        (1, None, 10, InvalidPartitions),
        (5, None, 2, PolicyViolation),
        (4, [(1, 2)], 10, InvalidReplicaAssignment),
        (3, [(1,)], 10, InvalidReplicaAssignment),
        (3, [(1, 9)], 10, InvalidReplicaAssignment),
    ],
)
def test_a_broken_rule_about_more_partitions_has_kafkas_error(
    creator: Creator, count: int, assignment: list[tuple[int, ...]] | None, room: int, error: type[KafkaError]
) -> None:
    with pytest.raises(error):
        plan_partitions(creator, creator.controller.topics["t"], count, assignment, room)


# --- topics that a request needs


def test_an_internal_topic_has_its_own_shape(creator: Creator) -> None:
    planned = plan_missing(creator, CONSUMER_OFFSETS)
    assert len(planned.partitions) == 5
    assert planned.configs["cleanup.policy"] == "compact"


def test_any_other_topic_has_the_defaults(creator: Creator) -> None:
    assert len(plan_missing(creator, "other").partitions) == 4

"""Plans of topics: a request's wishes, checked in Kafka's order, with the broker's defaults for the rest.

A plan makes nothing. It holds for as long as nothing else runs: `topics.py` makes it real, or finds that the name was
taken meanwhile. Which names collide, `Controller.colliding_topic` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...protocol.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    TopicAlreadyExists,
)
from ...protocol.topics import is_internal, validate_topic_name
from ...storage.config_key import shorten
from ...storage.log_config import LogConfig
from ..coordinators import internal_topics
from ..settings.dynamic_config import DynamicBrokerConfig
from .controller import Controller, Topic

DEFAULT = -1
"""As a number of partitions or replicas: what the broker's settings say."""

CLUSTER_METADATA = "__cluster_metadata"
"""The name of a log of Kafka's own, whose folder no topic may have."""

MAX_NEW_PARTITIONS = 10_000
"""The most partitions one request may make; Kafka's limit too."""


class TopicCreator(Protocol):
    """The broker through which a topic is created: its settings give the defaults."""

    @property
    def controller(self) -> Controller: ...

    @property
    def config(self) -> DynamicBrokerConfig: ...


def plan(
    broker: TopicCreator,
    name: str,
    *,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    assignment: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
    room: int = MAX_NEW_PARTITIONS,
) -> Topic:
    """The topic that these wishes amount to, not yet made. Raises the KafkaError of the first rule broken, in Kafka's
    order.

    `assignment` gives partition numbers with their replicas, and excludes the two counts. `room` is the most partitions
    it may have: what is left to the request of MAX_NEW_PARTITIONS.
    """
    controller = broker.controller
    if name == CLUSTER_METADATA:
        raise InvalidRequest(f"{name} cannot be created")
    if controller.topic(name) is not None or controller.is_leaving(name):
        raise TopicAlreadyExists(f"there is a topic {name} already")
    validate_topic_name(name)
    if collision := controller.colliding_topic(name):
        raise InvalidTopic(f"{name} and the existing topic {collision} would have the same metrics")
    settings = _checked_configs(broker, configs or {})
    if assignment:
        if (partitions, replication_factor) != (DEFAULT, DEFAULT):
            raise InvalidRequest("partitions are either assigned or counted: with an assignment both counts are -1")
        replicas = _checked_assignment(broker, assignment, room)
    else:
        replicas = _assign(broker, name, partitions, replication_factor, room)
    return controller.new_topic(name, replicas, settings)


def plan_partitions(
    broker: TopicCreator, topic: Topic, count: int, assignment: Sequence[Sequence[int]] | None, room: int
) -> list[tuple[int, ...]]:
    """The replicas of each partition that `topic` lacks to have `count`. Raises the KafkaError of the first rule
    broken, in Kafka's order.

    `assignment` gives those replicas; `room` is as for `plan`.
    """
    present = len(topic.partitions)
    if count == present:
        raise InvalidPartitions(f"{topic.name} has {present} partitions already")
    if count < present:
        raise InvalidPartitions(f"{topic.name} has {present} partitions, and {count} would be no more: none is removed")
    if assignment is None:
        _check_size(count - present, room)
        return broker.controller.assign(count - present, topic.replication_factor, _first(topic.name, present))
    if len(assignment) != count - present:
        raise InvalidReplicaAssignment(f"{count - present} partitions come to be, and {len(assignment)} are assigned")
    _check_size(count - present, room)
    for number, replicas in enumerate(assignment, present):
        _check_replicas(number, replicas, broker.controller)
        if len(replicas) != topic.replication_factor:
            raise InvalidReplicaAssignment(
                f"partition {number} has {len(replicas)} replicas, the others have {topic.replication_factor}"
            )
    return [tuple(replicas) for replicas in assignment]


def plan_missing(broker: TopicCreator, name: str, *, room: int = MAX_NEW_PARTITIONS) -> Topic:
    """Plan a topic that a request needs: an internal one in its own shape, others by the defaults.

    Raises KafkaError, as `plan` does.
    """
    shape = internal_topics.shape_of(name, broker.config.current, len(broker.controller.registered))
    if shape is None:
        return plan(broker, name, room=room)
    return plan(broker, name, **shape._asdict(), room=room)


def _checked_configs(broker: TopicCreator, configs: Mapping[str, str | None]) -> dict[str, str]:
    settings = {name: value for name, value in configs.items() if value is not None}
    if len(settings) < len(configs):
        nulls = ", ".join(shorten(name) for name in configs if name not in settings)
        raise InvalidConfig(f"a topic setting cannot be null: {nulls}")
    LogConfig.parse(settings, broker.config.current.log_config)
    return settings


def _assign(
    broker: TopicCreator, name: str, partitions: int, replication_factor: int, room: int
) -> list[tuple[int, ...]]:
    if replication_factor < DEFAULT or replication_factor == 0:
        raise InvalidReplicationFactor(
            f"a topic has at least 1 replica, or -1 for the default, not {replication_factor}"
        )
    if partitions < DEFAULT or partitions == 0:
        raise InvalidPartitions(f"a topic has at least 1 partition, or -1 for the default, not {partitions}")
    if partitions == DEFAULT:
        partitions = broker.config.current.num_partitions
    if replication_factor == DEFAULT:
        replication_factor = broker.config.current.default_replication_factor
    _check_size(partitions, room)
    return broker.controller.assign(partitions, replication_factor, _first(name, 0))


def _first(name: str, number: int) -> int | None:
    """From which partition on replicas are assigned, for a topic that is placed by rule: partition p of an internal
    topic begins at the p-th broker, so coordinators do not depend on which topic was created first."""
    return number if is_internal(name) else None


def _checked_assignment(
    broker: TopicCreator, assignment: Sequence[tuple[int, Sequence[int]]], room: int
) -> list[tuple[int, ...]]:
    _check_size(len(assignment), room)
    by_number: dict[int, tuple[int, ...]] = {}
    for number, replicas in assignment:
        if number in by_number:
            raise InvalidReplicaAssignment(f"partition {number} is assigned twice")
        _check_replicas(number, replicas, broker.controller)
        by_number[number] = tuple(replicas)
    if set(by_number) != set(range(len(by_number))):
        raise InvalidReplicaAssignment("partitions are numbered from 0 without gaps")
    if len({len(replicas) for replicas in by_number.values()}) > 1:
        raise InvalidReplicaAssignment("all partitions have the same number of replicas")
    return [by_number[number] for number in range(len(by_number))]


def _check_replicas(number: int, replicas: Sequence[int], controller: Controller) -> None:
    if not replicas:
        raise InvalidReplicaAssignment(f"partition {number} has no replicas")
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"partition {number} has a broker twice among its replicas")
    if unknown := set(replicas).difference(controller.registered):
        raise InvalidReplicaAssignment(f"partition {number} is given to broker {min(unknown)}, which is not there")
    if not any(map(controller.is_live, replicas)):
        raise InvalidReplicaAssignment(f"partition {number} is given to brokers of which none is live")


def _check_size(partitions: int, room: int) -> None:
    if partitions > room:
        raise PolicyViolation(f"one request can make {MAX_NEW_PARTITIONS} partitions")

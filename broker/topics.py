"""Making and removing topics, for whoever asks: CreateTopics, auto-creation, the embedded broker, start-up.

A topic is in the controller's database before its folders exist, and out of it before they go; what a kill leaves
half-done, `reconcile` finishes at the next start. A topic that was created is ready: every partition has its leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..protocol.errors import (
    InconsistentTopicId,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ..protocol.topics import TopicPartition, validate_topic_name
from ..protocol.uuids import ZERO_UUID, format_uuid, random_uuid
from ..storage.config import LogConfig
from ..storage.config_key import shorten
from . import internal_topics
from .controller import PartitionState, Topic

if TYPE_CHECKING:
    from ..storage.log import PartitionLog
    from .broker import Broker

log = logging.getLogger("kmini.topics")

DEFAULT = -1
"""As a number of partitions or replicas: what the broker's settings say."""

CLUSTER_METADATA = "__cluster_metadata"
"""The name of a log of Kafka's own, whose folder no topic may have."""

MAX_NEW_PARTITIONS = 10_000
"""The most partitions one request may make; Kafka's limit too."""

_PARTITIONS_A_TURN = 8
"""Partitions made or removed before other requests get the loop."""


def plan(
    broker: Broker,
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
        replicas = _assign(broker, partitions, replication_factor, room)
    return controller.new_topic(name, replicas, settings)


def plan_partitions(
    broker: Broker, topic: Topic, count: int, assignment: Sequence[Sequence[int]] | None, room: int
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
        return broker.controller.assign(count - present, topic.replication_factor)
    if len(assignment) != count - present:
        raise InvalidReplicaAssignment(f"{count - present} partitions come to be, and {len(assignment)} are assigned")
    _check_size(count - present, room)
    known = {registered.node_id for registered in broker.controller.brokers}
    for number, replicas in enumerate(assignment, present):
        _check_replicas(number, replicas, known)
        if len(replicas) != topic.replication_factor:
            raise InvalidReplicaAssignment(
                f"partition {number} has {len(replicas)} replicas, the others have {topic.replication_factor}"
            )
    return [tuple(replicas) for replicas in assignment]


def plan_missing(broker: Broker, name: str, *, room: int = MAX_NEW_PARTITIONS) -> Topic:
    """The topic that comes to be because somebody needs it: an internal one in its own shape, others by the defaults.

    Raises KafkaError, as `plan` does.
    """
    shape = internal_topics.shape_of(broker, name)
    if shape is None:
        return plan(broker, name, room=room)
    return plan(broker, name, **shape._asdict(), room=room)


def _checked_configs(broker: Broker, configs: Mapping[str, str | None]) -> dict[str, str]:
    settings = {name: value for name, value in configs.items() if value is not None}
    if len(settings) < len(configs):
        nulls = ", ".join(shorten(name) for name in configs if name not in settings)
        raise InvalidConfig(f"a topic setting cannot be null: {nulls}")
    LogConfig.parse(settings, broker.config.log_config)
    return settings


def _assign(broker: Broker, partitions: int, replication_factor: int, room: int) -> list[tuple[int, ...]]:
    if replication_factor < DEFAULT or replication_factor == 0:
        raise InvalidReplicationFactor(
            f"a topic has at least 1 replica, or -1 for the default, not {replication_factor}"
        )
    if partitions < DEFAULT or partitions == 0:
        raise InvalidPartitions(f"a topic has at least 1 partition, or -1 for the default, not {partitions}")
    if partitions == DEFAULT:
        partitions = broker.config.num_partitions
    if replication_factor == DEFAULT:
        replication_factor = broker.config.default_replication_factor
    _check_size(partitions, room)
    return broker.controller.assign(partitions, replication_factor)


def _checked_assignment(
    broker: Broker, assignment: Sequence[tuple[int, Sequence[int]]], room: int
) -> list[tuple[int, ...]]:
    _check_size(len(assignment), room)
    known = {registered.node_id for registered in broker.controller.brokers}
    by_number: dict[int, tuple[int, ...]] = {}
    for number, replicas in assignment:
        if number in by_number:
            raise InvalidReplicaAssignment(f"partition {number} is assigned twice")
        _check_replicas(number, replicas, known)
        by_number[number] = tuple(replicas)
    if set(by_number) != set(range(len(by_number))):
        raise InvalidReplicaAssignment("partitions are numbered from 0 without gaps")
    if len({len(replicas) for replicas in by_number.values()}) > 1:
        raise InvalidReplicaAssignment("all partitions have the same number of replicas")
    return [by_number[number] for number in range(len(by_number))]


def _check_replicas(number: int, replicas: Sequence[int], known: Collection[int]) -> None:
    if not replicas:
        raise InvalidReplicaAssignment(f"partition {number} has no replicas")
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"partition {number} has a broker twice among its replicas")
    if unknown := set(replicas).difference(known):
        raise InvalidReplicaAssignment(f"partition {number} is given to broker {min(unknown)}, which is not there")


def _check_size(partitions: int, room: int) -> None:
    if partitions > room:
        raise PolicyViolation(f"one request can make {MAX_NEW_PARTITIONS} partitions")


def create(
    broker: Broker,
    name: str,
    *,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    configs: Mapping[str, str | None] | None = None,
) -> Topic:
    """Make a topic, ready when this returns. Raises KafkaError, and then there is no topic.

    It holds the loop until then: for many partitions at a client's wish there is `create_all`.
    """
    return _make(
        broker, plan(broker, name, partitions=partitions, replication_factor=replication_factor, configs=configs)
    )


def create_missing(broker: Broker, name: str) -> Topic:
    """Make the topic that somebody needs, as `plan_missing` says; otherwise as `create`."""
    return _make(broker, plan_missing(broker, name))


def _make(broker: Broker, topic: Topic) -> Topic:
    broker.controller.create_topics([topic])
    try:
        _at_once(_host_all(broker, [topic]))
    except KafkaError:
        broker.controller.delete_topics([topic])
        _at_once(_drop_all(broker, [topic]))
        raise
    return topic


async def create_all(broker: Broker, topics: Sequence[Topic]) -> list[Topic]:
    """Make planned topics, in one transaction; they are ready when this returns. Raises KafkaError, and then none is.

    Left out, and returned, are those whose names were taken since they were planned.
    """
    controller = broker.controller
    late = [topic for topic in topics if controller.topic(topic.name) or controller.is_leaving(topic.name)]
    new = [topic for topic in topics if topic not in late]
    if new:
        controller.create_topics(new)
        try:
            await _in_turns(_host_all(broker, new))
        except KafkaError:
            await delete_all(broker, new)
            raise
    return late


async def add_partitions(broker: Broker, topic: Topic, assignment: Sequence[Sequence[int]]) -> None:
    """Give a topic the partitions that `plan_partitions` has just found for it; they are ready when this returns.

    Raises KafkaError, and then there are none.
    """
    first = len(topic.partitions)
    grown = broker.controller.add_partitions(topic, assignment)
    try:
        await _in_turns(_host_all(broker, [grown], first=first))
    except KafkaError:
        await _take_back(broker, grown, first)
        raise


async def _take_back(broker: Broker, grown: Topic, count: int) -> None:
    """Undo what was made of partitions from `count` on, unless more have come since, or the topic has gone."""
    current = broker.controller.topic_by_id(grown.id)
    if current is None:
        return
    if len(current.partitions) > len(grown.partitions):
        log.error("partitions of %s from %d on are not led before the next start", grown.name, count)
        return
    broker.controller.take_back_partitions(current, count)
    for number in range(count, len(grown.partitions)):
        broker.drop(TopicPartition(grown.name, number))


def delete(broker: Broker, name: str) -> None:
    """Remove a topic and, after `file.delete.delay.ms`, its files. Raises UnknownTopicOrPartition."""
    topic = broker.controller.topic(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {name}")
    broker.controller.delete_topics([topic])
    _at_once(_drop_all(broker, [topic]))


async def delete_all(broker: Broker, topics: Sequence[Topic]) -> None:
    """Remove topics, in one transaction. Raises KafkaError, and then all are still there.

    Each goes as it is now, with partitions that came since it was looked up.
    """
    controller = broker.controller
    current = [known for topic in topics if (known := controller.topic_by_id(topic.id))]
    if current:
        controller.delete_topics(current)
        await _in_turns(_drop_all(broker, current))


def reconcile(broker: Broker) -> None:
    """At start-up, bring folders and database together, and lead what is ours. The database is right.

    Folders of deleted topics and folders that were half-made for no topic go; partitions without a folder get one.
    Folders of a topic that the database never saw are taken in, so that a log directory without its database still
    serves its records. A folder that contradicts the database is left alone and not served.
    """
    controller = broker.controller
    deleted = controller.deleted_topic_ids()
    gone = set(deleted)
    unknown: dict[str, list[PartitionLog]] = {}
    for topic_partition, partition_log in list(broker.logs.logs.items()):
        topic_id = partition_log.topic_id
        try:
            if topic_id in deleted:
                broker.logs.delete(topic_partition)
            elif controller.topic(topic_partition.topic) is None:
                if topic_id == ZERO_UUID and not partition_log.size_bytes:
                    broker.logs.remove(topic_partition)
                else:
                    unknown.setdefault(topic_partition.topic, []).append(partition_log)
        except (KafkaError, OSError) as error:  # the next start tries again
            log.error("the folder of %s, of no topic any more, cannot be put away: %s", topic_partition, error)
            gone.discard(topic_id)
    controller.forget_deleted(gone)
    for name, its_logs in unknown.items():
        _adopt(broker, name, its_logs)
    controller.begin_leader_epochs(broker.config.node_id)
    _at_once(_host_all(broker, controller.topics.values(), spare_failures=True))


def _adopt(broker: Broker, name: str, its_logs: Sequence[PartitionLog]) -> None:
    """Enter a topic into the database from its folders, with the last leader epochs of its logs."""
    if max(partition_log.topic_partition.partition for partition_log in its_logs) >= MAX_NEW_PARTITIONS:
        log.warning("topic %s is not in the database, and its folders count too high: left alone", name)
        return
    topic_id = max(partition_log.topic_id for partition_log in its_logs)  # any that is not zero
    epochs = {
        partition_log.topic_partition.partition: max(partition_log.leader_epochs.latest_epoch, 0)
        for partition_log in its_logs
    }
    partitions = tuple(
        PartitionState((broker.config.node_id,), (broker.config.node_id,), broker.config.node_id, epochs.get(number, 0))
        for number in range(max(epochs) + 1)
    )
    shape = internal_topics.shape_of(broker, name)  # whose records must not fall to the retention of ordinary topics
    configs = {} if shape is None else shape.configs
    topic = Topic(name, random_uuid() if topic_id == ZERO_UUID else topic_id, partitions, configs)
    if broker.controller.topic_by_id(topic.id) is None:
        broker.controller.create_topics([topic])
        for partition_log in its_logs:  # they were loaded with the defaults, for want of a topic
            partition_log.config = log_config(topic, broker.config.log_config)
        log.warning("took in topic %s, %d partitions: folders unknown to the database", name, len(partitions))


def log_config(topic: Topic | None, defaults: LogConfig) -> LogConfig:
    """The settings of a topic's logs; those of a topic that is not known are the broker's defaults.

    What is in the database was checked once. Where it does not fit the broker's defaults of today, which may have been
    changed since, they are not taken: no start fails for it, and a topic's own settings stay in force.
    """
    configs = topic.configs if topic else {}
    try:
        return LogConfig.parse(configs, defaults)
    except InvalidConfig as error:
        log.error("topic %s does without the broker's defaults: %s", topic.name if topic else "", error.message)
        return LogConfig.parse(configs)


def _host_all(
    broker: Broker, topics: Iterable[Topic], *, first: int = 0, spare_failures: bool = False
) -> Iterator[None]:
    """Lead our partitions of `topics`, those from `first` on, making their folders if need be; a step is one partition.

    A topic that is deleted meanwhile is left; settings that change meanwhile are those of the partitions that follow.
    With `spare_failures` a partition that cannot be led is logged, and left.
    """
    controller = broker.controller
    for topic in topics:
        known, defaults = topic, broker.config.log_config
        config = log_config(known, defaults)
        for number, state in enumerate(topic.partitions[first:], first):
            current = controller.topic_by_id(topic.id)
            if current is None:
                break
            if current is not known or broker.config.log_config is not defaults:
                known, defaults = current, broker.config.log_config
                config = log_config(known, defaults)
            if broker.config.node_id in state.replicas:
                try:
                    _host(broker, TopicPartition(topic.name, number), topic.id, config, state.leader_epoch)
                except KafkaError as error:
                    if not spare_failures:
                        raise
                    log.error("cannot lead %s-%d: %s", topic.name, number, error.message)
                yield


def _host(broker: Broker, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, epoch: int) -> None:
    present = broker.logs.get(topic_partition)
    if present is not None and present.topic_id == ZERO_UUID:
        broker.logs.assign_topic_id(topic_partition, topic_id)
    elif present is not None and present.topic_id != topic_id:
        raise InconsistentTopicId(f"its folder belongs to another topic of that name, {format_uuid(present.topic_id)}")
    broker.host(topic_partition, topic_id, config, epoch)


def _drop_all(broker: Broker, topics: Sequence[Topic]) -> Iterator[None]:
    """Stop leading the partitions of deleted topics and put their folders away; a step is one partition."""
    gone = []
    for topic in topics:
        try:
            for number in range(len(topic.partitions)):
                broker.drop(TopicPartition(topic.name, number))
                yield
            broker.metrics.forget(topic.name)
            gone.append(topic.id)
        except KafkaError as error:  # its name stays taken, and the next start tries again
            log.error("the folders of the deleted topic %s cannot be put away: %s", topic.name, error.message)
    broker.controller.forget_deleted(gone)
    topic_ids = {topic.name: topic.id for topic in topics}
    broker.groups.forget_topics(topic_ids)
    broker.transactions.forget_topics(topic_ids)


def _at_once(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


async def _in_turns(steps: Iterator[None]) -> None:
    """Take the steps, a few at a time, so that other requests are served in between."""
    for taken, _ in enumerate(steps, 1):
        if taken % _PARTITIONS_A_TURN == 0:
            await asyncio.sleep(0)

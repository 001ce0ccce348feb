"""Making and removing topics, for whoever asks: CreateTopics, auto-creation, the embedded broker, start-up.

What is made was planned before (`topic_plans.py`). A topic is in the controller's database before its folders exist,
and out of it before they go; what a kill leaves half-done, `reconcile` finishes at the next start. A topic that was
created is ready: every partition has its leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...protocol.errors import InconsistentTopicId, InvalidConfig, KafkaError, UnknownTopicOrPartition
from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID, format_uuid, random_uuid
from ...storage.log_config import LogConfig
from ..coordinators import internal_topics
from .controller import PartitionState, Topic
from .topic_plans import DEFAULT, MAX_NEW_PARTITIONS, plan, plan_missing

if TYPE_CHECKING:
    from ...storage.log import PartitionLog
    from ..broker import Broker

log = logging.getLogger("kmini.topics")

_PARTITIONS_A_TURN = 8
"""Partitions made or removed before other requests get the loop."""


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
        _at_once(_host_all(live(broker), [topic]))
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
            await _in_turns(_host_all(live(broker), new))
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
        await _in_turns(_host_all(live(broker), [grown], first=first))
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
        for host in live(broker):
            host.replica_manager.drop(TopicPartition(grown.name, number))


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
    _forget(broker, gone)
    for name, its_logs in unknown.items():
        _adopt(broker, name, its_logs)
    _at_once(_host_all([broker], controller.topics.values(), spare_failures=True))


def _adopt(broker: Broker, name: str, its_logs: Sequence[PartitionLog]) -> None:
    """Enter a topic into the database from its folders, with a new leader epoch after the last of its logs."""
    if max(partition_log.topic_partition.partition for partition_log in its_logs) >= MAX_NEW_PARTITIONS:
        log.warning("topic %s is not in the database, and its folders count too high: left alone", name)
        return
    topic_id = max(partition_log.topic_id for partition_log in its_logs)  # any that is not zero
    epochs = {
        partition_log.topic_partition.partition: max(partition_log.leader_epochs.latest_epoch, 0)
        for partition_log in its_logs
    }
    partitions = tuple(
        PartitionState(
            (broker.config.node_id,), (broker.config.node_id,), broker.config.node_id, epochs.get(number, 0) + 1
        )
        for number in range(max(epochs) + 1)
    )
    # The records of an internal topic must not fall to the retention of ordinary topics.
    shape = internal_topics.shape_of(name, broker.config, len(broker.controller.brokers))
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


def live(broker: Broker) -> list[Broker]:
    """The brokers of the cluster that are there."""
    return [registered.host for registered in broker.controller.brokers if registered.host is not None]


def _host_all(
    brokers: Sequence[Broker], topics: Iterable[Topic], *, first: int = 0, spare_failures: bool = False
) -> Iterator[None]:
    """Have `brokers` hold their replicas of `topics`, of the partitions from `first` on, with folders made if need be;
    a step is one replica.

    A topic that is deleted meanwhile is left; settings that change meanwhile are those of the partitions that follow.
    With `spare_failures` a replica that cannot be held is logged, and left.
    """
    for topic in topics:
        configs: dict[Broker, tuple[Topic, LogConfig, LogConfig]] = {}
        for number in range(first, len(topic.partitions)):
            for broker in brokers:
                current = broker.controller.topic_by_id(topic.id)
                if current is None:
                    break
                state = current.partitions[number]
                if broker.config.node_id not in state.replicas:
                    continue
                defaults = broker.config.log_config
                known = configs.get(broker)
                if known is None or known[0] is not current or known[1] is not defaults:
                    known = configs[broker] = (current, defaults, log_config(current, defaults))
                try:
                    _host(broker, TopicPartition(topic.name, number), topic.id, known[2], state)
                except KafkaError as error:
                    if not spare_failures:
                        raise
                    log.error("%s-%d cannot be held: %s", topic.name, number, error.message)
                yield


def _host(
    broker: Broker, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, state: PartitionState
) -> None:
    present = broker.logs.get(topic_partition)
    if present is not None and present.topic_id == ZERO_UUID:
        broker.logs.assign_topic_id(topic_partition, topic_id)
    elif present is not None and present.topic_id != topic_id:
        raise InconsistentTopicId(f"its folder belongs to another topic of that name, {format_uuid(present.topic_id)}")
    broker.replica_manager.host(topic_partition, topic_id, config, state)


def _drop_all(broker: Broker, topics: Sequence[Topic]) -> Iterator[None]:
    """Have the live brokers stop serving the partitions of deleted topics, and put their folders away; a step is one
    partition."""
    controller = broker.controller
    topic_ids = {topic.name: topic.id for topic in topics}
    kept: set[bytes] = set()
    for host in live(broker):
        gone = []
        for topic in topics:
            try:
                for number in range(len(topic.partitions)):
                    host.replica_manager.drop(TopicPartition(topic.name, number))
                    yield
                host.metrics.forget(topic.name)
                gone.append(topic.id)
            except KafkaError as error:  # its name stays taken, and the next start tries again
                log.error("the folders of the deleted topic %s cannot be put away: %s", topic.name, error.message)
                kept.add(topic.id)
        _forget(host, gone)
        host.groups.forget_topics(topic_ids)
        host.transactions.forget_topics(topic_ids)
    controller.release_names(topic_id for topic_id in topic_ids.values() if topic_id not in kept)


def _forget(broker: Broker, topic_ids: Collection[bytes]) -> None:
    """Tell the controller that a broker has no folder of these deleted topics any more, once that is on the disk. Where
    the disk refuses, the next start tries again."""
    if topic_ids:
        try:
            broker.logs.sync_names()
            broker.controller.gone_from(broker.config.node_id, topic_ids)
        except KafkaError as error:
            log.error("deleted topics are remembered until the next start: %s", error.message)


def _at_once(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


async def _in_turns(steps: Iterator[None]) -> None:
    """Take the steps, a few at a time, so that other requests are served in between."""
    for taken, _ in enumerate(steps, 1):
        if taken % _PARTITIONS_A_TURN == 0:
            await asyncio.sleep(0)

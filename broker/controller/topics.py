"""Creating and deleting topics: for CreateTopics and DeleteTopics, auto-creation, and the embedded broker.

`topic_plans.py` plans what is created. A topic is in the controller's database before its folders exist, and leaves the
database before they go; what a kill leaves half-done, the next start finishes
(`replication/startup_reconciliation.py`). A created topic is ready: every partition has its leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...protocol.errors import InvalidConfig, KafkaError, UnknownTopicOrPartition
from ...protocol.topics import TopicPartition
from ...storage.log_config import LogConfig
from ..settings.dynamic_config import DynamicBrokerConfig
from .controller import Controller
from .topic_plans import DEFAULT, TopicCreator, plan, plan_missing
from .topology import BrokerHandle, Topic

log = logging.getLogger("kmini.topics")

_PARTITIONS_A_TURN = 8
"""Partitions made or removed before other requests get the loop."""


def create(
    broker: TopicCreator,
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


def create_missing(broker: TopicCreator, name: str) -> Topic:
    """Create a topic that a request needs, as `plan_missing` plans it; otherwise as `create`."""
    return _make(broker, plan_missing(broker, name))


def _make(broker: TopicCreator, topic: Topic) -> Topic:
    broker.controller.create_topics([topic])
    try:
        _at_once(_host_all(broker.controller, [topic]))
    except KafkaError:
        broker.controller.delete_topics([topic])
        _at_once(_drop_all(broker.controller, [topic]))
        raise
    return topic


async def create_all(broker: TopicCreator, topics: Sequence[Topic]) -> list[Topic]:
    """Make planned topics, in one transaction; they are ready when this returns. Raises KafkaError, and then none is.

    Left out, and returned, are those whose names were taken since they were planned.
    """
    controller = broker.controller
    late = [topic for topic in topics if controller.topic(topic.name) or controller.is_leaving(topic.name)]
    new = [topic for topic in topics if topic not in late]
    if new:
        controller.create_topics(new)
        try:
            await _in_turns(_host_all(broker.controller, new))
        except KafkaError:
            await delete_all(broker, new)
            raise
    return late


async def add_partitions(broker: TopicCreator, topic: Topic, assignment: Sequence[Sequence[int]]) -> None:
    """Give a topic the partitions that `plan_partitions` has just found for it; they are ready when this returns.

    Raises KafkaError, and then there are none.
    """
    first = len(topic.partitions)
    grown = broker.controller.add_partitions(topic, assignment)
    try:
        await _in_turns(_host_all(broker.controller, [grown], first=first))
    except KafkaError:
        await _take_back(broker, grown, first)
        raise


async def _take_back(broker: TopicCreator, grown: Topic, count: int) -> None:
    """Undo what was made of partitions from `count` on, unless more have come since, or the topic has gone."""
    current = broker.controller.topic_by_id(grown.id)
    if current is None:
        return
    if len(current.partitions) > len(grown.partitions):
        log.error("partitions of %s from %d on are not led before the next start", grown.name, count)
        return
    broker.controller.take_back_partitions(current, count)
    for number in range(count, len(grown.partitions)):
        for host in live(broker.controller):
            host.replica_manager.drop(TopicPartition(grown.name, number))


def delete(broker: TopicCreator, name: str) -> None:
    """Remove a topic and, after `file.delete.delay.ms`, its files. Raises UnknownTopicOrPartition."""
    topic = broker.controller.topic(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {name}")
    broker.controller.delete_topics([topic])
    _at_once(_drop_all(broker.controller, [topic]))


async def delete_all(broker: TopicCreator, topics: Sequence[Topic]) -> None:
    """Remove topics, in one transaction. Raises KafkaError, and then all are still there.

    Each goes as it is now, with partitions that came since it was looked up.
    """
    controller = broker.controller
    current = [known for topic in topics if (known := controller.topic_by_id(topic.id))]
    if current:
        controller.delete_topics(current)
        await _in_turns(_drop_all(broker.controller, current))


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


def is_unclean_election_allowed(config: DynamicBrokerConfig, topic: Topic) -> bool:
    """unclean.leader.election.enable, as it is in force for a topic."""
    return log_config(topic, config.current.log_config).unclean_leader_election_enable


def live(controller: Controller) -> list[BrokerHandle]:
    """The live brokers."""
    return [registered.broker for registered in controller.brokers if registered.broker is not None]


def _host_all(controller: Controller, topics: Iterable[Topic], *, first: int = 0) -> Iterator[None]:
    """Have the live brokers hold their replicas of `topics`, of the partitions from `first` on, with folders created if
    they are missing; a step is one replica.

    A topic that is deleted meanwhile is left; settings that change meanwhile hold for the partitions that follow.
    """
    brokers = live(controller)
    for topic in topics:
        configs: dict[int, tuple[Topic, LogConfig, LogConfig]] = {}
        for number in range(first, len(topic.partitions)):
            for broker in brokers:
                current = controller.topic_by_id(topic.id)
                if current is None:
                    break
                state = current.partitions[number]
                if broker.node_id not in state.replicas:
                    continue
                defaults = broker.config.current.log_config
                known = configs.get(broker.node_id)
                if known is None or known[0] is not current or known[1] is not defaults:
                    known = configs[broker.node_id] = (current, defaults, log_config(current, defaults))
                broker.replica_manager.host(TopicPartition(topic.name, number), topic.id, known[2], state)
                yield


def _drop_all(controller: Controller, topics: Sequence[Topic]) -> Iterator[None]:
    """Have the live brokers give up the partitions of deleted topics, and put their folders away; a step is one
    partition."""
    topic_ids = {topic.name: topic.id for topic in topics}
    kept: set[bytes] = set()
    for broker in live(controller):
        dropped = []
        for topic in topics:
            try:
                for number in range(len(topic.partitions)):
                    broker.replica_manager.drop(TopicPartition(topic.name, number))
                    yield
                dropped.append(topic.id)
            except KafkaError as error:  # its name stays taken, and the next start tries again
                log.error("the folders of the deleted topic %s cannot be put away: %s", topic.name, error.message)
                kept.add(topic.id)
        broker.replica_manager.confirm_deletion(dropped)
        broker.forget_topics(topic_ids)
    controller.release_names(topic_id for topic_id in topic_ids.values() if topic_id not in kept)


def _at_once(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


async def _in_turns(steps: Iterator[None]) -> None:
    """Take the steps, a few at a time, so that other requests are served in between."""
    for taken, _ in enumerate(steps, 1):
        if taken % _PARTITIONS_A_TURN == 0:
            await asyncio.sleep(0)

"""The topics that a start is to have: those of `--topic`, of KAFKA_CREATE_TOPICS, and of files in an init directory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from kmini.cli.log_output import notice

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer

MOST = 2**31 - 1
EXPECTED = "name:partitions:replicas or name:partitions:replicas:cleanup.policy was expected"


class NewTopic(NamedTuple):
    """A topic that a start creates if it is missing."""

    name: str
    partitions: int
    cleanup_policy: str = ""
    option: str = "--topic"
    """The option, the variable, or the file and line that error messages name."""
    replicas: int = -1
    """Replication factor; -1 for `default.replication.factor`."""

    @property
    def configs(self) -> dict[str, str]:
        return {"cleanup.policy": self.cleanup_policy} if self.cleanup_policy else {}


def parse_topic(text: str, option: str = "--topic ") -> NewTopic:
    """The topic of `--topic`, NAME:PARTITIONS[:compact]. Raises click.UsageError, which begins with `option`."""
    from kmini.protocol.errors import InvalidTopic
    from kmini.protocol.topics import validate_topic_name

    name, _, rest = text.partition(":")
    partitions, _, policy = rest.partition(":")
    if not _is_count(partitions) or policy not in ("", "compact"):
        raise click.UsageError(f"{option}{text}: NAME:PARTITIONS or NAME:PARTITIONS:compact was expected")
    try:
        validate_topic_name(name)
    except InvalidTopic as error:
        raise click.UsageError(f"{option}{text}: {error.message}") from error
    return NewTopic(name, int(partitions), policy)


def parse_topics(text: str, option: str, separator: str = "") -> Iterator[NewTopic]:
    """The topics of KAFKA_CREATE_TOPICS: `name:partitions:replicas[:cleanup.policy]`, separated by commas, line ends,
    or the separator. Raises click.UsageError, which begins with `option`."""
    for item in _items(text, separator):
        name, *rest = (part.strip() for part in item.split(":"))
        counts, policies = rest[:2], rest[2:]
        if len(counts) < 2 or len(policies) > 1 or not all(map(_is_count, counts)):
            raise click.UsageError(f"{option}: {item}: {EXPECTED}")
        yield NewTopic(name, int(counts[0]), "".join(policies), option, int(counts[1]))


def parse_topic_lines(text: str, where: str) -> Iterator[NewTopic]:
    """The topics of a file: lines as in KAFKA_CREATE_TOPICS; `#` begins a comment. Raises click.UsageError, which
    begins with `where` and the line."""
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{where}, line {number}"
        yield from (topic._replace(option=f"{place}:") for topic in parse_topics(line.partition("#")[0], place))


def _is_count(text: str) -> bool:
    """Whether a text is a number from 1 to that of the largest int32."""
    return text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) <= MOST


def _items(text: str, separator: str) -> list[str]:
    """Split the topics. `compact,delete` is one cleanup policy although commas separate topics."""
    separators = ",\n" if separator.startswith("$") else f",\n{separator}"  # bash's $'\n' arrives unexpanded
    items: list[str] = []
    for item in re.split(f"[{re.escape(separators)}]", text):
        item = item.strip()
        if item in ("compact", "delete") and items and items[-1].count(":") == 3:
            items[-1] += f",{item}"
        elif item:
            items.append(item)
    return items


def create_missing(broker: BrokerServer, topics: Iterable[NewTopic]) -> None:
    """Create the missing ones of these topics; an existing topic is not changed. Raises click.UsageError."""
    from kmini.broker.controller.topics import create
    from kmini.protocol.errors import KafkaError

    for topic in topics:
        known = broker.controller.topic(topic.name)
        if known is None:
            try:
                create(
                    broker,
                    topic.name,
                    partitions=topic.partitions,
                    replication_factor=_replicas(topic, len(broker.controller.brokers)),
                    configs=topic.configs,
                )
            except KafkaError as error:
                raise click.UsageError(f"{topic.option} {topic.name}: {error.message}") from error
        elif len(known.partitions) != topic.partitions:
            partitions = "1 partition" if len(known.partitions) == 1 else f"{len(known.partitions)} partitions"
            notice(f"topic {topic.name} exists with {partitions} and stays so")
        elif topic.cleanup_policy:
            policy = known.configs.get("cleanup.policy") or broker.config.current.text_of("log.cleanup.policy") or ""
            if set(policy.split(",")) != set(topic.cleanup_policy.split(",")):
                notice(f"topic {topic.name} exists with cleanup.policy={policy} and stays so")


def _replicas(topic: NewTopic, brokers: int) -> int:
    """The requested replication factor, if there are enough brokers."""
    if topic.replicas <= brokers:
        return topic.replicas
    there_are = "there is one broker" if brokers == 1 else f"there are {brokers} brokers"
    replicas = f"{brokers} {'replica' if brokers == 1 else 'replicas'}"
    notice(f"topic {topic.name} gets {replicas} instead of {topic.replicas}: {there_are}")
    return brokers

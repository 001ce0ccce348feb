"""What a topic is beside its records, asked of a cluster and told to one: partitions, id, settings of its own.

By librdkafka's admin client, which speaks every security protocol and knows of each setting where it comes from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it names no __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
)

from ..clients import Kafka
from .files import ArchiveError

T = TypeVar("T")

QUIET: dict[str, Any] = {"log_level": 0, "log.connection.close": False}
"""librdkafka says on stderr what it raises anyway."""


class Topic(NamedTuple):
    """A topic as its cluster describes it."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    configs: dict[str, str]
    """Settings of its own."""
    known: dict[str, str]
    """What is in force, for every setting that the cluster knows."""


class Topics:
    """The topics of a cluster. ArchiveError, with the topic and what the cluster said, where something fails."""

    def __init__(self, kafka: Kafka, *, timeout_ms: int = 30_000) -> None:
        self._kafka = kafka
        self._timeout = timeout_ms / 1000
        try:
            self._admin = AdminClient({**kafka.admin_config(), **QUIET})
        except KafkaException as error:
            raise ArchiveError(f"the settings of the client: {reads(error.args[0])}") from error

    def find(self, name: str) -> Topic | None:
        """None if there is no such topic."""
        described = self._ask(
            name, lambda: self._one(self._admin.describe_topics, TopicCollection([name])), missing_ok=True
        )
        if described is None:
            return None
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        entries = self._ask(name, lambda: self._one(self._admin.describe_configs, [resource]))
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return Topic(
            name,
            str(described.topic_id) if described.topic_id is not None else None,
            len(described.partitions),
            len(described.partitions[0].replicas),
            {key: entry.value for key, entry in entries.items() if entry.source == own and entry.value is not None},
            {key: entry.value for key, entry in entries.items()},
        )

    def get(self, name: str) -> Topic:
        if (topic := self.find(name)) is None:
            raise ArchiveError(f"{name}: there is no such topic at {self._kafka.servers}")
        return topic

    def wait_for(self, name: str) -> Topic:
        """The same for a topic that was just created: Apache Kafka's brokers learn of it a moment later."""
        deadline = time.monotonic() + self._timeout
        while (topic := self.find(name)) is None:
            if time.monotonic() > deadline:
                raise ArchiveError(f"{name}: it was created, but no broker knows it")
            time.sleep(0.05)
        return topic

    def create(self, name: str, partitions: int, configs: Mapping[str, str], replication_factor: int = -1) -> None:
        """`replication_factor` -1 is the cluster's default."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=dict(configs))
        self._ask(name, lambda: self._one(self._admin.create_topics, [new], operation_timeout=self._timeout))

    def alter(self, name: str, configs: Mapping[str, str | None]) -> dict[str, str]:
        """Give settings these values, or with None their default. Returns those that were refused, with the reason:
        all others are in force."""
        if not configs:
            return {}
        try:
            self._alter(name, configs)
        except ArchiveError as error:
            if len(configs) == 1:
                return dict.fromkeys(configs, str(error).removeprefix(f"{name}: "))
            return {key: reason for one in configs for key, reason in self.alter(name, {one: configs[one]}).items()}
        return {}

    def _alter(self, name: str, configs: Mapping[str, str | None]) -> None:
        changes = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=changes)
        self._ask(name, lambda: self._one(self._admin.incremental_alter_configs, [resource]))

    def end_offsets(self, name: str, partitions: int) -> dict[int, int]:
        """The high watermark of each partition."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(name, partition): latest for partition in range(partitions)}
        found = self._ask(
            name,
            lambda: self._all(
                self._admin.list_offsets,
                wanted,
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
            ),
        )
        return {partition.partition: result.offset for partition, result in found.items()}

    def _ask(self, name: str, ask: Callable[[], Any], *, missing_ok: bool = False) -> Any:
        try:
            return ask()
        except KafkaException as error:
            told = error.args[0]
            if missing_ok and told.name() == "UNKNOWN_TOPIC_OR_PART":
                return None
            if told.name() in ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN"):
                raise ArchiveError(f"{name}: no broker answers at {self._kafka.servers}") from error
            raise ArchiveError(f"{name}: {reads(told)}") from error

    def _one(self, method: Callable[..., Mapping[Any, Future[T]]], *arguments: Any, **options: Any) -> T:
        (future,) = method(*arguments, request_timeout=self._timeout, **options).values()
        return future.result()

    def _all(self, method: Callable[..., Mapping[Any, Future[T]]], *arguments: Any, **options: Any) -> dict[Any, T]:
        futures = method(*arguments, request_timeout=self._timeout, **options)
        return {key: future.result() for key, future in futures.items()}


def reads(error: Any) -> str:
    """A KafkaError of confluent-kafka as people read it."""
    text = " ".join(str(error.str()).split()).removeprefix("Broker: ").rstrip(".")
    return f"{error.name().lstrip('_')}: {text}"

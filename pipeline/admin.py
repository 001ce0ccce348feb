"""The admin client of pipelines, archives and replays: topics, their settings, committed offsets, DeleteRecords.

It is confluent-kafka's admin client, which speaks every security protocol, knows the source of each setting, and keeps
the outcome of each partition.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .clients import Kafka, SettingsError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, TopicPartition

LOGIN_ERRORS = ("_AUTHENTICATION", "_SSL")
"""Connection errors that no retry mends. librdkafka retries all of them."""

COORDINATOR_CHANGES = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
"""Errors that pass."""

ASK_EVERY_S = 0.5
"""Seconds that one question to a group's coordinator takes at most, before it is asked again."""

EXTRA_WAIT_S = 5.0
"""Seconds that a call waits beyond `timeout_s`, so that librdkafka's own time-out ends it first."""

SILENT_LOG = logging.getLogger("kmini.pipeline.librdkafka")
SILENT_LOG.addHandler(logging.NullHandler())
SILENT_LOG.propagate = False


class AdminError(Exception):
    """A request that failed or was refused."""

    def __init__(self, name: str, text: str, about: str = "") -> None:
        super().__init__(f"{name}: {about}: {text}" if about else f"{name}: {text}")
        self.name = name
        """Kafka's name for the error; librdkafka's own errors have librdkafka's name, without the underscore."""
        self.text = text
        """The error in words."""


@dataclass(frozen=True)
class TopicDescription:
    topic_id: str | None
    """None where the cluster is older than topic ids (KIP-516)."""
    partitions: tuple[int, ...]
    replication_factor: int = 1


@dataclass(frozen=True)
class TopicConfigs:
    """The settings of a topic."""

    own: dict[str, str]
    """Settings that were set for this topic."""
    in_force: dict[str, str]
    """The value in force of every setting that the cluster knows."""


@dataclass(frozen=True)
class DeletedRecords:
    """The outcome of DeleteRecords for one partition."""

    low_watermark: int | None
    """The log start offset afterwards; None if the request was refused."""
    error: AdminError | None = None


class Admin:
    """A client of one cluster. Every method blocks, and raises `AdminError` within about `timeout_s`."""

    def __init__(self, kafka: Kafka, *, timeout_s: float = 30.0) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self.servers = kafka.servers
        self.timeout_s = timeout_s
        self._groups: dict[str, _GroupOffsets] = {}
        self._login_error: KafkaError | None = None
        """The last error of `LOGIN_ERRORS` since the current call began."""
        ours: dict[str, Any] = {
            "log_level": "2",
            "logger": SILENT_LOG,
            "client.id": "kmini-pipeline",
            "allow.auto.create.topics": False,  # asking for the leaders of a deleted topic does not make it anew
            "error_cb": self._on_error,
        }
        try:
            self._config = {**ours, **kafka.admin_config()}
            self._client = AdminClient(self._config)
        except SettingsError as error:
            raise AdminError("settings", str(error)) from None
        except KafkaException as error:
            raise _admin_error(error.args[0]) from None

    def cluster_id(self) -> str:
        future = self._client.describe_cluster(request_timeout=self.timeout_s)
        described = self._result(future, f"no broker answers at {self.servers}")
        return str(described.cluster_id)

    def describe(self, names: Iterable[str]) -> dict[str, TopicDescription | None]:
        """Describe these topics; None stands for a topic that does not exist."""
        from confluent_kafka import TopicCollection

        names = list(names)
        if not names:
            return {}
        futures = self._client.describe_topics(TopicCollection(names), request_timeout=self.timeout_s)
        found: dict[str, TopicDescription | None] = {}
        for name in names:
            try:
                topic = self._result(futures[name], f"topic {name}")
            except AdminError as error:
                if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
                    raise
                found[name] = None
                continue
            topic_id = None if topic.topic_id is None else str(topic.topic_id)
            partitions = tuple(sorted(one.id for one in topic.partitions))
            found[name] = TopicDescription(topic_id, partitions, len(topic.partitions[0].replicas))
        return found

    def create(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None, replication_factor: int = -1
    ) -> None:
        """Create a topic; `replication_factor` -1 is the cluster's default. `AdminError` TOPIC_ALREADY_EXISTS if the
        topic exists."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # confluent-kafka names no __all__

        new = NewTopic(name, partitions, replication_factor, config=dict(configs or {}))
        timeouts = {"operation_timeout": self.timeout_s, "request_timeout": self.timeout_s}
        self._result(self._client.create_topics([new], **timeouts)[name], f"topic {name}")

    def topic_configs(self, name: str) -> TopicConfigs:
        from confluent_kafka.admin import ConfigResource, ConfigSource  # type: ignore[attr-defined]

        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        (future,) = self._client.describe_configs([resource], request_timeout=self.timeout_s).values()
        entries = self._result(future, f"topic {name}")
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return TopicConfigs(
            {key: entry.value for key, entry in entries.items() if entry.source == own and entry.value is not None},
            {key: entry.value for key, entry in entries.items()},
        )

    def alter_topic_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Set these settings of a topic; None removes the topic's own value. All of them are set, or none."""
        from confluent_kafka.admin import (  # type: ignore[attr-defined]
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
        )

        changes = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=changes)
        (future,) = self._client.incremental_alter_configs([resource], request_timeout=self.timeout_s).values()
        self._result(future, f"topic {name}")

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The high watermark of each partition, 0 to `partitions` - 1."""
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        return self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def start_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The log start offset of each partition, 0 to `partitions` - 1."""
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        return self._offsets(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _offsets(self, topic: str, partitions: int, spec: Any) -> dict[int, int]:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

        try:
            self._look_up_leaders([topic])
        except KafkaException as error:
            raise _admin_error(error.args[0], f"topic {topic}") from None
        requested = {TopicPartition(topic, partition): spec for partition in range(partitions)}
        futures = self._client.list_offsets(
            requested, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=self.timeout_s
        )
        offsets = {one.partition: self._result(future, f"topic {topic}").offset for one, future in futures.items()}
        if missing := [partition for partition, offset in offsets.items() if offset < 0]:
            raise AdminError("LEADER_NOT_AVAILABLE", "no offset from its leader", f"{topic}-{missing[0]}")
        return offsets

    def _look_up_leaders(self, topics: Iterable[str]) -> None:
        """Ask which brokers lead these topics. Without it librdkafka sends requests to a leader that has died, each of
        which times out, until it asks by itself after some minutes. Raises `KafkaException`."""
        for topic in topics:
            self._client.list_topics(topic, timeout=self.timeout_s)

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The committed offsets of a consumer group; a partition without a commit is missing."""
        found = self._group(group).committed([(topic, number) for number in partitions])
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def offset_metadata(self, group: str, topics: Iterable[str]) -> dict[str, str]:
        """The metadata of the offset that a group has committed for partition 0 of each topic; a topic without metadata
        is missing."""
        found = self._group(group).committed([(topic, 0) for topic in topics])
        return {one.topic: one.metadata for one in found if one.metadata}

    def commit_metadata(self, group: str, metadata: Mapping[str, str]) -> None:
        """Have a group without members commit offset 0 for partition 0 of each topic, with this metadata."""
        self._group(group).commit(metadata)

    def _group(self, group: str) -> _GroupOffsets:
        if group not in self._groups:
            self._groups[group] = _GroupOffsets(group, self._config, self.timeout_s)
        return self._groups[group]

    def delete_before(self, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], DeletedRecords]:
        """Delete the records before these offsets. Each partition has its own outcome; nothing is raised."""
        from confluent_kafka import KafkaException, TopicPartition

        requested = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            self._look_up_leaders({topic for topic, _ in offsets})
            futures = self._client.delete_records(
                requested, request_timeout=self.timeout_s, operation_timeout=self.timeout_s
            )
        except KafkaException as error:
            refused = DeletedRecords(None, _admin_error(error.args[0]))
            return dict.fromkeys(offsets, refused)
        outcomes = {}
        for one, future in futures.items():
            try:
                result = self._result(future, f"{one.topic}-{one.partition}")
                outcomes[one.topic, one.partition] = DeletedRecords(result.low_watermark)
            except AdminError as error:
                outcomes[one.topic, one.partition] = DeletedRecords(None, error)
        return outcomes

    def _on_error(self, error: KafkaError) -> None:
        """librdkafka reports an error of a connection, which it retries for ever, even with a wrong password."""
        if error.name() in LOGIN_ERRORS:
            self._login_error = error

    def _result(self, future: Any, about: str) -> Any:
        from concurrent.futures import TimeoutError as NotInTime

        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self.timeout_s + EXTRA_WAIT_S
        self._login_error = None
        while True:
            try:
                return future.result(0.1)
            except KafkaException as error:
                raise _admin_error(error.args[0], about) from None
            except (NotInTime, TimeoutError):
                self._client.poll(0)
            if self._login_error is not None:
                raise _admin_error(self._login_error, about)
            if time.monotonic() > deadline:
                raise AdminError("REQUEST_TIMED_OUT", f"no answer from {self.servers}", about)


class _GroupOffsets:
    """The committed offsets of a group, through a consumer that never joins it.

    A consumer looks for the coordinator anew when that has changed. The admin client goes on asking the former one, and
    librdkafka (2.16) ends the process when it answers NOT_COORDINATOR, or answers after a time-out (its issue 4605).
    """

    def __init__(self, group: str, config: Mapping[str, Any], timeout_s: float) -> None:
        from confluent_kafka import Consumer

        self._group = group
        self._timeout_s = timeout_s
        self._commits: list[tuple[KafkaError | None, Sequence[TopicPartition]]] = []
        self._failure: KafkaError | None = None
        """The last error of the consumer that no retry mends."""
        ours = {
            "group.id": group,
            "enable.auto.commit": False,
            "error_cb": self._on_error,
            "on_commit": lambda error, offsets: self._commits.append((error, offsets)),
        }
        self._consumer = Consumer({**config, **ours})

    def committed(self, partitions: Sequence[tuple[str, int]]) -> list[TopicPartition]:
        """The offsets of these partitions; a negative one where nothing is committed. Raises `AdminError`."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(topic, number) for topic, number in partitions]
        return self._ask(lambda: self._consumer.committed(asked, timeout=ASK_EVERY_S))

    def commit(self, metadata: Mapping[str, str]) -> None:
        """Commit offset 0 for partition 0 of each topic, with this metadata. Raises `AdminError`."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        offsets = [TopicPartition(topic, 0, 0, metadata=text) for topic, text in metadata.items()]

        def commit() -> Sequence[TopicPartition]:
            self._commits.clear()
            self._consumer.commit(offsets=offsets, asynchronous=True)
            end = time.monotonic() + ASK_EVERY_S
            while not self._commits and time.monotonic() < end:
                self._poll(0.05)
            error, answered = self._commits[0] if self._commits else (KafkaError(KafkaError._TIMED_OUT), ())
            if error is not None:
                raise KafkaException(error)
            return answered

        self._ask(commit)

    def _ask(self, ask: Callable[[], Sequence[TopicPartition]]) -> list[TopicPartition]:
        """Ask until the coordinator answers, or `timeout_s` is over."""
        from confluent_kafka import KafkaException

        about = f"group {self._group}"
        deadline = time.monotonic() + self._timeout_s
        while True:
            self._failure = None
            try:
                answer = [*ask()]
                error = next((one.error for one in answer if one.error is not None), None)
            except KafkaException as raised:
                answer, error = [], raised.args[0]
            if error is None:
                return answer
            self._poll(0)
            if self._failure is not None:
                raise _admin_error(self._failure, about)
            if error_name(error) not in (*COORDINATOR_CHANGES, "TIMED_OUT") or time.monotonic() > deadline:
                raise _admin_error(error, about)
            time.sleep(0.05)

    def _poll(self, timeout_s: float) -> None:
        message = self._consumer.poll(timeout_s)
        if message is not None and (error := message.error()) is not None and not error.retriable():
            self._failure = error

    def _on_error(self, error: KafkaError) -> None:
        if error.name() in LOGIN_ERRORS:
            self._failure = error


def error_name(error: KafkaError) -> str:
    """Kafka's name for an error of librdkafka, which shortens one name and puts an underscore before its own."""
    return error.name().replace("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION").lstrip("_")


def error_text(error: KafkaError) -> str:
    """An error of librdkafka in words, on one line."""
    return " ".join(str(error.str()).split()).removeprefix("Broker: ").rstrip(".")


def describe_error(error: KafkaError) -> str:
    """An error of librdkafka as NAME: text."""
    return f"{error_name(error)}: {error_text(error)}"


def _admin_error(error: KafkaError, about: str = "") -> AdminError:
    return AdminError(error_name(error), error_text(error), about)

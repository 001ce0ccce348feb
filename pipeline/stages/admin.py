"""What a pipeline asks of a cluster: its id, its topics, what groups have committed, and to delete records (KIP-107).

confluent-kafka's admin client keeps each partition's own outcome, and speaks every security protocol.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..clients import Kafka, SettingsError
from .declaration import Topic

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

REFUSALS = ("_AUTHENTICATION", "_SSL")
"""Errors of connections that do not go away by trying again."""

SILENT = logging.getLogger("kmini.pipeline.librdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


class AdminError(Exception):
    """A request that failed, or was refused; `name` is Kafka's for the error."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


@dataclass(frozen=True)
class TopicDescription:
    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Deleted:
    """What became of one partition of a DeleteRecords request."""

    low_watermark: int | None
    """The log start offset after it; None if it was refused."""
    error: AdminError | None = None


class Admin:
    """A client of one cluster. Every method raises `AdminError`, within `timeout_s`."""

    def __init__(self, kafka: Kafka, *, timeout_s: float = 30.0) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self.servers = kafka.servers
        self.timeout_s = timeout_s
        self._refusal: KafkaError | None = None
        """Why brokers do not let us in, as librdkafka told since the last request began."""
        ours: dict[str, Any] = {
            "log_level": "2",
            "logger": SILENT,
            "client.id": "kmini-pipeline",
            "error_cb": self._is_told,
        }
        try:
            self._client = AdminClient({**ours, **kafka.admin_config()})
        except SettingsError as error:
            raise AdminError("settings", str(error)) from None
        except KafkaException as error:
            raise _as_error(error.args[0]) from None

    def cluster_id(self) -> str:
        asked = self._client.describe_cluster(request_timeout=self.timeout_s)
        described = self._result(asked, f"no broker answers at {self.servers}")
        return str(described.cluster_id)

    def describe(self, names: Iterable[str]) -> dict[str, TopicDescription | None]:
        """Each of these topics; None for one that there is not."""
        from confluent_kafka import TopicCollection

        names = list(names)
        if not names:
            return {}
        futures = self._client.describe_topics(TopicCollection(names), request_timeout=self.timeout_s)
        found: dict[str, TopicDescription | None] = {}
        for name in names:
            try:
                topic = self._result(futures[name], f"topic {name}")
                found[name] = TopicDescription(str(topic.topic_id), tuple(sorted(one.id for one in topic.partitions)))
            except AdminError as error:
                if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
                    raise
                found[name] = None
        return found

    def create(self, topics: Iterable[Topic]) -> None:
        """Create topics with the partitions and settings that are declared; one that there is already is left alone."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        new = [
            NewTopic(topic.name, topic.partitions or 1, topic.replication_factor, config=dict(topic.configs))
            for topic in topics
        ]
        if not new:
            return
        futures = self._client.create_topics(new, operation_timeout=self.timeout_s, request_timeout=self.timeout_s)
        for name, future in futures.items():
            try:
                self._result(future, f"topic {name}")
            except AdminError as error:
                if error.name != "TOPIC_ALREADY_EXISTS":
                    raise

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """What a consumer group has committed; a partition without a commit is left out."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number) for number in partitions])
        futures = self._client.list_consumer_group_offsets([asked], request_timeout=self.timeout_s)
        answer = self._result(futures[group], f"group {group}")
        found = {}
        for one in answer.topic_partitions or ():
            if one.error is not None:
                raise _as_error(one.error)
            if one.offset >= 0:  # librdkafka has a negative one where nothing is committed
                found[one.partition] = one.offset
        return found

    def delete_before(self, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], Deleted]:
        """Delete the records before these offsets; each partition has its own outcome, nothing is raised."""
        from confluent_kafka import KafkaException, TopicPartition

        asked = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            futures = self._client.delete_records(
                asked, request_timeout=self.timeout_s, operation_timeout=self.timeout_s
            )
        except KafkaException as error:
            refused = Deleted(None, _as_error(error.args[0]))
            return dict.fromkeys(offsets, refused)
        outcomes = {}
        for one, future in futures.items():
            try:
                result = self._result(future, f"{one.topic}-{one.partition}")
                outcomes[one.topic, one.partition] = Deleted(result.low_watermark)
            except AdminError as error:
                outcomes[one.topic, one.partition] = Deleted(None, error)
        return outcomes

    def _is_told(self, error: KafkaError) -> None:
        """Of an error of a connection; librdkafka itself tries again for ever, even as somebody whom nobody knows."""
        if error.name() in REFUSALS:
            self._refusal = error

    def _result(self, future: Any, about: str) -> Any:
        from concurrent.futures import TimeoutError as NotInTime

        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self.timeout_s + 5  # librdkafka has time-outs of its own, which come first
        self._refusal = None
        while True:
            try:
                return future.result(0.1)
            except KafkaException as error:
                raise _as_error(error.args[0], about) from None
            except (NotInTime, TimeoutError):
                self._client.poll(0)
            if self._refusal is not None:
                raise _as_error(self._refusal, about)
            if time.monotonic() > deadline:
                raise AdminError("REQUEST_TIMED_OUT", f"{about}: no answer from {self.servers}")


def _as_error(error: KafkaError, about: str = "") -> AdminError:
    """By Kafka's name for it; librdkafka shortens one."""
    name = error.name().replace("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION").lstrip("_")
    text = error.str().removeprefix("Broker: ")
    return AdminError(name, f"{about}: {text}" if about else text)

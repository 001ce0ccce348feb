"""Topics of a cluster as archives and replays need them: partitions, id, and the topic's own settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from ..admin import Admin, AdminError
from ..clients import Kafka
from .archive_files import ArchiveError

T = TypeVar("T")

NO_BROKER = ("TRANSPORT", "TIMED_OUT", "ALL_BROKERS_DOWN")
"""Errors of librdkafka that mean that no broker answered."""


class Topic(NamedTuple):
    """A topic as its cluster describes it."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    configs: dict[str, str]
    """The topic's own settings."""
    known: dict[str, str]
    """The value in force of every setting that the cluster knows."""


class Topics:
    """The topics of a cluster. Every method raises `ArchiveError` with the topic and the cluster's reason."""

    def __init__(self, kafka: Kafka, *, timeout_ms: int = 30_000) -> None:
        self._servers = kafka.servers
        self._timeout_s = timeout_ms / 1000
        kafka.admin_config()  # raises SettingsError for a setting that the admin client does not take
        try:
            self._admin = Admin(kafka, timeout_s=self._timeout_s)
        except AdminError as error:
            raise ArchiveError(f"the settings of the client: {error}") from error

    def find(self, name: str) -> Topic | None:
        """None if the topic does not exist."""
        described = self._call(name, lambda: self._admin.describe([name]))[name]
        if described is None:
            return None
        configs = self._call(name, lambda: self._admin.topic_configs(name))
        return Topic(
            name,
            described.topic_id,
            len(described.partitions),
            described.replication_factor,
            configs.own,
            configs.in_force,
        )

    def get(self, name: str) -> Topic:
        if (topic := self.find(name)) is None:
            raise ArchiveError(f"{name}: there is no such topic at {self._servers}")
        return topic

    def wait_for(self, name: str) -> Topic:
        """Get a topic that was just created: Apache Kafka's brokers learn of it a moment after the answer."""
        deadline = time.monotonic() + self._timeout_s
        while (topic := self.find(name)) is None:
            if time.monotonic() > deadline:
                raise ArchiveError(f"{name}: it was created, but no broker knows it")
            time.sleep(0.05)
        return topic

    def create(self, name: str, partitions: int, configs: Mapping[str, str], replication_factor: int = -1) -> None:
        """Create a topic; `replication_factor` -1 is the cluster's default."""
        self._call(name, lambda: self._admin.create(name, partitions, configs, replication_factor))

    def alter(self, name: str, configs: Mapping[str, str | None]) -> dict[str, str]:
        """Set these settings of a topic; None restores the default. Returns the refused settings, each with the reason;
        all others are in force."""
        if not configs:
            return {}
        try:
            self._call(name, lambda: self._admin.alter_topic_configs(name, configs))
        except ArchiveError as error:
            if len(configs) == 1:
                return dict.fromkeys(configs, str(error).removeprefix(f"{name}: "))
            return {key: reason for one in configs for key, reason in self.alter(name, {one: configs[one]}).items()}
        return {}

    def end_offsets(self, name: str, partitions: int) -> dict[int, int]:
        """The high watermark of each partition."""
        return self._call(name, lambda: self._admin.end_offsets(name, partitions))

    def _call(self, name: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except AdminError as error:
            if error.name in NO_BROKER:
                raise ArchiveError(f"{name}: no broker answers at {self._servers}") from error
            raise ArchiveError(f"{name}: {error.name}: {error.text}") from error

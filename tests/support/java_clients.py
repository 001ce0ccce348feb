"""Producers, consumers and admins of Kafka's own client library, in the JVM of the test run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.java_peer import JavaPeer
from support.librdkafka import IMPATIENCE
from support.until import until

SOURCE = Path(__file__).with_name("JavaClients.java")
_numbers = itertools.count(1)


class JavaError(Exception):
    """What a call of a Java client has thrown."""

    def __init__(self, thrown: list[str], message: str, *, is_retriable: bool) -> None:
        super().__init__(f"{' of '.join(thrown)}: {message}")
        self.thrown = thrown
        """The names of the exception's class and of the classes of its causes."""
        self.is_retriable = is_retriable
        """Whether one of them is a RetriableException."""


class JavaClient:
    """A client, which is closed at the end of the `with` that made it. Calls raise JavaError."""

    def __init__(self, peer: JavaPeer, kind: str, settings: dict[str, object]) -> None:
        self._peer = peer
        self.name = f"{kind.replace(' ', '-')}-{next(_numbers)}"
        self.call(f"new {kind}", *(f"{key}={value}" for key, value in settings.items()))

    def call(self, call: str, *arguments: object) -> Any:
        """Make a call of JavaClients.java."""
        finished = self._peer.run(str(SOURCE), self.name, call, *arguments)
        assert finished.exit == 0, finished.stderr
        outcome = json.loads(finished.stdout)
        if "thrown" in outcome:
            raise JavaError(outcome["thrown"], outcome["message"], is_retriable=outcome["retriable"])
        return outcome["value"]


class JavaProducer(JavaClient):
    """A KafkaProducer that sends to partition 0."""

    def send(self, topic: str, value: str) -> int:
        """Return the offset of the record once it is acknowledged."""
        offset: int = self.call("send", topic, value)
        return offset

    def init_transactions(self) -> None:
        self.call("init")

    def begin(self) -> None:
        self.call("begin")

    def send_offsets(self, consumer: JavaConsumer, topic: str, offset: int) -> None:
        """Commit an offset of the consumer's group with the transaction."""
        self.call("send offsets", consumer.name, topic, offset)

    def commit(self) -> None:
        self.call("commit")

    def abort(self) -> None:
        self.call("abort")


class JavaConsumer(JavaClient):
    """A KafkaConsumer of partition 0 of topics."""

    def subscribe(self, *topics: str) -> None:
        self.call("subscribe", *topics)

    def assign(self, topic: str) -> None:
        self.call("assign", topic)

    def seek(self, topic: str, offset: int, epoch: int | None = None) -> None:
        """Go on at an offset; `epoch` is the leader epoch of the record before it."""
        self.call("seek", topic, offset, *([] if epoch is None else [epoch]))

    def poll(self) -> list[str]:
        """The values of the records that come within 50 ms."""
        values: list[str] = self.call("poll")
        return values

    def poll_some(self) -> list[str]:
        """The values of the next records, as soon as there are some."""
        return until(self.poll, "no record comes", poll_s=0)

    def commit(self, topic: str, offset: int) -> None:
        self.call("commit", topic, offset)

    def committed(self, topic: str) -> int | None:
        offset: int | None = self.call("committed", topic)
        return offset

    @property
    def events(self) -> list[str]:
        """What has happened to its partitions, in order: "assigned", "revoked", "lost"."""
        events: list[str] = self.call("events")
        return events


class JavaShareConsumer(JavaClient):
    """A KafkaShareConsumer that acknowledges records by their values."""

    def subscribe(self, *topics: str) -> None:
        self.call("subscribe", *topics)

    def poll(self) -> dict[str, int]:
        """The delivery counts of the records that come within 50 ms, by value."""
        return dict(self.call("poll"))

    def poll_some(self) -> dict[str, int]:
        """What `poll` gives, as soon as there is something."""
        return until(self.poll, "no record comes", poll_s=0)

    def acknowledge(self, *values: str, as_: str = "ACCEPT") -> None:
        """Acknowledge records; the next poll or commit sends it."""
        self.call("acknowledge", as_, *values)

    def commit(self) -> list[str]:
        """Send the acknowledgements; the classes of the exceptions of partitions."""
        thrown: list[str] = self.call("commit")
        return thrown


class JavaAdmin(JavaClient):
    """An Admin, for consumer groups. Offsets are those of partition 0 of a topic."""

    def list(self) -> dict[str, list[str]]:
        """The type, the protocol and the state of each group."""
        groups: dict[str, list[str]] = self.call("list")
        return groups

    def describe(self, group: str) -> dict[str, Any]:
        """ "type", "state", "assignor", "epoch", "target epoch" and "members" of a group; each member has "client id",
        "host", "instance", "epoch", "upgraded" (whether it speaks the new protocol), "assignment" and "target"."""
        description: dict[str, Any] = self.call("describe", group)
        return description

    def delete(self, group: str) -> None:
        self.call("delete", group)

    def offsets(self, group: str) -> dict[str, int]:
        """The committed offsets, by "topic-partition"."""
        offsets: dict[str, int] = self.call("offsets", group)
        return offsets

    def set(self, group: str, setting: str, value: str) -> None:
        """Give a group a setting of its own."""
        self.call("set", group, setting, value)

    def alter_offset(self, group: str, topic: str, offset: int) -> None:
        self.call("alter offset", group, topic, offset)

    def delete_offset(self, group: str, topic: str) -> None:
        self.call("delete offset", group, topic)


class JavaClients:
    """Makes clients that retry at once, so that tests are short."""

    def __init__(self, peer: JavaPeer) -> None:
        self._peer = peer

    @contextmanager
    def producer(self, servers: str, **settings: object) -> Iterator[JavaProducer]:
        """A producer with these settings, with `_` in place of dots."""
        yield from self._closing(JavaProducer(self._peer, "producer", _settings(servers, settings)))

    @contextmanager
    def consumer(self, servers: str, **settings: object) -> Iterator[JavaConsumer]:
        """A consumer that reads from the earliest offset on and commits by calls only; settings as a producer's."""
        defaults = {
            "auto_offset_reset": "earliest",
            "enable_auto_commit": "false",
            "fetch_max_wait_ms": 20,
            "heartbeat_interval_ms": 20,
            "session_timeout_ms": 6_000,
        }
        yield from self._closing(JavaConsumer(self._peer, "consumer", _settings(servers, defaults | settings)))

    @contextmanager
    def share_consumer(self, servers: str, **settings: object) -> Iterator[JavaShareConsumer]:
        """A member of a share group; settings as a producer's."""
        defaults = {"share_acknowledgement_mode": "explicit", "fetch_max_wait_ms": 20}
        client = JavaShareConsumer(self._peer, "share consumer", _settings(servers, defaults | settings))
        yield from self._closing(client)

    @contextmanager
    def admin(self, servers: str, **settings: object) -> Iterator[JavaAdmin]:
        """An admin; settings as a producer's."""
        yield from self._closing(JavaAdmin(self._peer, "admin", _settings(servers, settings)))

    @staticmethod
    def _closing(client: Any) -> Iterator[Any]:
        try:
            yield client
        finally:
            client.call("close")


def _settings(servers: str, settings: dict[str, object]) -> dict[str, object]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": servers, **IMPATIENCE, **given}

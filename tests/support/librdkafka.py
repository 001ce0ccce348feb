"""Clients over librdkafka for tests of faults: they try again at once and are quiet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from support.in_order import contains_in_order
from support.until import until

if TYPE_CHECKING:
    from kmini import Broker

IMPATIENCE: dict[str, int] = {
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 10,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 10,
}
"""Milliseconds between two tries, which Java's clients call by the same names."""


def impatient(servers: str, **config: Any) -> dict[str, Any]:
    """The settings of a client that tries again at once. Those of `config` are added, and have _ for the dots; names of
    callbacks stay as they are."""
    return {
        "bootstrap.servers": servers,
        "log_level": 0,
        "error_cb": lambda error: None,  # fatal errors are raised by poll otherwise
        **IMPATIENCE,
        **{name if name.endswith("_cb") else name.replace("_", "."): value for name, value in config.items()},
    }


class GroupMember:
    """A consumer in a group, which notes what happens to its partitions."""

    def __init__(self, broker: Broker, group: str, topic: str, **config: Any) -> None:
        from confluent_kafka import Consumer

        self.events: list[str] = []
        own = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "log_level": 0,
            "error_cb": lambda error: None,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "coordinator.query.interval.ms": 100,
        }
        self.client = Consumer({**own, **{name.replace("_", "."): value for name, value in config.items()}})
        notes = {f"on_{what}": self._noting(what) for what in ("assign", "revoke", "lost")}
        self.client.subscribe([topic], **notes)

    def _noting(self, what: str) -> Callable[[Any, Any], None]:
        return lambda client, partitions: self.note(what, sorted(each.partition for each in partitions))

    def note(self, what: str, partitions: list[int]) -> None:
        """Add to `events` that partitions were assigned, revoked or lost ("assign", "revoke", "lost")."""
        raise NotImplementedError

    def wait_for_events(self, *events: str) -> None:
        """Return once this has happened to its partitions, in this order."""
        until(lambda: (self.client.poll(0.02), contains_in_order(self.events, events))[1], lambda: self.events)

    def commit(self, offset: int = 1) -> None:
        from confluent_kafka import TopicPartition

        self.client.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)


M = TypeVar("M", bound=GroupMember)


@contextmanager
def joining(broker: Broker, kind: Callable[..., M]) -> Iterator[Callable[..., M]]:
    """A maker of members, which leave in the end."""
    members: list[M] = []

    def make(**config: Any) -> M:
        members.append(kind(broker, **config))
        return members[-1]

    yield make
    broker.faults.clear()
    for member in members:
        member.client.close()

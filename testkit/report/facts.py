"""The facts that diagnoses look at: what is known of a broker or a cluster at one moment.

`gathering` takes them from brokers of kmini here, `kmini.remote.remote_facts` and `kmini.doctor` from requests.
This module imports no broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kmini.broker.groups.group import Departure
    from kmini.broker.journal.entries import JournalEntry
    from kmini.broker.local_cluster import BrokerEvent
    from kmini.protocol.topics import TopicPartition
    from kmini.testkit.client_connections import ClientConnection
    from kmini.testkit.contents import PartitionOffsets, Record
    from kmini.testkit.descriptions import GroupDescription, OpenTransaction
    from kmini.testkit.failed_waits import FailedWait

_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


class PartitionFacts(NamedTuple):
    """A partition, from its leader's log."""

    number: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    committed: int
    """Records that a consumer at read_committed gets."""
    hidden: int
    """Records of open and aborted transactions."""
    last: Record | None
    """The last record that is committed."""
    at: Mapping[int, Record] = MappingProxyType({})
    """The committed records at offsets that a group has committed or a client has asked for."""

    @classmethod
    def of(
        cls, number: int, offsets: PartitionOffsets, records: Collection[Record], asked: Collection[int] = ()
    ) -> PartitionFacts:
        """`records` are those of the partition, in every state, the oldest ones left out; those at the offsets `asked`
        are kept."""
        committed = [record for record in records if record.state == "committed"]
        return cls(
            number,
            offsets.log_start_offset,
            offsets.last_stable_offset,
            offsets.high_watermark,
            len(committed),
            len(records) - len(committed),
            committed[-1] if committed else None,
            {record.offset: record for record in committed if record.offset in asked},
        )


class TopicFacts(NamedTuple):
    """A topic that is not internal."""

    name: str
    partition_count: int
    partitions: tuple[PartitionFacts, ...]
    """Those that have a leader."""
    auto_created_by: str = ""
    """The client whose request named the topic, so that the broker created it (`auto.create.topics.enable`); empty if
    it was created in another way, or is not known."""

    @property
    def committed(self) -> int:
        return sum(one.committed for one in self.partitions)

    @property
    def hidden(self) -> int:
        return sum(one.hidden for one in self.partitions)

    @property
    def was_written(self) -> bool:
        """Whether a record ever was in it."""
        return any(one.high_watermark for one in self.partitions)


class GroupFacts(NamedTuple):
    """A consumer group."""

    description: GroupDescription
    offsets: dict[TopicPartition, int]
    """The committed offsets."""
    departures: tuple[Departure, ...] = ()
    """The members that have gone, the latest at the end."""
    coordinator: int | None = None
    """The number of the broker that coordinates it, in a cluster."""


class FaultFacts(NamedTuple):
    """A fault rule."""

    name: str
    hits: int
    why_not: str
    """Why it never acted, with its nearest miss; empty if it did."""
    seed: int | None = None
    """The seed by which it draws, if it acts by chance."""


class Replicas(NamedTuple):
    """A partition in a cluster."""

    place: TopicPartition
    leader: int
    """-1 if no broker leads it."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it has a leader, and all replicas are in sync."""
        return self.leader >= 0 and {*self.isr} == {*self.replicas}

    def __str__(self) -> str:
        led = f"broker {self.leader} leads" if self.leader >= 0 else "no broker leads"
        return f"{self.place}: {led}; in sync: {_listed(self.isr)}; replicas: {_listed(self.replicas)}"


class ClusterFacts(NamedTuple):
    """What is known of several brokers."""

    numbers: tuple[int, ...]
    running: tuple[int, ...]
    events: tuple[BrokerEvent, ...]
    """What happened to the brokers, the latest at the end."""
    partitions: tuple[Replicas, ...]
    """Of all topics that are not internal."""
    coordinators: Mapping[str, int] = MappingProxyType({})
    """The broker that coordinates each transactional id of the requests."""

    def fate(self, broker: int) -> str:
        """What happened to a broker last: "broker 2 was killed"."""
        last = next((event.what for event in reversed(self.events) if event.broker == broker), "")
        return f"broker {broker} {last or ('runs' if broker in self.running else 'does not run')}"


class Facts(NamedTuple):
    """What is known of a broker or a cluster."""

    began_s: float = 0.0
    """When the first request of `requests` came, in seconds since the epoch; 0 without one."""
    addresses: tuple[str, ...] = ()
    """Where the brokers listen."""
    told: tuple[str, ...] = ()
    """The addresses that clients are told instead, where a setting or `advertise` says so."""
    requests: tuple[JournalEntry, ...] = ()
    """The last requests of clients, those to the schema registry among them; none without a journal."""
    has_journal: bool = False
    lost: int = 0
    """Older requests that the journal has dropped."""
    topics: tuple[TopicFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    transactions: tuple[OpenTransaction, ...] = ()
    clients: tuple[ClientConnection, ...] = ()
    faults: tuple[FaultFacts, ...] = ()
    ahead_ms: int = 0
    """How far the clock was moved."""
    waits: tuple[FailedWait, ...] = ()
    """The calls of the test that waited in vain, the latest at the end."""
    cluster: ClusterFacts | None = None
    """None for one broker."""
    is_address_known: bool = True
    """Whether the test has asked for the addresses, so that it has clients to give them to."""
    elsewhere: str = ""
    """The server and its release, if the facts are those that requests tell; empty for a broker of kmini here."""

    def topic(self, name: str) -> TopicFacts | None:
        return next((topic for topic in self.topics if topic.name == name), None)

    @property
    def of_kafka(self) -> list[JournalEntry]:
        """The requests but those to the schema registry."""
        return [entry for entry in self.requests if entry.registry is None]

    def asked(self, *apis: str) -> list[JournalEntry]:
        """The requests of these APIs."""
        return [entry for entry in self.requests if entry.api in apis]

    def partition(self, place: TopicPartition) -> PartitionFacts | None:
        topic = self.topic(place.topic)
        found = topic.partitions if topic is not None else ()
        return next((one for one in found if one.number == place.partition), None)

    def after_s(self, entry: JournalEntry) -> float:
        """Seconds from the first request to this one."""
        return entry.time_ms / 1_000 - self.began_s


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


def shown(value: bytes | None) -> str:
    """The key or the value of a record, shortened."""
    if value is None:
        return "null"
    return repr(value) if len(value) <= 24 else f"{value[:24]!r}... {len(value)} B"


def record_shown(record: Record) -> str:
    """A record in a sentence: "key=b'42' value=b'placed'"."""
    return f"key={shown(record.key)} value={shown(record.value)}"


def client_called(client_id: str | None) -> str:
    """A client in a sentence: "client 'billing'"."""
    return "a client without an id" if client_id is None else f"client {client_id!r}"


def client_of(entry: JournalEntry) -> str:
    """The client of a request in a sentence; one without an id is named by its connection."""
    return client_called(entry.client_id) if entry.client_id is not None else f"the client at {entry.connection}"


def moved_by(ahead_ms: int) -> str:
    """How far the clock is from the wall clock, as "moved ahead by 7d"."""
    return f"moved ahead by {duration(ahead_ms)}" if ahead_ms > 0 else f"turned back by {duration(-ahead_ms)}"


def duration(ms: int) -> str:
    """Milliseconds in the largest units, as "7d" or "1h30m"; from 10 s on in whole seconds."""
    left, parts = ms if ms < 10_000 else round(ms, -3), []
    for unit, size in _UNITS_MS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts[:2]) or "0ms"

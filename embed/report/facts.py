"""What the failure report says is gathered here, at one moment, from a broker or the brokers of a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kmini.broker.clock import milliseconds
from kmini.broker.groups.member import Departure
from kmini.broker.journal.entries import JournalEntry, JournalReader
from kmini.client_connections import ClientConnection
from kmini.contents import PartitionOffsets, Record, shown
from kmini.failed_waits import FailedWait
from kmini.fault_handle import FaultOperations
from kmini.group_handle import GroupDescription, GroupOperations
from kmini.protocol.errors import KafkaError
from kmini.protocol.topics import TopicPartition, is_internal
from kmini.shared_operations import SharedOperations
from kmini.storage.log import PartitionLog
from kmini.transaction_handle import OpenTransaction, TransactionOperations

if TYPE_CHECKING:
    from kmini.broker.faults.active_rules import ActiveRules
    from kmini.broker.journal.request_journal import RequestJournal

MOST_READ = 1_000
"""Most records of a partition that are read, to count them by what became of them."""
MOST_REQUESTS = 3_000
"""The last requests that are looked at."""


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

    @classmethod
    def of(cls, number: int, offsets: PartitionOffsets, records: Collection[Record]) -> PartitionFacts:
        """`records` are those of the partition, in every state, the oldest ones left out."""
        committed = [record for record in records if record.state == "committed"]
        return cls(
            number,
            offsets.log_start_offset,
            offsets.last_stable_offset,
            offsets.high_watermark,
            len(committed),
            len(records) - len(committed),
            committed[-1] if committed else None,
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


class FaultFacts(NamedTuple):
    """A fault rule."""

    name: str
    hits: int
    why_not: str
    """Why it never acted, with its nearest miss; empty if it did."""
    seed: int | None = None
    """The seed by which it draws, if it acts by chance."""


class Facts(NamedTuple):
    """What is known of a broker or a cluster."""

    began_s: float
    """When the first request of `requests` came, in seconds since the epoch; 0 without one."""
    addresses: tuple[str, ...]
    """Where the brokers listen."""
    told: tuple[str, ...]
    """The addresses that clients are told instead, where a setting or `advertise` says so."""
    requests: tuple[JournalEntry, ...]
    """The last requests of clients; none without a journal."""
    has_journal: bool
    lost: int
    """Older requests that the journal has dropped."""
    topics: tuple[TopicFacts, ...]
    groups: tuple[GroupFacts, ...]
    transactions: tuple[OpenTransaction, ...]
    clients: tuple[ClientConnection, ...]
    faults: tuple[FaultFacts, ...]
    ahead_ms: int
    """How far the clock was moved."""
    waits: tuple[FailedWait, ...] = ()
    """The calls of the test that waited in vain, the latest at the end."""
    elsewhere: str = ""
    """The server and its release, if the facts are those that requests tell; empty for a broker of kmini here."""

    def topic(self, name: str) -> TopicFacts | None:
        return next((topic for topic in self.topics if topic.name == name), None)

    def asked(self, *apis: str) -> list[JournalEntry]:
        """The requests of these APIs."""
        return [entry for entry in self.requests if entry.api in apis]

    def after_s(self, entry: JournalEntry) -> float:
        """Seconds from the first request to this one."""
        return entry.time_ms / 1_000 - self.began_s


async def gather(
    operations: SharedOperations,
    rules: ActiveRules | None = None,
    waits: Collection[FailedWait] = (),
    *,
    most_topics: int | None = None,
    most_requests: int | None = None,
    most_read: int | None = None,
) -> Facts:
    """The facts of a running broker or cluster, of its fault rules, if a test has made any, and of the calls that
    waited in vain since its start or its last reset.

    Of more than `most_topics` topics those are chosen that the requests and the groups name, then the first others;
    `most_requests` are the last requests, and `most_read` the last records of each partition, that are looked at, by
    default MOST_REQUESTS and MOST_READ."""
    brokers = [*operations.running]
    journal = brokers[0].services.journal if brokers else None
    requests: list[JournalEntry] = []
    if journal is not None:
        reader = JournalReader(journal, operations.clock.moves)
        requests = [reader.decoded(entry) for entry in [*journal.entries][-(most_requests or MOST_REQUESTS) :]]
    listeners = [(broker.server, listener) for broker in brokers for listener in broker.server.listeners]
    told = [found for server, listener in listeners if (found := server.advertised_at(listener)) is not None]
    groups = tuple([one async for one in _groups(operations)])
    names = _topic_names(operations, most_topics, requests, groups)
    return Facts(
        began_s=requests[0].time_ms / 1_000 if requests else 0.0,
        addresses=tuple(broker.address for broker in brokers),
        told=tuple(f"{host}:{port}" for host, port in told),
        requests=tuple(requests),
        has_journal=journal is not None,
        lost=0 if journal is None else journal.lost,
        topics=tuple(_topic(operations, name, journal, most_read or MOST_READ) for name in names),
        groups=groups,
        transactions=tuple(await TransactionOperations(operations).open()),
        clients=tuple(await operations.clients()),
        faults=() if rules is None else tuple(await _faults(operations, rules)),
        ahead_ms=operations.clock.ahead_ms,
        waits=tuple(wait for wait in waits if wait.ended_s >= operations.began_s),
    )


def _topic_names(
    operations: SharedOperations, most: int | None, requests: Collection[JournalEntry], groups: Collection[GroupFacts]
) -> list[str]:
    """The topics that are looked at, by name."""
    names = [name for name in operations.topic_names() if not is_internal(name)]
    if most is None or len(names) <= most:
        return names
    named = {topic for entry in requests for topic in entry.topics}
    named |= {topic for group in groups for member in group.description.members for topic in member.topics}
    named |= {place.topic for group in groups for place in group.offsets}
    chosen = sorted(names, key=lambda name: name not in named)[:most]
    return sorted(chosen)


def _topic(operations: SharedOperations, name: str, journal: RequestJournal | None, most_read: int) -> TopicFacts:
    count = len(operations.known_topic(name).partitions)
    by = ""
    if journal is not None and name in journal.auto_created:
        by = client_called(journal.auto_created[name])
    return TopicFacts(name, count, tuple(_partition(log, most_read) for log in operations.logs(name)), by)


def _partition(log: PartitionLog, most_read: int) -> PartitionFacts:
    since = max(log.log_start_offset, log.high_watermark - most_read)
    records = [*islice(shown(log, "uncommitted", since=since), most_read)]
    return PartitionFacts.of(log.topic_partition.partition, PartitionOffsets.of(log), records)


async def _groups(operations: SharedOperations) -> AsyncIterator[GroupFacts]:
    for name in operations.group_names():
        group = GroupOperations(operations, name)
        try:
            yield GroupFacts(await group.describe(), await group.offsets(), await group.departures())
        except KafkaError:  # it is being loaded, or goes at this moment
            continue


def client_called(client_id: str | None) -> str:
    """A client in a sentence: "client 'billing'"."""
    return "a client without an id" if client_id is None else f"client {client_id!r}"


def client_of(entry: JournalEntry) -> str:
    """The client of a request in a sentence; one without an id is named by its connection."""
    return client_called(entry.client_id) if entry.client_id is not None else f"the client at {entry.connection}"


async def _faults(operations: SharedOperations, rules: ActiveRules) -> list[FaultFacts]:
    never = await FaultOperations(operations, rules).unhit()
    return [
        FaultFacts(
            active.rule.name,
            active.hits,
            next((text for text in never if text.startswith(f"fault rule {active.rule.name!r} ")), ""),
            active.chance_seed,
        )
        for active in rules.rules
    ]


def moved_by(ahead_ms: int) -> str:
    """How far the clock is from the wall clock, as "moved ahead by 7d"."""
    return f"moved ahead by {duration(ahead_ms)}" if ahead_ms > 0 else f"turned back by {duration(-ahead_ms)}"


def duration(ms: int) -> str:
    """Milliseconds in the largest units, as "7d" or "1h30m"; from 10 s on in whole seconds."""
    left, parts = ms if ms < 10_000 else round(ms, -3), []
    for unit in ("d", "h", "m", "s", "ms"):
        size = milliseconds(f"1{unit}")
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts[:2]) or "0ms"

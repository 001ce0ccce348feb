"""What the page of the control server shows first, each in one cheap call: what is wrong, the traffic, topics, groups.

The calls read counters and states that are there already; only `findings` reads records and requests, a bounded number.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kmini.broker.scheduler import in_thread
from kmini.control.control_operations import ControlOperations, Served, address_of
from kmini.control.group_rows import GroupPosition, GroupRow, group_positions, group_rows
from kmini.protocol.errors import KafkaError
from kmini.protocol.topics import TopicPartition, is_internal
from kmini.storage.log_config import LogConfig
from kmini.testkit.client_connections import ClientConnection
from kmini.testkit.contents import Record, shown
from kmini.testkit.group_handle import GroupOperations
from kmini.testkit.report.diagnoses import likely
from kmini.testkit.report.facts import Facts
from kmini.testkit.report.gathering import gather
from kmini.testkit.transaction_handle import TransactionOperations

if TYPE_CHECKING:
    from kmini.broker.metrics import Metrics
    from kmini.storage.log import PartitionLog
    from kmini.testkit.operations import Operations

MOST_CLIENTS = 200
"""Connections that an overview lists; `client_count` counts all."""
MOST_TOPICS = 200
"""Topics of which findings are sought: in a larger cluster those that clients have named, then the others by name."""
MOST_REQUESTS = 500
"""The last requests that are looked at for findings."""
MOST_READ = 20
"""The last records of a partition that are read for findings."""
MOST_FINDINGS = 8
PIPELINES_GROUP = "kmini.pipelines"
"""`OWNERS_GROUP` of pipelines: the metadata of its offsets name the pipelines that purge topics."""
MOST_SHOWN_BYTES = 200
"""Bytes of a key or a value that a row of a table has room for."""


class Traffic(NamedTuple):
    """Counters since the start of the broker, summed over the brokers that run. A rate is the difference of two."""

    records_in: int
    bytes_in: int
    bytes_out: int
    requests: int
    """Requests answered."""


class BrokerState(NamedTuple):
    """A broker."""

    number: int
    address: str
    """host:port as clients are told; empty if it does not run."""
    is_running: bool
    is_suspended: bool
    """Whether it is paused."""
    is_cut_off: bool
    """Whether it is cut off from the other brokers."""
    leads: int
    """The partitions that it leads."""
    replicas: int
    """The partitions that it has replicas of."""
    out_of_sync: int
    """Those of them that are not in the ISR."""


class OverviewState(NamedTuple):
    """A broker or a cluster at one moment."""

    now_ms: int
    """Log time, in milliseconds since the epoch."""
    ahead_ms: int
    """By how much that is ahead of the wall clock."""
    moves_to_ms: int | None
    """The log time to which the clock is being moved; None if it only runs."""
    up_ms: int
    """Milliseconds since the start, or the last reset."""
    brokers: tuple[BrokerState, ...]
    topic_count: int
    """Internal topics do not count."""
    partition_count: int
    group_count: int
    client_count: int
    """Connections."""
    clients: tuple[ClientConnection, ...]
    """The oldest connections."""
    rule_count: int
    """Fault rules in force."""
    held_count: int
    """Requests that fault rules hold."""
    transaction_count: int
    """Open transactions."""
    traffic: Traffic
    revision: int
    """Another number after records were appended or deleted, or a topic has come or gone."""


class Finding(NamedTuple):
    """Something wrong or odd."""

    text: str
    """A sentence."""
    kind: str
    """What it is about: "topic", "group", "rule", "broker", "transaction"; empty if that is not known."""
    name: str
    """The name of that; empty if it is not known."""


class ErrorCount(NamedTuple):
    """How often an error was answered."""

    error: str
    """Kafka's name."""
    api: str
    times: int
    rules: tuple[str, ...]
    """The fault rules that acted on these requests."""


class Findings(NamedTuple):
    """What is wrong or odd, and the errors among the last requests."""

    findings: tuple[Finding, ...]
    errors: tuple[ErrorCount, ...]
    """The most frequent first."""
    request_count: int
    """The requests that were looked at, the last ones."""
    slow_ms: float
    """Milliseconds within which 99 of 100 of them were answered; long polls and joins, which wait, do not count."""


class TopicRow(NamedTuple):
    """A topic in a table."""

    name: str
    partition_count: int
    records: int
    """Offsets from the log start to the high watermark; transaction markers, and what compaction removed, count."""
    size_bytes: int
    """Of the leaders' logs."""
    policy: tuple[str, ...]
    """`cleanup.policy`."""
    retention_ms: int
    """-1: without end."""
    records_in: int
    """Records received from producers, a counter."""
    leaderless: int
    """Partitions without a leader."""
    under_replicated: int
    """Partitions with a replica outside the ISR."""
    auto_created_by: str
    """The client whose request created the topic, if one did and it is known."""
    purged_by: str
    """The pipeline that purges the topic, with the place of its checkpoints; empty if none does."""
    last: Record | None
    """The last record that is there, its key and value cut; None if there is none at the end of the logs."""


class TopicPage(NamedTuple):
    """Some rows of the table of topics."""

    total: int
    """Topics that the search finds."""
    topics: tuple[TopicRow, ...]


_NO_FAULT = {"MEMBER_ID_REQUIRED"}
"""Errors that a client meets when all is well: the answer to the first JoinGroup of a member (KIP-394)."""
_LONG_WAITS = {"Fetch", "JoinGroup", "SyncGroup", "ShareFetch"}
"""APIs whose answers wait for records or for other members."""


class Overview:
    """What the page shows first."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def state(self) -> OverviewState:
        """The counters and states of the broker or the cluster, its connections, and what they wait for."""
        operations = self._served.operations
        clients = await operations.clients()
        running = [*operations.running]
        topics = operations._controller.topics
        logs = [log for broker in running for log in list(broker.logs.logs.values())]
        rules = self._served.rules.rules
        return OverviewState(
            operations.clock.now_ms(),
            operations.clock.ahead_ms,
            operations.clock.moves_to_ms,
            round((time.time() - operations.began_s) * 1000),
            tuple(_brokers(operations)),
            sum(not is_internal(name) for name in topics),
            sum(len(topic.partitions) for name, topic in topics.items() if not is_internal(name)),
            len(operations.group_names()),
            len(clients),
            tuple(clients[:MOST_CLIENTS]),
            len(rules),
            sum(len(active.held) for active in rules),
            len(await TransactionOperations(operations).open()),
            _traffic([broker.services.metrics for broker in running]),
            sum(log.log_end_offset + log.log_start_offset for log in logs) + len(logs),
        )

    async def findings(self) -> Findings:
        """What is wrong or odd, in words, the surest first; and the errors among the last requests."""
        operations = self._served.operations
        facts = await gather(
            operations,
            self._served.rules,
            most_topics=MOST_TOPICS,
            is_address_known=False,  # a broker that just began is no fault
            most_requests=MOST_REQUESTS,
            most_read=MOST_READ,
        )
        missing = (await ControlOperations(self._served).readiness()).missing
        diagnosed = await in_thread(lambda: [*likely(facts)])  # it compares all names of topics
        sentences = [*missing, *_states_of_partitions(operations), *diagnosed]
        waited = [entry for entry in facts.requests if entry.ms is not None and entry.api not in _LONG_WAITS]
        times = sorted(entry.ms for entry in waited if entry.ms is not None)
        return Findings(
            tuple(_about(text, facts, operations) for text in sentences[:MOST_FINDINGS]),
            tuple(_errors(facts)),
            len(facts.requests),
            times[len(times) * 99 // 100] if times else 0.0,
        )

    async def topics(
        self, *, containing: str = "", start: int = 0, count: int = 100, sort: str = "name", internal: bool = False
    ) -> TopicPage:
        """A part of the table of topics: `count` rows from row `start` of those whose name contains a text in any case.

        `sort` is a field of the rows, "name" and those that are numbers, or "last", for the time of the last record;
        with a "-" before it from the highest to the lowest. Raises ValueError for another one.
        """
        operations = self._served.operations
        wanted = containing.casefold()
        names = [
            name
            for name in operations.topic_names()
            if wanted in name.casefold() and (internal or not is_internal(name))
        ]
        counted = [broker.services.metrics for broker in operations.running]
        if sort != "name":  # as they are
            orders: dict[str, Callable[[str], Any]] = {
                "name": str,
                "partition_count": lambda name: len(operations.known_topic(name).partitions),
                "records": lambda name: _records(operations.logs(name)),
                "size_bytes": lambda name: sum(log.size_bytes for log in operations.logs(name)),
                "records_in": lambda name: _records_in(counted, name),
                "last": lambda name: max(map(_largest_timestamp, operations.logs(name)), default=-1),
            }
            order = sort.removeprefix("-")
            if order not in orders:
                raise ValueError(f"sort={sort!r}: must be one of {', '.join(orders)}, or that with a '-' before it")
            names.sort(key=orders[order], reverse=sort.startswith("-"))
        owners = _owners(operations)
        rows = [_topic_row(operations, name, counted, owners.get(name, "")) for name in names[max(start, 0) :][:count]]
        return TopicPage(len(names), tuple(rows))

    async def groups(self) -> list[GroupRow]:
        """The table of groups, by name."""
        return await group_rows(self._served.operations)

    async def positions(self, group: str) -> dict[TopicPartition, GroupPosition]:
        """Committed offsets, the offsets of the logs and how far the group is behind, by partition, at one moment.
        Raises GroupIdNotFound, CoordinatorNotAvailable and CoordinatorLoadInProgress."""
        return await group_positions(self._served.operations, group)


def _brokers(operations: Operations) -> Iterator[BrokerState]:
    leads: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    topics = operations._controller.topics.values()
    alike = Counter((one.leader, one.replicas, one.isr) for topic in topics for one in topic.partitions)
    for (leader, holders, isr), count in alike.items():
        leads[leader] += count
        for holder in holders:
            replicas[holder] += count
            behind[holder] += 0 if holder in isr else count
    running = {broker.node_id: broker for broker in operations.running}
    for number in sorted({*operations._controller.node_ids, *running}):
        broker = running.get(number)
        yield BrokerState(
            number,
            "" if broker is None else address_of(broker),
            broker is not None,
            broker is not None and broker.server.is_suspended,
            broker is not None and broker.is_cut_off,
            leads[number],
            replicas[number],
            behind[number],
        )


def _traffic(counted: list[Metrics]) -> Traffic:
    totals = [metrics.total() for metrics in counted]
    return Traffic(
        sum(one.messages_in for one in totals),
        sum(one.bytes_in for one in totals),
        sum(one.bytes_out for one in totals),
        sum(api.count for metrics in counted for api in metrics.requests.values()),
    )


def _records(logs: list[PartitionLog]) -> int:
    return sum(log.high_watermark - log.log_start_offset for log in logs)


def _records_in(counted: list[Metrics], name: str) -> int:
    return sum(found.messages_in for metrics in counted if (found := metrics.topics.get(name)) is not None)


def _owners(operations: Operations) -> dict[str, str]:
    """The pipelines that purge topics, by topic."""
    if PIPELINES_GROUP not in operations.group_names():
        return {}
    from kmini.pipeline.stages.topic_owner import Owner  # takes 50 ms

    try:
        _, group = GroupOperations(operations, PIPELINES_GROUP)._find()
    except KafkaError:  # it is being loaded, or goes at this moment
        return {}
    offsets = group.offsets.shown_by_topic()
    owners = {name: Owner.read(by_partition[0].metadata) for name, by_partition in offsets.items() if 0 in by_partition}
    return {name: str(owner) for name, owner in owners.items() if owner is not None}


def _topic_row(operations: Operations, name: str, counted: list[Metrics], purged_by: str) -> TopicRow:
    known = operations.known_topic(name)
    logs = operations.logs(name)
    config = logs[0].config if logs else LogConfig()
    journal = next((broker.services.journal for broker in operations.running), None)
    client = journal.auto_created.get(name, "") if journal is not None else ""
    return TopicRow(
        name,
        len(known.partitions),
        _records(logs),
        sum(log.size_bytes for log in logs),
        tuple(sorted(config.cleanup_policy)),
        config.retention_ms,
        _records_in(counted, name),
        len(known.partitions) - len(logs),
        sum(len(one.isr) < len(one.replicas) for one in known.partitions),
        client or "",
        purged_by,
        _last_record(logs),
    )


def _last_record(logs: list[PartitionLog]) -> Record | None:
    """The newest record at the ends of the logs, cut to what a row has room for."""
    newest = max(
        (log for log in logs if log.high_watermark > log.log_start_offset), key=_largest_timestamp, default=None
    )
    if newest is None:
        return None
    since = max(newest.high_watermark - 2, newest.log_start_offset)  # the last one may be a marker
    records = [*shown(newest, "uncommitted", since=since)]
    if not records:
        return None
    last = records[-1]
    return last._replace(
        key=None if last.key is None else last.key[:MOST_SHOWN_BYTES],
        value=None if last.value is None else last.value[:MOST_SHOWN_BYTES],
        headers=(),
    )


def _largest_timestamp(log: PartitionLog) -> int:
    return max((segment.largest_timestamp for segment in log.segments), default=-1)


# --- findings


def _states_of_partitions(operations: Operations) -> Iterator[str]:
    """What is wrong with the partitions, in a sentence for each kind."""
    leaderless: list[str] = []
    under_replicated: list[str] = []
    for name, topic in operations._controller.topics.items():
        for number, partition in enumerate(topic.partitions):
            if partition.leader < 0:
                leaderless.append(f"{name}-{number}")
            elif len(partition.isr) < len(partition.replicas):
                under_replicated.append(f"{name}-{number}")
    if leaderless:
        yield f"{_listed(leaderless)} {_has(leaderless)} no leader: clients can neither write nor read there"
    if under_replicated:
        yield f"{_listed(under_replicated)} {_has(under_replicated)} replicas that are not in sync"


def _listed(places: list[str]) -> str:
    return ", ".join(places[:3]) + (f" and {len(places) - 3} more partitions" if len(places) > 3 else "")


def _has(places: list[str]) -> str:
    return "has" if len(places) == 1 else "have"


def _about(text: str, facts: Facts, operations: Operations) -> Finding:
    """The finding of a sentence, with the first thing in it that has a view of its own."""
    candidates = [("group", f"group {one.description.group}", one.description.group) for one in facts.groups]
    candidates += [("rule", f"fault rule {one.name!r}", one.name) for one in facts.faults]
    candidates += [("transaction", repr(one.transactional_id), one.transactional_id) for one in facts.transactions]
    candidates += [("topic", repr(one.name), one.name) for one in facts.topics]
    candidates += [("topic", f"group of {one.name!r}", one.name) for one in facts.topics]
    places = [(text.find(sign), -len(sign), kind, name) for kind, sign, name in candidates if sign in text]
    if places:
        _, _, kind, name = min(places)
        return Finding(text, kind, name)
    broker = re.match(r"broker (\d+) does not run", text)
    if broker:
        return Finding(text, "broker", broker[1])
    partition = re.match(r"(\S+)-\d+(?:,| has| have| and)", text)
    if partition and operations.has_topic(partition[1]):
        return Finding(text, "topic", partition[1])
    return Finding(text, "", "")


def _errors(facts: Facts) -> Iterator[ErrorCount]:
    times: Counter[tuple[str, str]] = Counter()
    rules: dict[tuple[str, str], set[str]] = {}
    for entry in facts.requests:
        for error in {*entry.errors} - _NO_FAULT:
            times[error, entry.api] += 1
            rules.setdefault((error, entry.api), set()).update(entry.faults)
    for (error, api), count in times.most_common():
        yield ErrorCount(error, api, count, tuple(sorted(rules[error, api])))

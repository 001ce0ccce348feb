"""What falls due next on the two timelines of the clock: what happens if nothing happens but that time passes.

Each entry is read from the state that the broker itself goes by: the timestamps of segments, the schedule of the log
cleaner, the deadlines of sessions, rebalances and transactions. Delete horizons of a log that the cleaner has not
looked at since the start are not known, and missing. Internal topics are left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from kmini.broker.scheduler import Turn
from kmini.broker.transactions.transaction_states import ONGOING
from kmini.control.group_rows import rebalance_of
from kmini.protocol.errors import KafkaError
from kmini.protocol.topics import TopicPartition, is_internal
from kmini.storage.retention import next_retention_ms

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.storage.cleaner.schedule import DueReason
    from kmini.storage.log import PartitionLog
    from kmini.testkit.operations import Operations

MOST_NAMES = 5
"""Members that an entry names."""

DueKind = Literal["retention", "tombstones", "roll", "compaction", "transaction", "session", "rebalance"]

_OF_CLEANER: Mapping[DueReason, tuple[DueKind, str]] = {
    "delete horizon": (
        "tombstones",
        "tombstones, or transaction markers, of {} may be removed: their delete horizon passes",
    ),
    "roll": ("roll", "the active segment of {} is sealed (segment.ms, max.compaction.lag.ms)"),
    "max.compaction.lag.ms": ("compaction", "{} must be compacted (max.compaction.lag.ms)"),
    "min.compaction.lag.ms": ("compaction", "more records of {} may be compacted (min.compaction.lag.ms)"),
}
"""The entry of each reason for which the cleaner looks at a log."""


class DueEntry(NamedTuple):
    """Something that happens when its time has come."""

    what: DueKind
    text: str
    """What happens then, in words."""
    kind: Literal["topic", "group", "transaction"]
    name: str
    """The topic, group or transactional id that it is about."""
    in_ms: int
    """Milliseconds from now until its time has come; 0 if it has."""
    within_ms: int
    """Milliseconds from then within which the periodic check comes that does it; 0 if a timer does."""
    is_time_out: bool
    """Whether it is on the timeline of time-outs, which the clock moves only with `liveness`."""
    partition_count: int
    """The partitions of the topic for which the same is known; this one is the earliest. 1 for all else."""


class NextDue:
    """What falls due next."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def due(self, *, count: int = 20) -> list[DueEntry]:
        """What falls due next, the earliest first, as far as the broker knows it: retention, sealing of segments,
        compaction and removal of tombstones, by topic; the time-outs of sessions, rebalances and transactions."""
        entries = [*await self._of_topics()]
        for broker in self._operations.running:
            entries += _of_groups(broker)
            entries += _of_transactions(broker)
        return sorted(entries, key=lambda entry: entry.in_ms)[: max(count, 0)]

    async def _of_topics(self) -> list[DueEntry]:
        """The earliest entry of each topic and reason."""
        found: dict[tuple[str, str], DueEntry] = {}
        turn = Turn()
        for name in self._operations.topic_names():
            for broker, log in self._led(name):
                for reason, entry in _of_log(broker, log):
                    other = found.get((name, reason), entry._replace(partition_count=0))
                    first = min(entry, other, key=lambda one: one.in_ms)
                    found[name, reason] = first._replace(partition_count=other.partition_count + 1)
            if turn.is_over:
                await turn.next()
        return [*found.values()]

    def _led(self, topic: str) -> Iterator[tuple[BrokerServer, PartitionLog]]:
        """The logs of a topic's partitions at their leaders, each with that broker."""
        known = None if is_internal(topic) else self._operations._controller.topic(topic)
        running = {broker.node_id: broker for broker in self._operations.running}
        for number, state in enumerate(known.partitions if known else ()):
            broker = running.get(state.leader)
            led = broker.replica_manager.partitions.get(TopicPartition(topic, number)) if broker else None
            if broker is not None and led is not None:
                yield broker, led.log


def _of_log(broker: BrokerServer, log: PartitionLog) -> Iterator[tuple[str, DueEntry]]:
    """What falls due in a log, with the reason. Damage to a file, or a refusal of the disk, leaves it out."""
    now_ms, place = broker.clock.now_ms(), log.topic_partition

    config = broker.config.current

    def entry(what: DueKind, text: str, due_ms: int, within_ms: int = config.log_cleaner_backoff_ms) -> DueEntry:
        return DueEntry(what, text.format(place), "topic", place.topic, max(due_ms - now_ms, 0), within_ms, False, 1)

    with contextlib.suppress(KafkaError, OSError):
        retention_ms = next_retention_ms(log)
        if retention_ms is not None:
            text, check_ms = "retention deletes the oldest segment of {}", config.log_retention_check_interval_ms
            yield "retention", entry("retention", text, retention_ms, check_ms)
    if not (log.config.is_compacted and config.log_cleaner_enable):
        return
    with contextlib.suppress(KafkaError, OSError):
        for reason, due_ms in broker.cleaner.schedule.due_times(place, log):
            if due_ms > now_ms:  # what has been due is done, or suspended by something that time does not end
                yield reason, entry(*_OF_CLEANER[reason], due_ms)


def _of_groups(broker: BrokerServer) -> Iterator[DueEntry]:
    now_ms = broker.clock.liveness_ms()
    for group in broker.groups.groups.values():
        name = group.group_id

        def entry(what: DueKind, text: str, in_ms: int, group_id: str = name) -> DueEntry:
            return DueEntry(what, text, "group", group_id, max(in_ms, 0), 0, True, 1)

        rebalance = rebalance_of(broker.groups, group, now_ms)
        if rebalance is not None and rebalance.remaining_ms is not None:
            awaited = ", ".join(repr(member.client_id) for member in rebalance.awaited[:MOST_NAMES])
            without = f" without {awaited}, unless that sends {rebalance.request} before" if awaited else ""
            yield entry("rebalance", f"the rebalance of group {name} goes on{without}", rebalance.remaining_ms)
        for client_id, deadline_ms in broker.groups.session_ends(group):
            text = f"member {client_id!r} of group {name} is removed, unless it sends a heartbeat before"
            yield entry("session", text, deadline_ms - now_ms)


def _of_transactions(broker: BrokerServer) -> Iterator[DueEntry]:
    now_ms = broker.clock.liveness_ms()
    for one in broker.transactions.open_transactions():
        if one.entry.state is ONGOING:
            text = f"transaction {one.transactional_id!r} is aborted, unless it ends before (transaction.timeout.ms)"
            in_ms = one.began_ms + one.entry.timeout_ms + 1 - now_ms
            check_ms = broker.config.current.transaction_abort_timed_out_transaction_cleanup_interval_ms
            yield DueEntry("transaction", text, "transaction", one.transactional_id, max(in_ms, 0), check_ms, True, 1)

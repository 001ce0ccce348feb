"""The records of a share partition that are in flight, as data (KIP-932). This module neither waits nor writes nor
reads a clock.

| state        | becomes                                                                                      |
|--------------|----------------------------------------------------------------------------------------------|
| AVAILABLE    | ACQUIRED by a fetch, which counts a delivery                                                  |
| ACQUIRED     | ACKNOWLEDGED, ARCHIVED (rejected, or no such record), or AVAILABLE again: released by its      |
|              | member, at the end of its lock or of its member's session; ARCHIVED then after the last        |
|              | delivery (`share.delivery.count.limit`)                                                       |
| ACKNOWLEDGED | nothing                                                                                       |
| ARCHIVED     | nothing                                                                                       |

The window begins at the first record whose delivery has not ended. What is below it is done, and what is at its end or
above it was not delivered to the group. A change that a member asks for is stored before it counts: the records are
pending meanwhile, and no other change of them is accepted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from ...protocol.errors import InvalidRecordState, InvalidRequest
from ..share_state.share_partition_state import Run


class RecordState(IntEnum):
    """What has become of a record, by the number that is stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self >= RecordState.ACKNOWLEDGED


AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState


class AcknowledgeType(IntEnum):
    """What a member makes of a record."""

    GAP = 0
    """There is no record of this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The lock begins anew (KIP-1222)."""


_OUTCOMES = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


class Acknowledgement(NamedTuple):
    """What becomes of offsets."""

    first: int
    last: int
    types: Sequence[int]
    """One for all offsets, or one for each."""

    def parts(self) -> Iterator[tuple[int, int, AcknowledgeType]]:
        """First offset, last offset and type of each part."""
        if len(self.types) == 1:
            yield self.first, self.last, AcknowledgeType(self.types[0])
            return
        first = self.first
        for kind, equal in groupby(self.types):
            size = sum(1 for _ in equal)
            yield first, first + size - 1, AcknowledgeType(kind)
            first += size


class Limits(NamedTuple):
    """The settings of the group, and the wishes of the member, that an acquisition keeps to."""

    max_records: int
    """Records at most. Where whole batches are acquired, the last one may exceed it."""
    batch_size: int
    """Acquired ranges are cut at the first end of a batch at which they have so many records."""
    whole_batches: bool
    """Whether new records are acquired in whole batches (KIP-1206)."""
    max_in_flight: int
    """Offsets of the window at most."""
    max_deliveries: int
    deadline_ms: int
    """When the lock ends, in liveness time."""


class _Saved(NamedTuple):
    """Records as they were before a change that is being stored."""

    state: RecordState
    member_id: str
    deadline_ms: int


class InFlight:
    """Consecutive records of one state."""

    __slots__ = ("before", "count", "deadline_ms", "first", "last", "member_id", "state")

    def __init__(
        self, first: int, last: int, state: RecordState, count: int, member_id: str = "", deadline_ms: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        """How many times they were delivered."""
        self.member_id = member_id
        """The member that has acquired them; empty for none."""
        self.deadline_ms = deadline_ms
        """When its lock ends."""
        self.before: _Saved | None = None
        """What they were, while a change is being stored."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        return self.state is AVAILABLE and self.before is None

    @property
    def is_locked(self) -> bool:
        """Whether a lock may end."""
        return self.state is ACQUIRED and self.before is None

    @property
    def is_done(self) -> bool:
        return self.state.is_terminal and self.before is None

    @property
    def run(self) -> Run:
        """As it is stored."""
        return Run(self.first, self.last, int(self.state), self.count)

    def cut(self, offset: int) -> InFlight:
        """Leave the records from `offset` on to a new object, which is returned."""
        rest = InFlight(offset, self.last, self.state, self.count, self.member_id, self.deadline_ms)
        rest.before = self.before
        self.last = offset - 1
        return rest


Change = list[InFlight]
"""Records that have changed together."""


class SharePartition:
    """A partition as a share group reads it."""

    def __init__(self, state_epoch: int, start_offset: int, runs: Iterable[Run]) -> None:
        """As it was stored: nothing is acquired."""
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        """Where the window begins (SPSO)."""
        self.records = [InFlight(run.first, run.last, RecordState(run.state), run.delivery_count) for run in runs]
        """The records in flight, in order; where there are gaps, records have to be delivered anew."""
        self.end_offset = self.records[-1].last + 1 if self.records else start_offset
        """Where the window ends: the first offset that was never acquired."""
        self._may_be_available = bool(self.records)
        """Whether there may be available records, or gaps, within the window."""
        self._advance()

    # --- what can be acquired

    @property
    def next_fetch_offset(self) -> int:
        """The first offset that can be acquired; the end of the window if none in it can."""
        if self._may_be_available:
            position = self.start_offset
            for record in self.records:
                if position < record.first or record.is_available:
                    return position
                position = record.last + 1
            self._may_be_available = False
        return self.end_offset

    def can_acquire(self, max_in_flight: int) -> bool:
        """Whether records can be acquired, if there are some: the window is not full, or some in it are available."""
        return self.end_offset - self.start_offset < max_in_flight or self.next_fetch_offset < self.end_offset

    def acquire(
        self, member_id: str, offset: int, batches: Sequence[tuple[int, int]], limits: Limits
    ) -> list[InFlight]:
        """Acquire records of these batches, given as first and last offset, from `offset` on.

        A batch that has been delivered often is delivered in ever smaller pieces, and nothing else with it: the record
        that makes its consumers fail is to be alone in the end.
        """
        throttle = max(2, -(-limits.max_deliveries // 2))
        acquired: list[InFlight] = []
        left = limits.max_records
        position, last = max(offset, self.start_offset), batches[-1][1]
        index = bisect_left(self.records, position, key=lambda record: record.last)
        while position <= last and left > 0:
            record = self.records[index] if index < len(self.records) else None
            if record is None or position < record.first:
                room = left if record else min(left, limits.max_in_flight - (position - self.start_offset))
                end = _end_of_new(
                    position, last if record is None else min(last, record.first - 1), room, batches, limits
                )
                if end < position:
                    break
                pieces = [
                    InFlight(first, stop, ACQUIRED, 1, member_id, limits.deadline_ms)
                    for first, stop in _pieces(position, end, batches, limits.batch_size)
                ]
                self.records[index:index] = pieces
                index += len(pieces)
                acquired += pieces
                if record is None:
                    self._end_at(end, batches)
                left -= end - position + 1
                position = end + 1
                continue
            if record.is_available:
                if record.first < position:
                    self._insert_rest(index, position)
                    index += 1
                    record = self.records[index]
                size = min(record.last, last) - position + 1
                is_isolated = record.count >= throttle
                if is_isolated:
                    if acquired:
                        break
                    size = min(size, _isolated_size(record, throttle, limits.max_deliveries))
                if not limits.whole_batches:
                    size = min(size, left)
                if size < len(record):
                    self._insert_rest(index, position + size)
                record.state, record.member_id, record.deadline_ms = ACQUIRED, member_id, limits.deadline_ms
                record.count += 1
                acquired.append(record)
                left -= size
                if is_isolated:
                    break
            position = record.last + 1
            index += 1
        return acquired

    def _end_at(self, last: int, batches: Sequence[tuple[int, int]]) -> None:
        """Let the window end after new records; the rest of their last batch is part of it, and available."""
        end = batches[bisect_left(batches, last, key=lambda batch: batch[1])][1]
        if last < end:
            self.records.append(InFlight(last + 1, end, AVAILABLE, 0))
            self._may_be_available = True
        self.end_offset = end + 1

    def _insert_rest(self, index: int, offset: int) -> None:
        """Cut the records at `index` in two."""
        self.records.insert(index + 1, self.records[index].cut(offset))

    def archive(self, acquired: list[InFlight], first: int, last: int) -> list[InFlight]:
        """Archive offsets of what was just acquired that no member shall get; return what is left of it. This is not
        stored: a broker that reads these offsets again archives them again."""
        left: list[InFlight] = []
        for record in acquired:
            for part in self._cut_out(record, first, last):
                if first <= part.first and part.last <= last:
                    part.state, part.member_id = ARCHIVED, ""
                else:
                    left.append(part)
        self._advance()
        return left

    def _cut_out(self, record: InFlight, first: int, last: int) -> list[InFlight]:
        """Cut these offsets out of the record; the parts of it, in order."""
        parts = [record]
        for offset in (first, last + 1):
            if parts[-1].first < offset <= parts[-1].last:
                index = bisect_left(self.records, parts[-1].first, key=lambda each: each.first)
                self._insert_rest(index, offset)
                parts.append(self.records[index + 1])
        return parts

    # --- what becomes of acquired records

    def acknowledge(
        self, member_id: str, batches: Iterable[Acknowledgement], max_deliveries: int, renewed_until_ms: int | None
    ) -> Change:
        """Begin to change what a member acknowledges; what is renewed is locked until then, at once. `commit` or
        `roll_back` ends the change. Raises InvalidRecordState, InvalidRequest, and nothing has changed then."""
        changes: Change = []
        renewed: Change = []
        try:
            for batch in batches:
                if batch.last < self.start_offset:
                    continue
                self._check_is_known(batch)
                for first, last, kind in batch.parts():
                    for record in self._owned(member_id, max(first, self.start_offset), last):
                        if kind is AcknowledgeType.RENEW:
                            if renewed_until_ms is None:
                                raise InvalidRecordState("the group does not allow to renew locks")
                            renewed.append(record)
                        else:
                            self._begin(record, _OUTCOMES[kind], max_deliveries)
                            changes.append(record)
        except (InvalidRecordState, InvalidRequest):
            self.roll_back(changes)
            raise
        for record in renewed:
            assert renewed_until_ms is not None
            record.deadline_ms = renewed_until_ms
        return changes

    def _check_is_known(self, batch: Acknowledgement) -> None:
        first = max(batch.first, self.start_offset)
        index = bisect_right(self.records, batch.last, key=lambda record: record.first) - 1
        if index < 0 or self.records[0].first > first:
            raise InvalidRecordState(f"the record at {batch.first} is not in flight")
        if first > self.records[index].last:
            raise InvalidRequest(f"the record at {batch.first} is past all acquired ones")
        if batch.last > self.records[index].last:
            raise InvalidRequest(f"the record at {batch.last} is past all acquired ones")

    def _owned(self, member_id: str, first: int, last: int) -> Iterator[InFlight]:
        """The records of these offsets, cut to them. Raises InvalidRecordState unless the member has acquired them."""
        index = bisect_left(self.records, first, key=lambda record: record.last)
        while index < len(self.records) and self.records[index].first <= last:
            record = self.records[index]
            if not record.is_locked or record.member_id != member_id:
                raise InvalidRecordState(f"{member_id} has not acquired the records {record.first} to {record.last}")
            if record.first < first:
                self._insert_rest(index, first)
                index += 1
                record = self.records[index]
            if record.last > last:
                self._insert_rest(index, last + 1)
            yield record
            index += 1

    def _begin(self, record: InFlight, state: RecordState, max_deliveries: int) -> None:
        record.before = _Saved(record.state, record.member_id, record.deadline_ms)
        self._set(record, state, max_deliveries)

    @staticmethod
    def _set(record: InFlight, state: RecordState, max_deliveries: int) -> None:
        is_over = state is AVAILABLE and record.count >= max_deliveries
        record.state, record.member_id = ARCHIVED if is_over else state, ""

    def release(self, member_id: str, max_deliveries: int) -> Change:
        """Begin to release all that a member has acquired."""
        changes = [record for record in self.records if record.is_locked and record.member_id == member_id]
        for record in changes:
            self._begin(record, AVAILABLE, max_deliveries)
        return changes

    def expire(self, now_ms: int, max_deliveries: int) -> Change:
        """Release the records whose lock has ended. That counts at once, whether it can be stored or not."""
        expired = [record for record in self.records if record.is_locked and record.deadline_ms <= now_ms]
        for record in expired:
            self._set(record, AVAILABLE, max_deliveries)
        self._may_be_available = self._may_be_available or bool(expired)
        return expired

    @property
    def next_deadline_ms(self) -> int | None:
        """When the next lock ends, in liveness time; None without one."""
        return min((record.deadline_ms for record in self.records if record.is_locked), default=None)

    @property
    def complete_count(self) -> int:
        """How many offsets of the window are done, with those of all changes that are being stored (KIP-1226), as in
        Kafka. What is taken back changes again later, and is counted anew then."""
        return sum(len(record) for record in self.records if record.state.is_terminal)

    def commit(self, change: Change) -> None:
        """End a change: it counts."""
        for record in change:
            record.before = None
            self._may_be_available = self._may_be_available or record.state is AVAILABLE
        self._advance()

    def roll_back(self, change: Change) -> None:
        """End a change: everything is as it was."""
        for record in change:
            assert record.before is not None
            record.state, record.member_id, record.deadline_ms = record.before
            record.before = None

    # --- the window

    def raise_start(self, log_start_offset: int) -> None:
        """The records below are gone."""
        if log_start_offset <= self.start_offset:
            return
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        gone = bisect_left(self.records, log_start_offset, key=lambda record: record.last)
        del self.records[:gone]
        if self.records and self.records[0].first < log_start_offset:
            self.records[0].first = log_start_offset
        self._advance()

    def _advance(self) -> None:
        """Move the start of the window past what is done. If all is, the window is empty, and begins at its end."""
        done = 0
        for record in self.records:
            if record.first > self.start_offset or not record.is_done:
                break
            self.start_offset = record.last + 1
            done += 1
        del self.records[:done]


def _end_of_new(first: int, last: int, room: int, batches: Sequence[tuple[int, int]], limits: Limits) -> int:
    """The last of the new records from `first` to `last` that are acquired: `room` of them, or whole batches."""
    end = first + room - 1
    if end >= last or room <= 0:
        return min(end, last)
    if limits.whole_batches:
        end = batches[bisect_left(batches, end, key=lambda batch: batch[1])][1]
    return min(end, last)


def _pieces(first: int, last: int, batches: Sequence[tuple[int, int]], batch_size: int) -> Iterator[tuple[int, int]]:
    """Cut these offsets at ends of batches into pieces of `batch_size` records or more."""
    for _, end in batches:
        if first <= end < last and end - first + 1 >= batch_size:
            yield first, end
            first = end + 1
    yield first, last


def _isolated_size(record: InFlight, throttle: int, max_deliveries: int) -> int:
    """How many records of a batch that was delivered often are delivered at once; one at the last attempt."""
    if max_deliveries > 2 and record.count == max_deliveries - 1:
        return 1
    return max(len(record) >> (record.count - throttle + 1), 1)

"""The contents of a topic as a consumer sees them: records of committed transactions, and the hidden ones.

The rule for a batch of a transaction: it is *open* until the end of the transaction is in the log, and then *aborted*
if the log's transaction index says so (KIP-98), else *committed*. A batch without a transaction is *committed*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

from kmini.broker.scheduler import Turn
from kmini.protocol.errors import InvalidArgument
from kmini.protocol.records.batch import BatchHeader
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.control import ControlType, control_type
from kmini.protocol.records.record import Header
from kmini.protocol.records.record import Record as LogRecord
from kmini.storage.indexes.transaction_index import AbortedTransaction
from kmini.storage.log import PartitionLog

Isolation = Literal["committed", "uncommitted", "all"]
"""The records that a read returns.

    | isolation     | shows                                                                      | up to              |
    |---------------|----------------------------------------------------------------------------|--------------------|
    | "committed"   | what a consumer at read_committed gets                                     | last stable offset |
    | "uncommitted" | what one at read_uncommitted gets: records of open and aborted transactions too | high watermark |
    | "all"         | the markers that end transactions as well                                  | high watermark     |
"""

RecordState = Literal["committed", "open", "aborted", "commit marker", "abort marker"]

ISOLATIONS: tuple[Isolation, ...] = get_args(Isolation)

READ_BYTES = 1024 * 1024
"""Bytes read from a log at a time."""

PAGE_RECORDS = 1_000
"""Records of a page, unless a request says otherwise."""

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of keys and values after which a page ends."""


class PartitionOffsets(NamedTuple):
    """The offsets of a partition. Each is the offset of a next record, so an empty log has four equal ones."""

    log_start_offset: int
    high_watermark: int
    """Consumers at read_uncommitted read up to here: records that every replica in sync has."""
    log_end_offset: int
    last_stable_offset: int
    """Consumers at read_committed read up to here: the begin of the oldest open transaction, or the high watermark."""

    @classmethod
    def of(cls, log: PartitionLog) -> PartitionOffsets:
        return cls(log.log_start_offset, log.high_watermark, log.log_end_offset, log.last_stable_offset)


class Record(NamedTuple):
    """A record with its place in the topic."""

    offset: int
    timestamp: int
    """Milliseconds since the epoch; -1 without a timestamp."""
    key: bytes | None
    value: bytes | None
    """None is a tombstone: on a compacted topic it deletes its key."""
    headers: tuple[Header, ...] = ()
    topic: str = ""
    partition: int = 0
    state: RecordState = "committed"
    """"committed"; or, if `isolation` includes them, "open", "aborted", "commit marker" or "abort marker". A marker has
    the key and value of Kafka's control records."""

    def text(self) -> str:
        """The value as text, in UTF-8. Raises ValueError for a tombstone and for bytes that are no UTF-8.

        >>> Record(0, 0, b"42", b"placed").text()
        'placed'
        """
        if self.value is None:
            raise InvalidArgument(f"the record at {self._place} is a tombstone: its value is null")
        try:
            return self.value.decode()
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"the value of the record at {self._place} is no UTF-8: {error}") from None

    def json(self) -> Any:
        """The value, read as JSON. Raises ValueError for a tombstone and for a text that is no JSON.

        >>> Record(0, 0, b"42", b'{"state": "placed"}').json()["state"]
        'placed'
        """
        import json  # not needed before

        text = self.text()
        try:
            return json.loads(text)
        except ValueError as error:
            raise InvalidArgument(
                f"the value of the record at {self._place} is no JSON: {error}: {text[:60]!r}"
            ) from None

    def header(self, name: str) -> bytes | None:
        """The value of a header; of the last one if several have this name. Raises KeyError, which names the headers
        that are there.

        >>> Record(0, 0, None, b"", (("trace", b"1"), ("trace", b"2"))).header("trace")
        b'2'
        """
        found = self.headers_dict()
        if name not in found:
            has = f"it has {', '.join(found)}" if found else "it has none"
            raise KeyError(f"the record at {self._place} has no header {name}; {has}")
        return found[name]

    def headers_dict(self) -> dict[str, bytes | None]:
        """The headers by name; the last one wins if several have the same name.

        >>> Record(0, 0, None, b"", (("trace", b"1"), ("source", None))).headers_dict()
        {'trace': b'1', 'source': None}
        """
        return dict(self.headers)

    @property
    def _place(self) -> str:
        return f"offset {self.offset} of {self.topic or 'a topic'}-{self.partition}"


class Position(NamedTuple):
    """A place in a topic, in the order of partition and offset."""

    partition: int
    offset: int


class RecordPage(list[Record]):
    """Records of a topic in the order of partition and offset, and where the rest begins."""

    next: Position | None = None
    """None after the last record."""


class _Batch(NamedTuple):
    """A batch of records with the outcome of its transaction."""

    header: BatchHeader
    state: RecordState
    records: list[LogRecord]


def shown(log: PartitionLog, isolation: Isolation, *, since: int = 0) -> Iterator[Record]:
    """Yield the visible records of a partition from the log start offset, or `since`, in the order of offsets."""
    for _, records in shown_batches(log, isolation, since=since):
        yield from records


def shown_batches(log: PartitionLog, isolation: Isolation, *, since: int = 0) -> Iterator[tuple[int, list[Record]]]:
    """Yield the records that `shown` yields batch by batch, each with the offset behind it. The records of a batch that
    is hidden are an empty list."""
    limit = _limit(log, isolation)
    for batch in _batches(log, limit, since=since):
        is_shown = _is_shown(batch.state, isolation)
        found = [Record(*one, *log.topic_partition, batch.state) for one in batch.records] if is_shown else []
        yield min(batch.header.next_offset, limit), found


async def shown_in_turns(
    logs: Mapping[PartitionLog, int],
    isolation: Isolation,
    *,
    check: Callable[[PartitionLog], None],
    takes: Callable[[Record], bool] = lambda record: True,
    most: int | None = None,
) -> RecordPage:
    """The records that `shown` yields now of each log since an offset, and that `takes` takes, one log after the other:
    all of them, or a page of at most `most`, which `PAGE_BYTES` ends, too.

    Other tasks of the loop have turns meanwhile, between batches. After each, `check` raises if a log is no longer to
    be read. Records that are deleted meanwhile may be missing.
    """
    turn = Turn()
    found, size = RecordPage(), 0
    limits = [(log, since, _limit(log, isolation)) for log, since in logs.items()]
    for log, since, limit in limits:
        check(log)
        for batch in _batches(log, limit, since=since):
            if _is_shown(batch.state, isolation):
                records = (Record(*record, *log.topic_partition, batch.state) for record in batch.records)
                for record in filter(takes, records):
                    if most is not None and (len(found) >= most or size >= PAGE_BYTES):
                        found.next = Position(record.partition, record.offset)
                        return found
                    found.append(record)
                    size += len(record.key or b"") + len(record.value or b"")
            if turn.is_over:
                await turn.next()
                check(log)
    return found


def _limit(log: PartitionLog, isolation: Isolation) -> int:
    """The offset up to which `isolation` shows records."""
    return log.last_stable_offset if isolation == "committed" else log.high_watermark


def _is_shown(state: RecordState, isolation: Isolation) -> bool:
    if isolation == "all":
        return True
    return state == "committed" if isolation == "committed" else not state.endswith("marker")


def hidden(
    logs: Iterable[PartitionLog],
    isolation: Isolation,
    name_of: Callable[[int], str],
    takes: Callable[[Record], bool] = lambda record: True,
    *,
    last: int | None = None,
) -> list[str]:
    """Describe the records that `shown` leaves out, one phrase for each reason: "1 more in an open transaction of
    billing-1".

    `name_of` returns the transactional id of a producer id. Only records count that `takes` takes, and with `last`
    those of so many last offsets of each log.
    """
    counts: Counter[str] = Counter()
    for log in logs:
        since = None if last is None else log.high_watermark - last
        for batch in _batches(log, log.high_watermark, since=since):
            is_beyond = isolation == "committed" and batch.header.base_offset >= log.last_stable_offset
            if batch.state in ("open", "aborted") and not _is_shown(batch.state, isolation):
                article = "an open" if batch.state == "open" else "an aborted"
                reason = f"in {article} transaction of {name_of(batch.header.producer_id)}"
                counts[reason] += _taken(log, batch, takes)
            elif batch.state == "committed" and is_beyond:
                counts["beyond the last stable offset"] += _taken(log, batch, takes)
        for batch in _batches(log, log.log_end_offset, since=log.high_watermark):
            if not batch.header.is_control:
                counts["beyond the high watermark"] += _taken(log, batch, takes)
    return [f"{count} more {reason}" for reason, count in counts.items() if count]


def _taken(log: PartitionLog, batch: _Batch, takes: Callable[[Record], bool]) -> int:
    return sum(takes(Record(*record, *log.topic_partition, batch.state)) for record in batch.records)


def _batches(log: PartitionLog, limit: int, *, since: int | None = None) -> Iterator[_Batch]:
    """Yield the batches with records from the log start offset, or `since`, to below `limit`. Their states are those at
    the first one; records may be deleted between two."""
    start = max(log.log_start_offset, since or 0)
    if start >= limit:
        return
    aborted: dict[int, list[AbortedTransaction]] = {}
    for transaction in log.aborted_transactions(start, limit):
        aborted.setdefault(transaction.producer_id, []).append(transaction)
    open_since = {producer_id: first for first, producer_id in log.producers.ongoing.items()}
    for batches, position, header in log.batches_between(start, limit, READ_BYTES):
        found = decode_records(batches, position, header)
        records = [record for record in found if start <= record.offset < limit]
        if records:
            yield _Batch(header, _state_of(header, found, aborted.get(header.producer_id, ()), open_since), records)


def _state_of(
    header: BatchHeader,
    records: list[LogRecord],
    aborted: Iterable[AbortedTransaction],
    open_since: Mapping[int, int],
) -> RecordState:
    """The state of a batch. `aborted` are the aborted transactions of its producer, and `open_since` the first offset
    of each open transaction, by its producer."""
    if header.is_control:
        return "abort marker" if control_type(records[0].key) == ControlType.ABORT else "commit marker"
    if not header.is_transactional:
        return "committed"
    if any(one.first_offset <= header.base_offset <= one.last_offset for one in aborted):
        return "aborted"
    began = open_since.get(header.producer_id)
    return "open" if began is not None and began <= header.base_offset else "committed"

"""A fetch of a member of a share group: it waits until there are available records, and acquires some (KIP-932)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import KafkaError
from ...protocol.records.batch import iter_batches
from ..purgatory import Operation
from .share_partition import InFlight, Limits

if TYPE_CHECKING:
    from ...storage.log import PartitionLog
    from .share_partition_manager import LedSharePartition


class Wishes(NamedTuple):
    """What a member wishes of a fetch."""

    member_id: str
    max_bytes: int
    max_records: int
    batch_size: int
    whole_batches: bool


class Acquired(NamedTuple):
    """What a member has acquired of a partition."""

    records: bytes
    """Batches; they may hold more than what was acquired."""
    ranges: Sequence[InFlight]


class DelayedShareFetch(Operation):
    """The wait of a share fetch: complete when `min_bytes` can be acquired, or a partition has an error to tell."""

    __slots__ = ("_min_bytes", "_wanted")

    def __init__(self, wanted: Sequence[LedSharePartition], min_bytes: int) -> None:
        self._wanted = wanted
        self._min_bytes = min_bytes

    @property
    def keys(self) -> list[Hashable]:
        keys: list[Hashable] = []
        for led in self._wanted:
            keys += (led.partition.topic_partition, led.key)
        return keys

    def is_complete(self) -> bool:
        missing_bytes = max(self._min_bytes, 1)
        for led in self._wanted:
            if led.error is not None:
                return True
            missing_bytes -= _bytes_to_acquire(led)
            if missing_bytes <= 0:
                return True
        return False


class SessionLimit(Operation):
    """The wait of a member for whom there is no share session: for its whole time."""

    __slots__ = ()

    @property
    def keys(self) -> tuple[()]:
        return ()

    def is_complete(self) -> bool:
        return False


def acquire_all(wanted: Sequence[LedSharePartition], wishes: Wishes) -> dict[LedSharePartition, Acquired]:
    """Acquire records of the partitions, in order. Those that have some share the bytes evenly."""
    ready = [led for led in wanted if led.error is None and _bytes_to_acquire(led) > 0]
    acquired: dict[LedSharePartition, Acquired] = {}
    left = wishes.max_records
    for led in ready:
        if left <= 0:
            break
        try:
            got = _acquire(led, wishes._replace(max_bytes=max(wishes.max_bytes // len(ready), 1), max_records=left))
        except KafkaError as error:
            led.fail(error)
            continue
        if got is not None:
            acquired[led] = got
            left -= sum(map(len, got.ranges))
    return acquired


def _bytes_to_acquire(led: LedSharePartition) -> int:
    """Bytes from the first record on that can be acquired; 0 if none can."""
    window = led.window
    if window is None:
        return 0
    partition_log = led.partition.log
    window.raise_start(partition_log.log_start_offset)
    if not window.can_acquire(led.config.share_partition_max_record_locks):
        return 0
    try:
        return partition_log.bytes_between(window.next_fetch_offset, _limit_offset(led))
    except KafkaError:
        return 1  # the read has the error


def _limit_offset(led: LedSharePartition) -> int:
    """The first offset that the group may not read."""
    partition_log = led.partition.log
    return partition_log.last_stable_offset if _reads_committed(led) else partition_log.high_watermark


def _reads_committed(led: LedSharePartition) -> bool:
    return led.config.share_isolation_level == "read_committed"


def _acquire(led: LedSharePartition, wishes: Wishes) -> Acquired | None:
    window, partition_log, config = led.window, led.partition.log, led.config
    assert window is not None
    offset = window.next_fetch_offset
    data = memoryview(partition_log.read(offset, wishes.max_bytes, _limit_offset(led)))
    batches = [*iter_batches(data)]
    if not batches:
        return None
    ranges = window.acquire(
        wishes.member_id,
        offset,
        [(header.base_offset, header.last_offset) for _, header in batches],
        Limits(
            max_records=wishes.max_records,
            batch_size=wishes.batch_size,
            whole_batches=wishes.whole_batches,
            max_in_flight=config.share_partition_max_record_locks,
            max_deliveries=config.share_delivery_count_limit,
            deadline_ms=led.lock_deadline_ms(),
        ),
    )
    if ranges and _reads_committed(led):
        for first, last in _aborted(partition_log, data):
            ranges = window.archive(ranges, first, last)
    if not ranges:
        return None
    led.set_timer()
    first, last = ranges[0].first, ranges[-1].last
    begin = next(position for position, header in batches if header.last_offset >= first)
    end = max((position + header.size for position, header in batches if header.base_offset <= last), default=begin)
    return Acquired(bytes(data[begin:end]), ranges)


def _aborted(partition_log: PartitionLog, data: memoryview) -> list[tuple[int, int]]:
    """First and last offset of each batch of an aborted transaction."""
    headers = [header for _, header in iter_batches(data)]
    aborted = partition_log.aborted_transactions(headers[0].base_offset, headers[-1].next_offset)
    return [
        (header.base_offset, header.last_offset)
        for header in headers
        if header.is_transactional
        and not header.is_control
        and any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        )
    ]

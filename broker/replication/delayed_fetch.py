"""A fetch of any number of partitions: its wait, and its reads after that (`handlers/fetch.py` has all its steps)."""

import time
from collections.abc import Hashable, Iterable, Sequence

from ..metrics import Metrics
from ..purgatory import Operation
from ..scheduler import end_of_next_turn_s, end_of_turn_s
from .fetch_partition import FetchedData, FetchPartition


class DelayedFetch(Operation):
    """The wait of a fetch: complete when `min_bytes` can be read, or a partition has something else to say.

    `wanted` may change while the fetch waits: the code that changes it checks `session`, which is watched, too.
    """

    __slots__ = ("_min_bytes", "_session", "_wanted")

    def __init__(self, wanted: Iterable[FetchPartition], min_bytes: int, session: Hashable = None) -> None:
        self._wanted = wanted
        self._min_bytes = min_bytes
        self._session = session

    @property
    def keys(self) -> list[Hashable]:
        keys: list[Hashable] = []
        for wanted in self._wanted:
            keys.append(wanted.topic_partition)
        if self._session is not None:
            keys.append(self._session)
        return keys

    def is_complete(self) -> bool:
        missing_bytes = self._min_bytes
        whole_first_batch = True  # as `read_all` has it
        for wanted in self._wanted:
            if wanted.instead_of_records() is not None:
                return True
            if wanted.reader.is_follower and wanted.must_tell_follower():
                return True
            if wanted.asked.fetch_offset < wanted.limit_offset():
                if missing_bytes <= 1:
                    return True
                missing_bytes -= wanted.bytes_to_read(missing_bytes, whole_first_batch)
                whole_first_batch = False
        return missing_bytes <= 0


def read_at_once(wanted: Sequence[FetchPartition], max_bytes: int) -> list[FetchedData] | None:
    """What `read_all` returns, where that needs one turn of the loop only: of one partition. Else None."""
    return [wanted[0].read(max_bytes, True)] if len(wanted) == 1 else None


async def read_all(wanted: Sequence[FetchPartition], max_bytes: int) -> list[FetchedData]:
    """Read the partitions in order, `max_bytes` of all together; the first batch of all is whole, however large."""
    left = max(max_bytes, 0)
    nothing_yet = True
    turn_ends_s = end_of_turn_s()
    answers = []
    for partition in wanted:
        if time.perf_counter() >= turn_ends_s:
            turn_ends_s = await end_of_next_turn_s()
        answer = partition.read(left, nothing_yet)
        size = len(answer.records)
        if size:
            nothing_yet = False
            left = max(left - size, 0)
        answers.append(answer)
    return answers


def count_fetched(metrics: Metrics, wanted: Iterable[FetchPartition], answers: Iterable[FetchedData]) -> None:
    """Count the partitions that a request has read: as traffic of consumers, or of followers."""
    for one, answer in zip(wanted, answers):  # noqa: B905 (they are of the same length, and this is the hot path)
        if not answer.error_code and one.topic_partition is not None:
            size = len(answer.records)
            if one.reader.is_follower:
                metrics.replication_bytes_out += size
                size = 0
            metrics.fetched(one.topic_partition.topic, size)

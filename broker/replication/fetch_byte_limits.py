"""What a fetch reads of its partitions, in their order and within its limits: the first batch is whole, whatever the
limits say, and then the others get nothing (KIP-74). How far a reader may read in one partition, `fetch_partition.py`
says."""

import time
from collections.abc import Iterable, Sequence

from ..metrics import Metrics
from ..scheduler import end_of_next_turn_s, end_of_turn_s
from .fetch_partition import FetchedData, FetchPartition


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

"""Replay of a partition of an internal topic: short steps, over segments that may be replaced meanwhile."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.coordinators import internal_records
from kmini.broker.coordinators.internal_records import RECORDS_A_STEP, LastValues, replayed
from kmini.broker.replication.partition import Partition
from support.broker.stored_groups import append_offsets, loaded_offsets


async def test_a_step_reads_a_bounded_number_of_records_of_a_batch(partition: Partition) -> None:
    append_offsets(partition, range(10 * RECORDS_A_STEP))
    last = LastValues()
    sizes = [0] + [len(last.values) for _ in replayed(partition.log, last)]
    assert max(after - before for before, after in pairwise(sizes)) <= RECORDS_A_STEP
    assert sizes[-1] == 10 * RECORDS_A_STEP


async def test_segments_may_be_replaced_between_the_steps(
    broker: BrokerServer, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_records, "_CHUNK_BYTES", 256)
    for number in range(60):
        append_offsets(partition, range(number % 5, number % 5 + 1), offset=number)
        if number % 10 == 9:
            broker.replica_manager.roll(partition)
    steps = broker.groups.load(partition)
    for _ in range(7):
        next(steps)
    before = partition.log.segments.size_bytes
    await broker.cleaner.compact(partition.topic_partition)
    assert partition.log.segments.size_bytes < before
    deque(steps, maxlen=0)
    assert loaded_offsets(broker) == {number % 5: number for number in range(55, 60)}

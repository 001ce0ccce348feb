"""Partitions of coordinators are loaded in slices, between other requests, which are told so."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise

import pytest

from kmini.broker.broker import Broker
from kmini.broker.controller import topics
from kmini.broker.coordinators import internal_records
from kmini.broker.coordinators import loader as loading
from kmini.broker.coordinators.coordinator_topic import NO_PRODUCER, Producer
from kmini.broker.coordinators.internal_records import RECORDS_A_STEP, LastValues, replayed
from kmini.broker.coordinators.loader import Loading, without_collection
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.groups.group_records import encode_offset, offset_key, offset_key_prefix
from kmini.broker.replication.partition import Partition
from kmini.broker.transactions.markers import Marker
from kmini.protocol.errors import CoordinatorLoadInProgress, NotLeaderOrFollower
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from kmini.storage.producers.producer_state import Origin
from kmini.storage.validation import ValidatedRecords

StartBroker = Callable[..., Awaitable[Broker]]

GROUP = "g"


@pytest.fixture
async def broker(start_broker: StartBroker) -> Broker:
    broker = await start_broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        topics.create_missing(broker, name)
    return broker


@pytest.fixture
def partition(broker: Broker) -> Partition:
    return broker.partitions[TopicPartition(CONSUMER_OFFSETS, 0)]


def append(partition: Partition, numbers: range, *, offset: int = 7, group: str = GROUP) -> None:
    """Committed offsets of partitions of "orders", in one batch."""
    prefix, value = offset_key_prefix(group, "orders"), encode_offset(CommittedOffset(offset, -1, "", 0))
    records = [Record(0, 0, offset_key(prefix, number), value) for number in numbers]
    partition.append(ValidatedRecords.of(build_batch(records)), 0, Origin.COORDINATOR)


def stored(broker: Broker) -> dict[int, int]:
    group = broker.groups.groups[GROUP]
    return {number: one.offset for number, one in group.offsets.by_topic["orders"].items()}


# --- slices


async def test_other_work_goes_on_between_the_slices(
    broker: Broker, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(partition, range(20 * RECORDS_A_STEP))
    monkeypatch.setattr(loading, "SLICE_S", 0.0)
    broker.loading.ask(broker.groups.load(partition))
    turns = 0
    while broker.groups.store.topic.is_loading(0):
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 40, "20 steps of reading and 20 of decoding"
    assert len(stored(broker)) == 20 * RECORDS_A_STEP


async def test_a_slice_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr("kmini.broker.scheduler.time.perf_counter", lambda: now_s)
    taken: list[float] = []

    def work() -> Iterator[None]:
        nonlocal now_s
        for _ in range(10):
            now_s += loading.SLICE_S / 2
            taken.append(now_s)
            yield

    work_of_one = Loading()
    work_of_one.ask(work())
    most, before = 0, len(taken)
    while len(taken) < 10:
        await asyncio.sleep(0)
        most, before = max(most, len(taken) - before), len(taken)
    await work_of_one.idle()
    assert most == 2


async def test_a_step_reads_a_bounded_number_of_records_of_a_batch(partition: Partition) -> None:
    append(partition, range(10 * RECORDS_A_STEP))
    last = LastValues()
    sizes = [0] + [len(last.values) for _ in replayed(partition.log, last)]
    assert max(after - before for before, after in pairwise(sizes)) <= RECORDS_A_STEP
    assert sizes[-1] == 10 * RECORDS_A_STEP


async def test_one_partition_is_loaded_after_the_other() -> None:
    done: list[str] = []

    def work(name: str) -> Iterator[None]:
        for _ in range(3):
            done.append(name)
            yield

    work_of_one = Loading()
    for name in ("a", "b"):
        work_of_one.ask(work(name))
    await work_of_one.idle()
    assert done == ["a", "b", "a", "a", "b", "b"], "the first step is taken at once"


async def test_work_that_fails_is_logged_and_the_next_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> Iterator[None]:
        yield
        raise OSError("a disk fault")

    done: list[int] = []

    def works() -> Iterator[None]:
        yield
        done.append(1)

    work_of_one = Loading()
    work_of_one.ask(fails())
    work_of_one.ask(works())
    await work_of_one.idle()
    assert done == [1]
    assert "loading the partition of a coordinator failed" in caplog.text


async def test_the_collector_is_back_when_very_many_records_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(loading.gc, "freeze", lambda: frozen.append(gc.isenabled()))
    assert gc.isenabled()
    seen: list[bool] = []

    def work() -> Iterator[None]:
        seen.append(gc.isenabled())
        yield

    first, second = (without_collection(work(), loading.MANY_RECORDS) for _ in range(2))
    next(first)
    deque(second, maxlen=0)
    assert not gc.isenabled()
    first.close()
    assert gc.isenabled()
    assert (seen, frozen) == ([False, False], [False])
    deque(without_collection(work(), loading.MANY_RECORDS - 1), maxlen=0)
    assert seen[-1]


async def test_segments_may_be_replaced_between_the_steps(
    broker: Broker, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_records, "_CHUNK_BYTES", 256)
    for number in range(60):
        append(partition, range(number % 5, number % 5 + 1), offset=number)
        if number % 10 == 9:
            broker.replica_manager.roll(partition)
    steps = broker.groups.load(partition)
    for _ in range(7):
        next(steps)
    before = partition.log.segments.size_bytes
    await broker.cleaner.compact(partition.topic_partition)
    assert partition.log.segments.size_bytes < before
    deque(steps, maxlen=0)
    assert stored(broker) == {number % 5: number for number in range(55, 60)}


async def test_the_memory_of_groups_is_given_back_step_by_step(broker: Broker, partition: Partition) -> None:
    for number in range(50):
        append(partition, range(3), group=f"g{number}")
    deque(broker.groups.load(partition), maxlen=0)
    freed = [weakref.ref(group) for group in broker.groups.groups.values()]
    steps = broker.groups.unload(0)
    assert broker.groups.groups == {}
    left = []
    for _ in steps:
        left.append(sum(one() is not None for one in freed))
    assert max(before - after for before, after in pairwise([50, *left])) == 1
    assert left[-1] <= 1


# --- answers meanwhile


async def test_a_group_is_being_loaded_until_the_last_step(broker: Broker, partition: Partition) -> None:
    append(partition, range(3))
    steps = broker.groups.load(partition)
    for _ in steps:
        if broker.groups.store.topic.is_loading(0):
            for ask in (broker.groups.store.check, broker.groups.find):
                with pytest.raises(CoordinatorLoadInProgress):
                    ask(GROUP)
            with pytest.raises(CoordinatorLoadInProgress):
                broker.groups.store.topic.check_all_loaded()
            broker.groups.heartbeat(GROUP, "m", None, 1)  # which says nothing, as in Kafka
    assert broker.groups.find(GROUP).offsets.get(TopicPartition("orders", 0)) is not None


async def test_a_partition_that_is_being_loaded_takes_no_marker(broker: Broker, partition: Partition) -> None:
    append(partition, range(3))
    steps = broker.groups.load(partition)
    marker, end = Marker(Producer(1, 0), is_commit=True, coordinator_epoch=0), partition.log.log_end_offset
    where = partition.topic_partition
    assert await broker.marker_writer.write(marker, [where]) == {where: NotLeaderOrFollower.code}
    assert partition.log.log_end_offset == end
    deque(steps, maxlen=0)
    assert await broker.marker_writer.write(marker, [where]) == {where: 0}


async def test_a_transactional_id_is_being_loaded_until_the_last_step(broker: Broker) -> None:
    coordinator = broker.transactions
    producer = await coordinator.init_producer_id("t", 60_000, NO_PRODUCER)
    steps = coordinator.load(broker.partitions[TopicPartition(TRANSACTION_STATE, 0)])
    with pytest.raises(CoordinatorLoadInProgress):
        await coordinator.init_producer_id("t", 60_000, NO_PRODUCER)
    with pytest.raises(CoordinatorLoadInProgress):
        await coordinator.add_partitions("t", producer, [TopicPartition("orders", 0)])
    with pytest.raises(CoordinatorLoadInProgress):
        coordinator.store.topic.check_all_loaded()
    deque(steps, maxlen=0)
    assert (await coordinator.init_producer_id("t", 60_000, NO_PRODUCER)).epoch == producer.epoch + 1


async def test_loading_ends_when_the_partition_is_led_elsewhere(broker: Broker, partition: Partition) -> None:
    append(partition, range(5 * RECORDS_A_STEP))
    steps = broker.groups.load(partition)
    next(steps)
    broker.groups.unload(0)
    assert len([*steps]) == 0
    assert broker.groups.groups == {}

"""Partitions of coordinators are loaded in slices, between other requests, which are told so."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import deque
from collections.abc import Iterator
from itertools import pairwise

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.coordinators import loader as loading
from kmini.broker.coordinators.coordinator_topic import NO_PRODUCER, Producer
from kmini.broker.coordinators.internal_records import RECORDS_A_STEP
from kmini.broker.coordinators.loader import Loading, without_collection
from kmini.broker.replication.partition import Partition
from kmini.broker.transactions.markers import Marker
from kmini.protocol.errors import CoordinatorLoadInProgress, NotLeaderOrFollower
from kmini.protocol.topics import TRANSACTION_STATE, TopicPartition
from support.broker.stored_groups import append_offsets, loaded_offsets

# --- slices


async def test_other_work_goes_on_between_the_slices(
    broker: BrokerServer, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_offsets(partition, range(20 * RECORDS_A_STEP))
    monkeypatch.setattr(loading, "SLICE_S", 0.0)
    broker.coordination.loading.submit(broker.groups.load(partition))
    turns = 0
    while broker.groups.store.topic.is_loading(0):
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 40, "20 steps of reading and 20 of decoding"
    assert len(loaded_offsets(broker)) == 20 * RECORDS_A_STEP


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
    work_of_one.submit(work())
    most, before = 0, len(taken)
    while len(taken) < 10:
        await asyncio.sleep(0)
        most, before = max(most, len(taken) - before), len(taken)
    await work_of_one.idle()
    assert most == 2


async def test_one_partition_is_loaded_after_the_other() -> None:
    done: list[str] = []

    def work(name: str) -> Iterator[None]:
        for _ in range(3):
            done.append(name)
            yield

    work_of_one = Loading()
    for name in ("a", "b"):
        work_of_one.submit(work(name))
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
    work_of_one.submit(fails())
    work_of_one.submit(works())
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


async def test_the_memory_of_groups_is_given_back_step_by_step(broker: BrokerServer, partition: Partition) -> None:
    for number in range(50):
        append_offsets(partition, range(3), group=f"g{number}")
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


async def test_a_group_is_being_loaded_until_the_last_step(broker: BrokerServer, partition: Partition) -> None:
    append_offsets(partition, range(3))
    steps = broker.groups.load(partition)
    for _ in steps:
        if broker.groups.store.topic.is_loading(0):
            for ask in (broker.groups.store.check, broker.groups.find):
                with pytest.raises(CoordinatorLoadInProgress):
                    ask("g")
            with pytest.raises(CoordinatorLoadInProgress):
                broker.groups.store.topic.check_all_loaded()
            broker.groups.heartbeat("g", "m", None, 1)  # which says nothing, as in Kafka
    assert broker.groups.find("g").offsets.get(TopicPartition("orders", 0)) is not None


async def test_a_partition_that_is_being_loaded_takes_no_marker(broker: BrokerServer, partition: Partition) -> None:
    append_offsets(partition, range(3))
    steps = broker.groups.load(partition)
    marker, end = Marker(Producer(1, 0), is_commit=True, coordinator_epoch=0), partition.log.log_end_offset
    where = partition.topic_partition
    assert await broker.marker_writer.write(marker, [where]) == {where: NotLeaderOrFollower.code}
    assert partition.log.log_end_offset == end
    deque(steps, maxlen=0)
    assert await broker.marker_writer.write(marker, [where]) == {where: 0}


async def test_a_transactional_id_is_being_loaded_until_the_last_step(broker: BrokerServer) -> None:
    coordinator = broker.transactions
    producer = await coordinator.init_producer_id("t", 60_000, NO_PRODUCER)
    steps = coordinator.load(broker.replica_manager.partitions[TopicPartition(TRANSACTION_STATE, 0)])
    with pytest.raises(CoordinatorLoadInProgress):
        await coordinator.init_producer_id("t", 60_000, NO_PRODUCER)
    with pytest.raises(CoordinatorLoadInProgress):
        await coordinator.add_partitions("t", producer, [TopicPartition("orders", 0)])
    with pytest.raises(CoordinatorLoadInProgress):
        coordinator.store.topic.check_all_loaded()
    deque(steps, maxlen=0)
    assert (await coordinator.init_producer_id("t", 60_000, NO_PRODUCER)).epoch == producer.epoch + 1


async def test_loading_ends_when_the_partition_is_led_elsewhere(broker: BrokerServer, partition: Partition) -> None:
    append_offsets(partition, range(5 * RECORDS_A_STEP))
    steps = broker.groups.load(partition)
    next(steps)
    broker.groups.unload(0)
    assert len([*steps]) == 0
    assert broker.groups.groups == {}

"""Groups and offsets in `__consumer_offsets`: where they go, how they are written, and that they come back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.groups.committed_offsets import CommittedOffsets
from kmini.broker.groups.group_records import encode_offset, group_key, offset_key_prefix
from kmini.broker.groups.group_records import offset_key as key_of
from kmini.broker.groups.group_store import GroupStore
from kmini.protocol.errors import (
    CoordinatorNotAvailable,
    InvalidGroupId,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
    RequestTimedOut,
    UnknownServerError,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from support.broker.stored_groups import (
    OFFSET,
    PARTITION,
    a_member,
    an_empty_group,
    commit,
    held,
    records_of,
    stored_groups,
)

StartBroker = Callable[..., Awaitable[BrokerServer]]


# --- places


async def test_a_group_has_a_name(store: GroupStore) -> None:
    store.check("g" * 32767)
    store.check("", allow_empty=True)
    for bad in ("", "g" * 32768, "ä" * 16384):
        with pytest.raises(InvalidGroupId):
            store.check(bad)


# --- writing


async def test_offsets_are_written_as_one_batch_and_then_show(store: GroupStore) -> None:
    offsets = await commit(store, "g", PARTITION, TopicPartition("orders", 4), TopicPartition("other", 0))
    assert held(offsets) == {PARTITION: 42, ("orders", 4): 42, ("other", 0): 42}
    records = records_of(store, "g")
    now_ms = store._replica_manager.clock.now_ms()
    assert [record.key for record in records] == [
        key_of(offset_key_prefix("g", topic), partition) for topic, partition in offsets
    ]
    assert {record.value for record in records} == {encode_offset(OFFSET)}
    assert all(now_ms - 60_000 < record.timestamp <= now_ms for record in records)
    log = store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of("g"))].log
    assert len(list(log.segments.active.headers())) == 1


async def test_a_removal_is_a_tombstone(store: GroupStore) -> None:
    offsets = await commit(store, "g")
    changes = store.changes("g")
    changes.remove(PARTITION)
    await store.write_offsets(changes, offsets)
    assert not offsets
    assert [record.value for record in records_of(store, "g")] == [encode_offset(OFFSET), None]


async def test_no_changes_are_not_written(store: GroupStore) -> None:
    await store.write_offsets(store.changes("g"), CommittedOffsets())
    assert records_of(store, "g") == []


async def test_changes_that_no_batch_can_take_are_refused_before_they_take_memory(store: GroupStore) -> None:
    changes = store.changes("g")

    def fill() -> None:
        for _ in range(300):
            changes.set(PARTITION, OFFSET._replace(metadata="m" * 4096))

    with pytest.raises(UnknownServerError):
        fill()
    assert changes.is_full
    assert 250 < len(changes.records) < 256
    await store.write_offsets(changes, CommittedOffsets())


async def test_forgetting_a_group_with_very_many_offsets_takes_several_batches(store: GroupStore) -> None:
    offsets = CommittedOffsets()
    for start in range(0, 30_000, 5_000):
        changes = store.changes("g")
        for number in range(start, start + 5_000):
            changes.set(TopicPartition("a-topic-with-a-name-of-some-length", number), OFFSET)
        await store.write_offsets(changes, offsets)
    assert len(offsets) == 30_000
    await store.write_tombstones("g", offsets, [(group_key("g"), None)])
    assert not offsets
    assert stored_groups(store) == {}


async def test_a_batch_that_can_take_one_record_only_is_filled_and_written_again_and_again(store: GroupStore) -> None:
    offsets = await commit(store, "g", *(TopicPartition("orders", number) for number in range(5)))
    log = store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of("g"))].log
    log.config = log.config.replace(max_message_bytes=110)
    await store.write_tombstones("g", offsets, [(group_key("g"), None)])
    assert stored_groups(store) == {}
    log.config = log.config.replace(max_message_bytes=10)
    with pytest.raises(UnknownServerError):
        await store.write_tombstones("g", CommittedOffsets(), [(group_key("g"), None)])


async def test_forgetting_a_group_ends_with_its_own_tombstone(store: GroupStore) -> None:
    await store.write_group("g", an_empty_group())
    offsets = await commit(store, "g")
    await store.write_tombstones("g", offsets, [(group_key("g"), None)])
    last = records_of(store, "g")[-2:]
    assert [record.value for record in last] == [None, None]
    assert last[1].key == group_key("g")


@pytest.mark.parametrize(
    ("why", "told"),
    [
        (NotEnoughReplicas("one of two"), CoordinatorNotAvailable),
        (KafkaStorageError("the disk is full"), NotCoordinator),
    ],
)
async def test_a_log_that_refuses_leaves_memory_as_it_was(
    store: GroupStore, monkeypatch: pytest.MonkeyPatch, why: KafkaError, told: type[KafkaError]
) -> None:
    offsets = await commit(store, "g")
    partition = store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of("g"))]

    def refuse() -> None:
        raise why

    monkeypatch.setattr(partition, "check_min_isr", refuse)
    changes = store.changes("g")
    changes.set(PARTITION, OFFSET._replace(offset=50))
    with pytest.raises(told):
        await store.write_offsets(changes, offsets)
    assert held(offsets) == {PARTITION: 42}


async def test_a_group_that_no_batch_can_take_is_a_server_error(store: GroupStore) -> None:
    group = an_empty_group()
    group.members = [a_member(subscription=b"s" * 2_000_000)]
    with pytest.raises(UnknownServerError):
        await store.write_group("g", group)


async def test_a_commit_waits_for_the_replicas_until_its_timeout(
    store: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of("g"))]
    monkeypatch.setattr(type(partition.log), "update_high_watermark", lambda *_: False)
    waits: list[tuple[Any, int]] = []

    async def expire(operation: Any, *, timeout_ms: int, waiter: Any) -> bool:
        waits.append((operation, timeout_ms))
        return False

    monkeypatch.setattr(store._replica_manager.purgatory, "wait", expire)
    with pytest.raises(CoordinatorNotAvailable) as refusal:
        await commit(store, "g")
    assert isinstance(refusal.value.__cause__, RequestTimedOut)
    ((operation, timeout_ms),) = waits
    assert timeout_ms == 5_000
    assert operation.keys == [partition.topic_partition]
    assert not operation.is_complete()
    partition.log.high_watermark = partition.log.log_end_offset
    assert operation.is_complete()

"""Groups and offsets in `__consumer_offsets`: where they go, how they are written, and that they come back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import java_hash, partition_for
from kmini.broker.groups.committed_offsets import CommittedOffset, CommittedOffsets
from kmini.broker.groups.group_loader import LoadedGroup
from kmini.broker.groups.group_records import GroupMetadata, encode_group, encode_offset, group_key, offset_key_prefix
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
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record, decode_all
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from kmini.storage.producers.producer_state import Origin
from kmini.storage.validation import ValidatedRecords
from support.broker.stored_groups import stored_groups

StartBroker = Callable[..., Awaitable[Broker]]

PARTITION = TopicPartition("orders", 3)
OFFSET = CommittedOffset(42, 7, "note", 1000)


@pytest.fixture
async def broker(start_broker: StartBroker) -> Broker:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    return broker


@pytest.fixture
def store(broker: Broker) -> GroupStore:
    return broker.groups.store


async def commit(store: GroupStore, group_id: str, *partitions: TopicPartition, offset: int = 42) -> CommittedOffsets:
    offsets, changes = CommittedOffsets(), store.changes(group_id)
    for partition in partitions or (PARTITION,):
        changes.set(partition, OFFSET._replace(offset=offset))
    await store.write_offsets(changes, offsets)
    return offsets


def held(offsets: CommittedOffsets) -> dict[TopicPartition, int]:
    return {partition: committed.offset for partition in offsets if (committed := offsets.get(partition))}


def records_of(store: GroupStore, group_id: str) -> list[Record]:
    log = store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of(group_id))].log
    return decode_all(log.read(0, 1 << 20, limit_offset=log.high_watermark))


# --- places


@pytest.mark.parametrize(
    ("group_id", "hashed", "partition"),
    [
        ("my-group", -1906497762, 12),
        ("console-consumer-1", 35782224, 24),
        ("tx-1", 3572520, 20),
        ("polygenelubricants", -2147483648, 0),
        ("", 0, 0),
        ("\N{GRINNING FACE}", 1772899, 49),  # two UTF-16 units, as in Java
    ],
)
def test_a_group_goes_where_kafka_puts_it(group_id: str, hashed: int, partition: int) -> None:
    assert java_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


def test_a_name_that_no_record_has_room_for_is_not_even_hashed() -> None:
    assert partition_for("x" * 0x7FFF, 50) == abs(java_hash("x" * 0x7FFF)) % 50 != 0
    assert partition_for("x" * 50_000_000, 50) == 0


async def test_the_topic_is_made_when_a_coordinator_is_asked_for(start_broker: StartBroker) -> None:
    broker = await start_broker(offsets_topic_num_partitions=5, offsets_topic_segment_bytes=1 << 20)
    assert broker.groups.store.coordinator_of("g") == broker.config.node_id
    topic = broker.controller.topics[CONSUMER_OFFSETS]
    assert len(topic.partitions) == 5
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(1 << 20),
    }
    config = broker.partitions[TopicPartition(CONSUMER_OFFSETS, 0)].log.config
    assert config.is_compacted
    assert not config.is_deletable
    broker.groups.store.coordinator_of("g")


async def test_it_has_eight_partitions_and_as_many_replicas_as_there_are_brokers(store: GroupStore) -> None:
    topic = store._replica_manager.controller.topics[CONSUMER_OFFSETS]
    assert (len(topic.partitions), topic.replication_factor) == (8, 1)


async def test_nobody_coordinates_anything_before_the_topic_is_made(start_broker: StartBroker) -> None:
    broker = await start_broker()
    with pytest.raises(NotCoordinator):
        broker.groups.store.check("g")


async def test_a_group_has_a_name(store: GroupStore) -> None:
    store.check("g" * 32767)
    store.check("", allow_empty=True)
    for bad in ("", "g" * 32768, "ä" * 16384):
        with pytest.raises(InvalidGroupId):
            store.check(bad)


async def test_a_partition_that_is_led_elsewhere_is_coordinated_elsewhere(store: GroupStore) -> None:
    del store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of("g"))]
    with pytest.raises(NotCoordinator):
        store.check("g")


async def test_a_topic_that_cannot_be_made_is_a_coordinator_that_is_not_available(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await start_broker()

    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaStorageError("the disk is full")

    monkeypatch.setattr(topics, "create_missing", refuse)
    with pytest.raises(CoordinatorNotAvailable, match="the disk is full"):
        broker.groups.store.coordinator_of("g")


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
    await store.write_tombstone("g", offsets)
    assert not offsets
    assert stored_groups(store) == {}


async def test_a_batch_that_can_take_one_record_only_is_filled_and_written_again_and_again(store: GroupStore) -> None:
    offsets = await commit(store, "g", *(TopicPartition("orders", number) for number in range(5)))
    log = store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of("g"))].log
    log.config = log.config.replace(max_message_bytes=110)
    await store.write_tombstone("g", offsets)
    assert stored_groups(store) == {}
    log.config = log.config.replace(max_message_bytes=10)
    with pytest.raises(UnknownServerError):
        await store.write_tombstone("g", CommittedOffsets())


async def test_forgetting_a_group_ends_with_its_own_tombstone(store: GroupStore) -> None:
    await store.write_group("g", an_empty_group())
    offsets = await commit(store, "g")
    await store.write_tombstone("g", offsets)
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


async def test_who_commits_waits_for_the_replicas_and_not_for_ever(
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


# --- coming back


def an_empty_group(**changes: Any) -> GroupMetadata:
    fields = {"protocol_type": "consumer", "generation_id": 3, "protocol_name": None, "leader_id": None}
    return GroupMetadata(**{**fields, "state_timestamp_ms": 5, "members": [], **changes})


def a_member(**changes: Any) -> GroupMetadata.Member:
    fields = {"member_id": "m", "group_instance_id": "i", "client_id": "c", "client_host": "/h"}
    rest = {"rebalance_timeout_ms": 2, "session_timeout_ms": 1, "subscription": b"s", "assignment": b"a"}
    return GroupMetadata.Member(**{**fields, **rest, **changes})


async def test_everything_comes_back(store: GroupStore) -> None:
    group = an_empty_group(protocol_name="range", leader_id="m", members=[a_member()])
    for number in range(40):
        await commit(store, f"g{number}", TopicPartition("orders", number), offset=number)
        await store.write_group(f"g{number}", group)
    loaded = stored_groups(store)
    assert len(loaded) == 40
    for number in range(40):
        metadata, offsets = loaded[f"g{number}"]
        assert metadata == group
        assert held(offsets) == {("orders", number): number}


async def test_the_last_record_of_a_key_counts(store: GroupStore) -> None:
    await commit(store, "g", PARTITION, TopicPartition("orders", 4))
    await commit(store, "g", PARTITION, offset=43)
    changes = store.changes("g")
    changes.remove(TopicPartition("orders", 4))
    await store.write_offsets(changes, CommittedOffsets())
    assert {name: held(group.offsets) for name, group in stored_groups(store).items()} == {"g": {PARTITION: 43}}


async def test_a_group_that_only_commits_has_no_metadata(store: GroupStore) -> None:
    offsets = await commit(store, "g")
    (loaded,) = stored_groups(store).values()
    assert loaded.metadata is None
    assert held(loaded.offsets) == held(offsets)


async def test_what_was_forgotten_stays_so_but_for_what_was_committed_later(store: GroupStore) -> None:
    await store.write_group("g", an_empty_group())
    offsets = await commit(store, "g")
    await store.write_tombstone("g", offsets)
    assert stored_groups(store) == {}
    await commit(store, "g", offset=1)
    assert held(stored_groups(store)["g"].offsets) == {PARTITION: 1}


async def test_all_fields_of_an_offset_come_back(store: GroupStore) -> None:
    changes = store.changes("g")
    with_id = OFFSET._replace(topic_id=bytes(range(16)))
    with_time = CommittedOffset(5, -1, "", 1000, 2000)
    changes.set(PARTITION, with_id)
    changes.set(TopicPartition("orders", 4), with_time)
    await store.write_offsets(changes, CommittedOffsets())
    offsets = stored_groups(store)["g"].offsets
    assert offsets.get(PARTITION) == with_id
    assert offsets.get(TopicPartition("orders", 4)) == with_time


# --- what others wrote


def append(store: GroupStore, group_id: str, batch: bytearray, *, marker: bool = False) -> None:
    partition = store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of(group_id))]
    origin = Origin.COORDINATOR if marker else Origin.REPLICATION
    partition.log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=1, now_ms=1, origin=origin)
    partition.log.update_high_watermark(partition.log.log_end_offset)


def an_offset(group_id: str, offset: int, key_type: int = 1) -> Record:
    key = key_type.to_bytes(2, "big") + key_of(offset_key_prefix(group_id, PARTITION.topic), PARTITION.partition)[2:]
    return Record(0, 1, key, encode_offset(OFFSET._replace(offset=offset)))


def test_a_compressed_batch_is_read(store: GroupStore) -> None:
    append(store, "g", build_batch([an_offset("g", 1), an_offset("g", 2)], codec=1))
    assert held(stored_groups(store)["g"].offsets) == {PARTITION: 2}


def test_the_old_type_of_key_is_read_too(store: GroupStore) -> None:
    append(store, "g", build_batch([an_offset("g", 9, key_type=0)]))
    assert held(stored_groups(store)["g"].offsets) == {PARTITION: 9}


@pytest.mark.parametrize("key_type", [3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 300, -1])
def test_records_of_other_group_protocols_are_passed_over(
    store: GroupStore, key_type: int, caplog: pytest.LogCaptureFixture
) -> None:
    other = Record(0, 1, key_type.to_bytes(2, "big", signed=True) + b"\x02g", b"\0\0anything")
    append(store, "g", build_batch([other, an_offset("g", 4)]))
    with caplog.at_level(logging.ERROR):
        assert held(stored_groups(store)["g"].offsets) == {PARTITION: 4}
    assert not caplog.records


@pytest.mark.parametrize(
    "record",
    [
        Record(0, 1, b"\0", b"x"),
        Record(0, 1, b"\0\1\0\1gx", b"x"),
        Record(0, 1, group_key("g"), b"\0\x09"),
        Record(0, 1, group_key("g"), encode_group(an_empty_group())[:-3]),
        an_offset("g", 1)._replace(value=b""),
        Record(0, 1, None, b"x"),
    ],
)
def test_a_corrupt_record_is_left_out_and_the_others_are_read(
    store: GroupStore, record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    append(store, "g", build_batch([record, an_offset("h", 4)]))
    loaded = _replay(store, "g")
    assert held(loaded["h"].offsets) == {PARTITION: 4}
    assert set(loaded) == {"h"}
    assert len(caplog.records) == (record.key is not None)


def _replay(store: GroupStore, group_id: str) -> dict[str, LoadedGroup]:
    """Of the group's partition, with groups that do not belong there."""
    from kmini.broker.groups.group_loader import read_groups

    return read_groups(
        store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of(group_id))].log
    )


def test_a_group_in_a_partition_where_it_does_not_belong_is_left_out(
    store: GroupStore, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = next(f"s{n}" for n in range(99) if store.partition_of(f"s{n}") != store.partition_of("g"))
    append(store, "g", build_batch([an_offset("g", 1), an_offset(stranger, 1)]))
    assert set(stored_groups(store)) == {"g"}
    assert "1 keys in __consumer_offsets-" in caplog.text


def a_transactional_batch(offset: int, producer_id: int = 5) -> bytearray:
    return build_batch(
        [an_offset("g", offset)], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )


def a_marker(*, is_abort: bool, producer_id: int = 5) -> bytearray:
    marker = EndTransactionMarker(is_abort=is_abort, coordinator_epoch=0)
    return build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1)


@pytest.mark.parametrize(("is_abort", "outcome"), [(False, 2), (True, 1)])
def test_the_offsets_of_a_transaction_count_if_it_is_committed(store: GroupStore, is_abort: bool, outcome: int) -> None:
    append(store, "g", build_batch([an_offset("g", 1)]))
    append(store, "g", a_transactional_batch(2))
    append(store, "g", a_marker(is_abort=is_abort), marker=True)
    offsets = stored_groups(store)["g"].offsets
    assert held(offsets) == {PARTITION: outcome}
    assert not offsets.has_pending


def test_an_offset_committed_after_that_of_a_transaction_outlives_it(store: GroupStore) -> None:
    append(store, "g", a_transactional_batch(2))
    append(store, "g", build_batch([an_offset("g", 3)]))
    append(store, "g", a_marker(is_abort=False), marker=True)
    assert held(stored_groups(store)["g"].offsets) == {PARTITION: 3}


def test_the_offsets_of_a_transaction_that_is_open_are_pending(store: GroupStore) -> None:
    append(store, "g", build_batch([an_offset("g", 1)]))
    append(store, "g", a_transactional_batch(2))
    offsets = stored_groups(store)["g"].offsets
    assert held(offsets) == {PARTITION: 1}
    assert offsets.is_pending(PARTITION)
    assert not offsets.is_pending(TopicPartition("orders", 4))

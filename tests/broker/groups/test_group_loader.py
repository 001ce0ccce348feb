"""Replay of `__consumer_offsets`: what a coordinator reads again, also of batches that other brokers wrote."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.groups.committed_offsets import CommittedOffset, CommittedOffsets
from kmini.broker.groups.consumer.consumer_group_records import (
    CURRENT_MEMBER_ASSIGNMENT,
    MEMBER_METADATA,
)
from kmini.broker.groups.consumer.members import Membership
from kmini.broker.groups.consumer.state_changes import AssignmentEpoch, GroupEpoch, MembershipChange
from kmini.broker.groups.group_loader import LoadedGroup
from kmini.broker.groups.group_records import encode_group, encode_offset, group_key, offset_key_prefix
from kmini.broker.groups.group_records import offset_key as key_of
from kmini.broker.groups.group_store import GroupStore
from kmini.broker.groups.modern.record_format import member_key
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.validation import ValidatedRecords
from support.broker.stored_groups import (
    OFFSET,
    PARTITION,
    a_member,
    an_empty_group,
    commit,
    held,
    stored_groups,
)

StartBroker = Callable[..., Awaitable[BrokerServer]]


async def test_groups_and_offsets_are_loaded_as_they_were_stored(store: GroupStore) -> None:
    group = an_empty_group(protocol_name="range", leader_id="m", members=[a_member()])
    for number in range(40):
        await commit(store, f"g{number}", TopicPartition("orders", number), offset=number)
        await store.write_group(f"g{number}", group)
    loaded = stored_groups(store)
    assert len(loaded) == 40
    for number in range(40):
        assert loaded[f"g{number}"].metadata == group
        assert held(loaded[f"g{number}"].offsets) == {("orders", number): number}


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


async def test_deleted_groups_and_offsets_stay_deleted_unless_committed_later(store: GroupStore) -> None:
    await store.write_group("g", an_empty_group())
    offsets = await commit(store, "g")
    await store.write_tombstones("g", offsets, [(group_key("g"), None)])
    assert stored_groups(store) == {}
    await commit(store, "g", offset=1)
    assert held(stored_groups(store)["g"].offsets) == {PARTITION: 1}


async def test_all_fields_of_an_offset_are_loaded(store: GroupStore) -> None:
    changes = store.changes("g")
    with_id = OFFSET._replace(topic_id=bytes(range(16)))
    with_time = CommittedOffset(5, -1, "", 1000, 2000)
    changes.set(PARTITION, with_id)
    changes.set(TopicPartition("orders", 4), with_time)
    await store.write_offsets(changes, CommittedOffsets())
    offsets = stored_groups(store)["g"].offsets
    assert offsets.get(PARTITION) == with_id
    assert offsets.get(TopicPartition("orders", 4)) == with_time


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


@pytest.mark.parametrize("key_type", [9, 18, 24, 300, -1])
def test_records_of_other_group_protocols_are_skipped(
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


async def test_a_damaged_record_of_a_consumer_group_is_left_out_and_the_rest_is_loaded(
    store: GroupStore, caplog: pytest.LogCaptureFixture
) -> None:
    member = Membership("m", None, None, "c", "/h", 1000, ("orders",))
    intact = [GroupEpoch(3, 7), MembershipChange("m", member), AssignmentEpoch(3, 5)]
    damaged = [
        (member_key(MEMBER_METADATA, "g", "n"), b"\0\0\1"),
        (member_key(CURRENT_MEMBER_ASSIGNMENT, "g", "m"), b"\0\7later"),
        (member_key(MEMBER_METADATA, "g", "x") + b"more", b"\0\0"),
    ]
    await store.write("g", [*damaged, *(change.record("g") for change in intact)], None)
    loaded = stored_groups(store)["g"]
    assert [*loaded.changes] == intact
    assert loaded.metadata is None
    assert len([record for record in caplog.records if "left out" in record.getMessage()]) >= 2


async def test_a_consumer_group_whose_records_are_all_tombstones_is_gone(store: GroupStore) -> None:
    epoch = GroupEpoch(3, 7)
    await store.write("g", [epoch.record("g")], None)
    await store.write("g", [GroupEpoch(None).record("g")], None)
    assert stored_groups(store) == {}


async def test_a_consumer_group_has_its_offsets(store: GroupStore) -> None:
    await store.write("g", [GroupEpoch(3, 7).record("g")], None)
    await commit(store, "g")
    loaded = stored_groups(store)["g"]
    assert [*loaded.changes] == [GroupEpoch(3, 7)]
    assert held(loaded.offsets) == {PARTITION: 42}

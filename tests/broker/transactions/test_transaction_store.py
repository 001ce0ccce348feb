"""Transactional ids in `__transaction_state`: what a start finds there."""

from __future__ import annotations

import logging

import pytest

from kmini.broker.transactions.transaction_records import Entry, encode_entry, encode_key
from kmini.broker.transactions.transaction_states import EMPTY
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TRANSACTION_STATE, TopicPartition
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.validation import ValidatedRecords
from support.broker.transaction_bank import Bank

VALUE = encode_entry(Entry(5, 0, 60_000, EMPTY), 1)


def append(bank: Bank, name: str, *records: tuple[bytes | None, bytes | None]) -> None:
    """Put records into the partition of an id, as they are."""
    number = bank.coordinator.store.topic.number_of(name)
    batch = build_batch([Record(0, 1, key, value) for key, value in records])
    log = bank.broker.replica_manager.partitions[TopicPartition(TRANSACTION_STATE, number)].log
    log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=1, now_ms=1, origin=Origin.REPLICATION)
    log.update_high_watermark(log.log_end_offset)


@pytest.mark.parametrize(
    ("record", "is_told"),
    [
        ((b"\0", VALUE), True),
        ((b"\0\0\0\5t", VALUE), True),
        ((encode_key("t"), VALUE[:-1]), True),
        ((b"\0\1of a version to come", VALUE), False),
        ((encode_key("t"), None), False),
        ((b"\0", None), False),
        ((None, VALUE), False),
    ],
)
async def test_what_is_no_id_is_left_out_and_the_others_are_read(
    bank: Bank, record: tuple[bytes | None, bytes | None], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    append(bank, "u", record, (encode_key("u"), VALUE))
    with caplog.at_level(logging.WARNING):
        assert set(bank.stored_entries()) == {"u"}
    assert len(caplog.records) == is_told


async def test_the_last_record_of_an_id_counts(bank: Bank) -> None:
    later = Entry(6, 3, 60_000, EMPTY, previous_producer_id=5)
    append(bank, "t", (encode_key("t"), VALUE), (encode_key("t"), encode_entry(later, 1)))
    assert bank.stored_entries() == {"t": later}
    append(bank, "t", (encode_key("t"), None))
    assert bank.stored_entries() == {}


async def test_an_id_in_a_partition_where_it_does_not_belong_is_left_out(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    number_of = bank.coordinator.store.topic.number_of
    stranger = next(name for name in map("s{}".format, range(99)) if number_of(name) != number_of("t"))
    append(bank, "t", (encode_key("t"), VALUE), (encode_key(stranger), VALUE))
    assert set(bank.stored_entries()) == {"t"}
    assert "1 keys in __transaction_state-" in caplog.text


async def test_the_ids_of_one_partition_are_unloaded_alone(bank: Bank) -> None:
    number_of = bank.coordinator.store.topic.number_of
    others = [name for name in "abcd" if number_of(name) != number_of("t")]
    for name in ("t", *others):
        await bank.begin(await bank.init(name), name=name)
    bank.coordinator.unload(number_of("t"))
    assert sorted(bank.coordinator.transactions) == others
    assert sorted(one.transactional_id for one in bank.coordinator.open_transactions()) == others

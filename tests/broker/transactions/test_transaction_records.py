"""Keys and values of `__transaction_state`, byte by byte, and what cannot be read."""

from __future__ import annotations

import pytest

from kmini.broker.coordinators.internal_records import CorruptRecord
from kmini.broker.transactions.transaction_records import (
    Entry,
    decode_entry,
    decode_key,
    encode_entry,
    encode_key,
)
from kmini.broker.transactions.transaction_states import DEAD, EMPTY, ONGOING, STORED
from kmini.protocol.topics import TopicPartition

OPEN = Entry(
    producer_id=5,
    producer_epoch=3,
    timeout_ms=60_000,
    state=ONGOING,
    partitions=frozenset({TopicPartition("b", 2), TopicPartition("a", 1), TopicPartition("a", 0)}),
    last_update_ms=7,
    start_ms=6,
    previous_producer_id=5,
)


def test_a_key_is_version_0_and_the_id() -> None:
    assert encode_key("tä").hex() == "0000000374c3a4"
    assert decode_key(encode_key("tä")) == "tä"
    assert decode_key(b"\0\1whatever comes then") is None


def test_a_value_of_version_0() -> None:
    topics = "000000020001610000000200000000000000010001620000000100000002"
    times = "00000000000000070000000000000006"
    assert encode_entry(OPEN, 0).hex() == "0000000000000000000500030000ea6001" + topics + times


def test_a_value_of_version_1_says_more_in_tags() -> None:
    topics = "030261030000000000000001000262020000000200"
    times = "00000000000000070000000000000006"
    tags = "0100080000000000000005"
    assert encode_entry(OPEN, 1).hex() == "0001000000000000000500030000ea6001" + topics + times + tags


def test_a_value_of_an_end_that_raises_the_epoch_has_its_version_and_perhaps_the_next_producer_id() -> None:
    ending = OPEN._replace(next_producer_id=9, client_version=2)
    tags = "0300080000000000000005" + "01080000000000000009" + "02020002"
    assert encode_entry(ending, 1).hex().endswith(tags)
    assert encode_entry(ending._replace(next_producer_id=-1), 1).hex().endswith("0200080000000000000005" + "02020002")
    assert encode_entry(ending, 0) == encode_entry(OPEN, 0)


def test_an_empty_one_has_null_for_partitions() -> None:
    empty = Entry(5, 0, 60_000, EMPTY)
    assert encode_entry(empty, 0).hex().startswith("0000000000000000000500000000ea6000ffffffff")
    assert encode_entry(empty, 1).hex().startswith("0001000000000000000500000000ea600000")


@pytest.mark.parametrize("state", STORED)
def test_what_is_written_is_read(state: int) -> None:
    partitions: frozenset[TopicPartition] = frozenset() if state is EMPTY else OPEN.partitions
    entry = OPEN._replace(state=state, partitions=partitions, next_producer_id=9, client_version=2)
    assert decode_entry(encode_entry(entry, 1)) == entry
    older = entry._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decode_entry(encode_entry(entry, 0)) == older


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0", b"\0\0\0\5abc", b"\0\0\0\1\xff", b"\0\0\0\1abc"])
def test_a_broken_key_is_corrupt(key: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_key(key)


@pytest.mark.parametrize(
    "value",
    [b"", b"\0\2" + encode_entry(OPEN, 1)[2:], encode_entry(OPEN, 1)[:-1], encode_entry(OPEN, 0) + b"\0"]
    + [encode_entry(OPEN._replace(state=state), 1) for state in (DEAD,)]
    + [encode_entry(OPEN, 1)[:16] + b"\x63" + encode_entry(OPEN, 1)[17:]],
)
def test_a_broken_value_is_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_entry(value)

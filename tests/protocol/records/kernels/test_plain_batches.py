"""The claims of a producer's batch, and the look that finds plain batches, in both forms of the kernel.

`tests/storage/test_plain_validation.py` compares the look with the general validation, over thousands of batches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kmini.protocol.records import layout
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.compression import Codec
from support.for_each import for_each
from support.odd_batches import NOW_MS, records, with_header


class Data(NamedTuple):
    """What a request has for a partition."""

    records: Any


class Topic(NamedTuple):
    """What a request has for a topic."""

    partition_data: list[Data]


NO_LIMIT = 2**31 - 1
FOR_EVER = 2**63 - 1


def test_the_last_codec_is_the_last_of_all() -> None:
    assert max(Codec) == layout.LAST_CODEC


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, 0),
        ({"base_offset": 1}, layout.NOT_FROM_ZERO),
        ({"base_offset": -(2**63)}, layout.NOT_FROM_ZERO),
        ({"attributes": 5}, layout.UNKNOWN_CODEC),
        ({"record_count": 0, "last_offset_delta": -1}, layout.WRONG_COUNT),
        ({"record_count": 3}, layout.WRONG_COUNT),
        ({"last_offset_delta": 2**31 - 1, "record_count": -(2**31)}, layout.WRONG_COUNT),
        ({"attributes": layout.CONTROL}, layout.FOR_BROKERS_ONLY),
        ({"producer_id": 0}, layout.WITHOUT_SEQUENCE),
        ({"producer_id": 0, "base_sequence": 0}, 0),
        ({"producer_id": -2, "base_sequence": -7}, 0),
    ],
)
def test_each_fault_of_a_claim_has_its_number(kernel: Any, fields: dict[str, int], fault: int) -> None:
    batch = with_header(build_batch(records(2)), **fields)
    assert kernel.fault_of_claims(batch, NO_LIMIT) == fault


def test_the_size_is_the_second_claim_and_the_checksum_the_third(kernel: Any) -> None:
    batch = build_batch(records(2))
    batch[-1] ^= 1
    size = len(batch)
    assert kernel.fault_of_claims(batch, size) == layout.WRONG_CHECKSUM
    assert kernel.fault_of_claims(batch, size - 1) == layout.OVERSIZED
    batch[0] ^= 0x80
    assert kernel.fault_of_claims(batch, size - 1) == layout.NOT_FROM_ZERO


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_header_of_a_plain_batch_is_read(kernel: Any, kind: Any) -> None:
    batch = build_batch(records(3), leader_epoch=-1, producer_id=2**63 - 1, producer_epoch=2**15 - 1, base_sequence=9)
    plain = kernel.PlainBatches(NO_LIMIT, False, FOR_EVER, FOR_EVER)
    header = plain.header_of(kind(batch), NOW_MS)
    assert header == read_header(batch)
    assert type(header) is layout.BatchHeader


@for_each("size", range(layout.HEADER_SIZE + 1))
def test_less_than_a_batch_is_not_plain(kernel: Any, size: int) -> None:
    plain = kernel.PlainBatches(NO_LIMIT, False, FOR_EVER, FOR_EVER)
    assert plain.header_of(build_batch(records(1))[:size], NOW_MS) is None


@for_each(
    ("timestamp", "now_ms", "is_plain"),
    [
        (1_000, 1_010, True),
        (1_000, 1_011, False),
        (1_000, 980, True),
        (1_000, 979, False),
        (-1, 1_000_000, True),
        (2**63 - 1, 2**63 - 20, True),
        (2**63 - 1, 2**63 - 22, False),
        (-(2**63), 10 - 2**63, True),
        (-(2**63), 11 - 2**63, False),
        (-(2**63), 5 - 2**63, True),
    ],
)
def test_timestamps_of_plain_batches_are_near_to_now(kernel: Any, timestamp: int, now_ms: int, is_plain: bool) -> None:
    """At most 10 ms before now, 20 ms after it; the sums end at the numbers of 64 bits."""
    plain = kernel.PlainBatches(NO_LIMIT, False, 10, 20)
    batch = build_batch([records(1)[0]._replace(timestamp=timestamp)])
    assert (plain.header_of(batch, now_ms) is not None) == is_plain


def test_only_a_topic_that_needs_keys_asks_for_them(kernel: Any) -> None:
    batch = build_batch([*records(1), *records(1, key=None)])
    assert kernel.PlainBatches(NO_LIMIT, False, FOR_EVER, FOR_EVER).header_of(batch, NOW_MS) is not None
    assert kernel.PlainBatches(NO_LIMIT, True, FOR_EVER, FOR_EVER).header_of(batch, NOW_MS) is None


@pytest.mark.parametrize("transactional", [False, True])
def test_a_transactional_batch_is_told_by_its_header(kernel: Any, transactional: bool) -> None:
    batch = build_batch(records(1), transactional=transactional)
    assert kernel.is_transactional(memoryview(batch)) is transactional
    assert kernel.is_transactional(batch[: layout.HEADER_SIZE]) is transactional
    assert not kernel.is_transactional(batch[: layout.HEADER_SIZE - 1])
    batch[layout.MAGIC_AT] = 1
    assert not kernel.is_transactional(batch)


def test_no_records_are_not_transactional(kernel: Any) -> None:
    assert [kernel.is_transactional(none) for none in (None, b"", bytearray())] == [False] * 3


def test_the_leader_writes_offset_and_epoch_into_a_batch(kernel: Any) -> None:
    for base_offset, leader_epoch in ((0, 0), (2**63 - 1, 2**31 - 1), (-(2**63), -(2**31)), (1 << 40, 17)):
        buffer = bytearray(b"before") + build_batch(records(1)) + b"after"
        expected = read_header(buffer, 6)._replace(base_offset=base_offset, partition_leader_epoch=leader_epoch)
        kernel.assign_offsets(memoryview(buffer), 6, base_offset, leader_epoch)
        assert read_header(buffer, 6) == expected
        assert (buffer[:6], buffer[-5:]) == (b"before", b"after")


@pytest.mark.parametrize("position", [-1, 1])
def test_where_no_header_fits_no_offset_is_written(kernel: Any, position: int) -> None:
    header = build_batch(records(1))[: layout.HEADER_SIZE]
    with pytest.raises(ValueError, match="no batch at"):
        kernel.assign_offsets(header, position, 1, 1)
    assert header == build_batch(records(1))[: layout.HEADER_SIZE]


def test_the_transactional_batches_of_a_request_are_found(kernel: Any) -> None:
    sent = [None, build_batch(records(1)), build_batch(records(1), transactional=True), b""]
    topics = [Topic([Data(one) for one in sent]), Topic([]), Topic([Data(sent[2])])]
    assert kernel.transactional_batches(topics) == [sent[2], sent[2]]
    assert kernel.transactional_batches([]) == []

"""Damage to answers: what is wrong with them is what was asked for, and nothing else."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kmini.broker.faults.answer_bytes import damage_frame, damage_records, empty_records, frame_of
from kmini.protocol import messages as m
from kmini.protocol.records.batch import build_batch, is_crc_valid, iter_batches
from kmini.protocol.records.record import Record


def fetched(*batches: bytes) -> m.FetchResponse:
    Topic = m.FetchResponse.Topic
    return m.FetchResponse(
        responses=[
            Topic(
                topic="orders",
                partitions=[
                    Topic.Partition(partition_index=0, records=b""),
                    Topic.Partition(partition_index=1, records=b"".join(batches)),
                ],
            )
        ]
    )


def batch(value: bytes = b"v") -> bytes:
    return bytes(build_batch([Record(0, 1, None, value, ())]))


def records(answer: Any) -> bytes:
    found: bytes = answer.responses[0].partitions[1].records
    return found


@pytest.mark.parametrize("what", ["crc", "codec", "partial"])
def test_a_fetch_without_records_cannot_be_damaged(what: Any) -> None:
    assert not damage_records(fetched(), what)


def test_a_wrong_crc_is_all_that_is_wrong() -> None:
    answer = fetched(batch(), batch())
    assert damage_records(answer, "crc")
    (_, first), (position, _) = iter_batches(records(answer))
    ((at, header), *_) = iter_batches(records(answer))
    assert not is_crc_valid(records(answer), at, header)
    assert records(answer)[position:] == batch()
    assert first.record_count == 1


def test_an_unknown_codec_has_a_right_crc() -> None:
    answer = fetched(batch())
    assert damage_records(answer, "codec")
    ((_, header),) = iter_batches(records(answer))
    assert header.attributes & 7 == 7
    assert is_crc_valid(records(answer), 0, header)


def test_a_partial_answer_ends_within_its_last_batch() -> None:
    answer = fetched(batch(), batch(b"second"))
    assert damage_records(answer, "partial")
    assert [header.record_count for _, header in iter_batches(records(answer))] == [1]
    assert len(batch()) < len(records(answer)) < 2 * len(batch())


def test_records_are_taken_out_where_they_are_meant() -> None:
    answer = fetched(batch())
    assert not empty_records(answer, lambda topic, partition: partition == 0, str)
    assert records(answer) == batch()
    assert empty_records(answer, lambda topic, partition: topic == "orders", str)
    assert records(answer) == b""


def test_the_size_the_correlation_id_and_the_body_of_an_answer_are_damaged_one_by_one() -> None:
    whole = bytes(frame_of(7, 3, m.HeartbeatResponse()))
    length, correlation_id, garbage = bytearray(whole), bytearray(whole), bytearray(whole)
    damage_frame(length, "length")
    assert struct.unpack_from(">i", length) == (0x7FFFFFFF,)
    assert length[4:] == whole[4:]
    damage_frame(correlation_id, "correlation_id")
    assert struct.unpack_from(">i", correlation_id, 4) != (7,)
    assert correlation_id[:4] + correlation_id[8:] == whole[:4] + whole[8:]
    damage_frame(garbage, "garbage")
    assert garbage[:8] == whole[:8]
    assert all(a != b for a, b in zip(garbage[8:], whole[8:], strict=True))

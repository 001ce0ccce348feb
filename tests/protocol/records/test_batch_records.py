"""Records of a batch: some at a time, those that are suspect, and how much of them is too much."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kmini.protocol.errors import CorruptMessage, InvalidRecord
from kmini.protocol.records import batch_records
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.batch_records import (
    check_records,
    decode_all,
    decode_records,
    first_record_since,
    iter_records,
    suspect_records,
)
from kmini.protocol.records.compression import CHUNK_BYTES, Codec, compress
from kmini.protocol.records.record import BATCH_FACTOR, Record, SuspectRecord
from support.for_each import for_each

MakeRecords = Callable[..., list[Record]]
COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
ANY_TIME = {"earliest": -(2**63), "latest": 2**63 - 1}


@pytest.mark.parametrize("codec", COMPRESSING)
def test_records_come_some_at_a_time_and_all_in_the_end(kernel: Any, codec: Codec, some_records: MakeRecords) -> None:
    records = some_records(3000)
    batch = build_batch(records, codec=codec)
    parts = list(iter_records(batch, 0, read_header(batch)))
    assert len(parts) > 2
    assert [record for part in parts for record in part] == records


@for_each("codec", Codec)
@for_each("place", [0, 1, 2])
def test_a_record_larger_than_many_chunks_is_read(kernel: Any, codec: Codec, place: int) -> None:
    records = [Record(n, 5, b"key", b"value", (("h", b"x"),)) for n in range(3)]
    large = random.Random(place).randbytes(CHUNK_BYTES) * 10
    records[place] = Record(place, 6, large, large[1:], (("h", large[2:]), ("i", None)))
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    assert decode_records(batch, 0, header) == records
    facts = check_records(batch, 0, header)
    assert (facts.record_count, facts.max_timestamp_delta) == (3, place)


def test_batches_are_decoded_where_they_are(kernel: Any, some_records: MakeRecords) -> None:
    first, second = some_records(3), [r._replace(offset=r.offset + 3) for r in some_records(4, seed=1)]
    buffer = memoryview(build_batch(first) + build_batch(second, base_offset=3, codec=Codec.LZ4) + b"cut off")
    assert decode_all(buffer) == first + second


def test_offset_deltas_with_gaps_are_not_sequential(kernel: Any) -> None:
    for offsets in ([1, 2], [0, 2], [0, 0, 0, 1], [1, 0]):
        batch = build_batch([Record(offset, 0, None, None) for offset in offsets])
        assert not check_records(batch, 0, read_header(batch)).is_sequential, offsets


# Suspects


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    rows=st.lists(st.tuples(st.integers(-1, 20), st.none() | st.just(b"k"), st.binary(max_size=3)), min_size=1),
    earliest=st.integers(-2, 21),
    latest=st.integers(-2, 21),
    null_keys=st.booleans(),
    codec=st.sampled_from(Codec),
)
def test_the_suspects_are_those_that_a_plain_search_finds(
    kernel: Any, rows: list[Any], earliest: int, latest: int, null_keys: bool, codec: Codec
) -> None:
    batch = build_batch([Record(0, *row) for row in rows], codec=codec)
    suspects = suspect_records(batch, 0, read_header(batch), earliest=earliest, latest=latest, null_keys=null_keys)
    assert list(suspects) == [
        SuspectRecord(number, timestamp, key is None)
        for number, (timestamp, key, _) in enumerate(rows)
        if (null_keys and key is None) or not earliest <= timestamp <= latest
    ]


@pytest.mark.parametrize("timestamp", [-(2**63), -1, 2**63 - 1])
def test_no_timestamp_is_suspect_where_none_is_excluded(kernel: Any, timestamp: int) -> None:
    batch = build_batch([Record(0, timestamp, None, None)])
    header = read_header(batch)
    assert list(suspect_records(batch, 0, header, **ANY_TIME, null_keys=False)) == []
    beyond = {"earliest": -(2**70), "latest": 2**70}
    assert list(suspect_records(batch, 0, header, **beyond, null_keys=False)) == []
    assert len(list(suspect_records(batch, 0, header, earliest=1, latest=0, null_keys=False))) == 1


def test_what_is_no_record_behind_a_suspect_is_refused_when_it_is_reached(kernel: Any) -> None:
    batch = build_batch([Record(0, 7, None, None), Record(0, 7, None, b"x" * 20)])
    batch[-22] = 0x7E  # the length of the last value
    suspects = suspect_records(batch, 0, read_header(batch), **ANY_TIME, null_keys=True)
    assert next(suspects).number == 0
    with pytest.raises(InvalidRecord, match="record 1"):
        next(suspects)


@pytest.mark.parametrize("codec", Codec)
def test_a_record_is_found_by_timestamp_in_any_chunk(kernel: Any, codec: Codec) -> None:
    records = [Record(n, n * 10, None, random.Random(n).randbytes(900)) for n in range(500)]
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    for number in (0, 1, 250, 499):
        assert first_record_since(batch, 0, header, number * 10 - 5, 0) == (number * 10, number)
        assert first_record_since(batch, 0, header, 0, number) == (number * 10, number)
    assert first_record_since(batch, 0, header, 4991, 0) is None
    assert first_record_since(batch, 0, header, 0, 500) is None


# Limits


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_is_that_of_a_record_not_of_the_batch(kernel: Any, codec: Codec) -> None:
    records = [Record(n, 0, None, bytes(1000)) for n in range(10)]
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    size = len(build_batch(records[:1])) - 61 - 2
    assert check_records(batch, 0, header, limit=size).record_count == 10
    assert sum(map(len, iter_records(batch, 0, header, limit=size))) == 10
    for reading in (check_records, lambda *args, limit: list(iter_records(*args, limit=limit))):
        with pytest.raises(InvalidRecord, match="record 0 is malformed: it is larger"):
            reading(batch, 0, header, limit=size - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_batch_is_limited_to_so_many_times_as_much(kernel: Any, codec: Codec) -> None:
    records = [Record(0, 0, None, bytes(1000))] * (BATCH_FACTOR + 1)
    batch = build_batch(records, codec=codec)
    with pytest.raises(InvalidRecord, match="decompressed"):
        check_records(batch, 0, read_header(batch), limit=1020)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_decoding_all_at_once_is_limited_as_a_whole(kernel: Any, codec: Codec) -> None:
    batch = build_batch([Record(0, 0, None, bytes(1000))] * 4, codec=codec)
    assert len(decode_records(batch, 0, read_header(batch), limit=5000)) == 4
    with pytest.raises(InvalidRecord, match="decompressed"):
        decode_records(batch, 0, read_header(batch), limit=3000)


def test_what_is_not_compressed_has_no_limit(kernel: Any) -> None:
    batch = build_batch([Record(0, 0, None, bytes(1000))] * 4)
    assert check_records(batch, 0, read_header(batch), limit=1).record_count == 4
    assert len(decode_records(batch, 0, read_header(batch), limit=1)) == 4


# The reader by itself: it may be given what no walker has seen


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(block=st.binary(max_size=60), count=st.integers(0, 5))
def test_reading_what_was_not_checked_is_a_value_error_at_worst(kernel: Any, block: bytes, count: int) -> None:
    reader = kernel.RecordReader(block)
    try:
        records = reader.records(Record._make, count, 0, 0, None)
    except ValueError:
        return
    assert len(records) == count
    assert reader.position <= len(block)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_holds_records(kernel: Any, kind: type, some_records: MakeRecords) -> None:
    records = some_records(20)
    batch = kind(build_batch(records))
    assert decode_records(batch, 0, read_header(batch)) == records
    assert check_records(batch, 0, read_header(batch)).record_count == 20


def test_a_codec_that_there_is_not_is_corrupt(kernel: Any) -> None:
    batch = build_batch([Record(0, 0, None, None)])
    header = read_header(batch)._replace(attributes=5)
    for reading in (check_records, decode_records):
        with pytest.raises(CorruptMessage):
            reading(batch, 0, header)


def test_decompression_ends_at_the_record_that_is_found(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = build_batch([Record(n, n, None, bytes(1000)) for n in range(1000)], codec=Codec.GZIP)
    chunks = []
    decompress_chunks = batch_records.decompress_chunks

    def counted(*args: Any) -> Any:
        for chunk in decompress_chunks(*args):
            chunks.append(chunk)
            yield chunk

    monkeypatch.setattr(batch_records, "decompress_chunks", counted)
    assert first_record_since(batch, 0, read_header(batch), 3, 0) == (3, 3)
    assert len(chunks) == 1


def test_timestamps_of_any_size_survive_encoding(kernel: Any) -> None:
    """Their differences need not fit into 64 bits: they wrap in both directions."""
    extremes = [0, -1, 1, 2**63 - 1, -(2**63), 2**62, -(2**62)]
    for base in extremes:
        records = [Record(n, timestamp, None, None) for n, timestamp in enumerate([base, *extremes])]
        batch = build_batch(records)
        assert decode_records(batch, 0, read_header(batch)) == records


def test_an_empty_block_compresses_and_holds_no_records(kernel: Any, batch_of: Callable[..., bytes]) -> None:
    for codec in Codec:
        batch = batch_of(compress(codec, b""), 0, attributes=codec)
        assert decode_records(batch, 0, read_header(batch)) == []

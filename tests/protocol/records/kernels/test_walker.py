"""The walk over a block (`kmini.protocol.records.kernels.walker`): both forms find the same facts, in pieces too.

What `kmini.protocol.records.kernels.tuples` reads is what was built.
"""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kmini.protocol.records import batch_records
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.batch_records import check_records, decode_records, first_record_since
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record, RecordFacts

octets = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), octets), max_size=3).map(tuple)
some_records = st.lists(
    st.builds(Record, st.just(0), st.integers(-1, 2**62), octets, octets, headers), min_size=1, max_size=20
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(records=some_records, codec=st.sampled_from(Codec))
def test_what_was_built_is_read(kernel: Any, records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    assert decode_records(batch, 0, header) == [r._replace(offset=n) for n, r in enumerate(records)]
    assert check_records(batch, 0, header) == _facts(records)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_a_block_in_chunks_tells_the_same_as_the_whole(
    kernel: Any, monkeypatch: pytest.MonkeyPatch, codec: Codec, chunk: int
) -> None:
    dice = random.Random(chunk)
    records = [Record(0, dice.randrange(10**6), b"k", dice.randbytes(dice.randrange(200))) for _ in range(50)]
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    whole = decode_records(batch, 0, header)
    decompress_chunks = batch_records.decompress_chunks

    def finer(*args: Any) -> Any:
        for piece in decompress_chunks(*args):
            yield from (piece[start : start + chunk] for start in range(0, len(piece), chunk))

    monkeypatch.setattr(batch_records, "decompress_chunks", finer)
    assert check_records(batch, 0, header) == _facts(records)
    assert decode_records(batch, 0, header) == whole


@pytest.mark.parametrize(("timestamp", "offset", "found"), [(0, 0, (30, 5)), (31, 0, (50, 7)), (10, 7, (50, 7))])
def test_the_first_record_at_or_beyond_both_is_found(kernel: Any, timestamp: int, offset: int, found: Any) -> None:
    records = [Record(5, 30, None, b""), Record(6, 10, None, b""), Record(7, 50, None, b"")]
    batch = build_batch(records, base_offset=5)
    assert first_record_since(batch, 0, read_header(batch), timestamp, offset) == found


def test_no_record_is_found_behind_the_last(kernel: Any) -> None:
    batch = build_batch([Record(0, 30, None, b"")])
    assert first_record_since(batch, 0, read_header(batch), 31, 0) is None


@pytest.mark.parametrize(("timestamp", "found"), [(700, (700, 0)), (701, None)])
def test_log_append_time_is_the_timestamp_of_every_record(kernel: Any, timestamp: int, found: Any) -> None:
    batch = build_batch([Record(0, 9000, None, b"")], log_append_time_ms=700)
    header = read_header(batch)
    assert decode_records(batch, 0, header)[0].timestamp == 700
    assert first_record_since(batch, 0, header, timestamp, 0) == found


def _facts(records: list[Record]) -> RecordFacts:
    timestamps = [r.timestamp for r in records]
    newest = max(timestamps)
    null_keys = sum(r.key is None for r in records)
    oldest = min((timestamp for timestamp in timestamps if timestamp != -1), default=-1)
    return RecordFacts(len(records), null_keys, True, oldest, newest, timestamps.index(newest))

"""The kernel of compaction: its two forms agree, and what is no record is an error.

Its batches are those of `kmini.protocol.records.kernels.simple_batches`.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from kmini.protocol.records import load_kernel
from kmini.protocol.records.batch import (
    HEADER_SIZE,
    LENGTH_AT,
    LOG_OVERHEAD,
    build_batch,
    is_crc_valid,
    iter_batches,
    rewrite_header,
)
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.compression import BlockCodec, Codec, compress, decompress
from kmini.protocol.records.crc import crc32c
from kmini.protocol.records.record import Record
from support.for_each import for_each

SECRET = bytes(range(16))
CODEC = BlockCodec(1 << 20, SECRET)
SIMPLE = [Codec.NONE, Codec.LZ4, Codec.ZSTD]
"""Batches of these are looked at as they stand in the file."""
INTERPRETED = load_kernel.load("sieve", interpreted=True)


@pytest.fixture(params=["compiled", "interpreted"])
def sieve(request: pytest.FixtureRequest) -> Any:
    module = load_kernel.load("sieve", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    return module


def _batches(seed: int, codec: Codec = Codec.NONE, horizons: bool = False) -> bytes:
    dice = random.Random(seed)
    offset, data = 0, bytearray()
    for _ in range(dice.randrange(1, 30)):
        records = [
            Record(
                offset + n,
                1_000 + dice.randrange(-2_000, 2_000),
                dice.choice([None, b"", b"%d" % dice.randrange(12), dice.randbytes(200)]),
                dice.choice([None, b"", b"value" * dice.randrange(60)]),
                tuple(("name", dice.choice([None, b"x"])) for _ in range(dice.choice([0, 0, 2]))),
            )
            for n in range(dice.randrange(1, 20))
        ]
        data += build_batch(
            records,
            base_offset=offset,
            codec=codec,
            delete_horizon_ms=dice.choice([None, 400, 5_000]) if horizons else None,
            producer_id=dice.choice([-1, 5]),
            producer_epoch=0,
            base_sequence=0,
        )
        offset += len(records) + dice.choice([0, 0, 3])
    return bytes(data)


def _map(module: Any, chunk: bytes, capacity: int = 1_000, codec: BlockCodec | None = CODEC) -> Any:
    table = module.KeyTable(bytearray(24 * 1_100), SECRET, capacity)
    return table, table.put_batches(chunk, 0, 0, codec)


def _sift(
    module: Any, table: Any, chunk: bytes, precious: Any = (), codec: BlockCodec | None = CODEC
) -> tuple[Any, ...]:
    sieve = module.Sieve(table, 1_000, 0)
    out = bytearray(len(chunk))
    notes = array("q", bytes(8 * module.NOTE * 100))
    position, used, noted = sieve.sift_batches(chunk, 0, array("q", precious), memoryview(out), notes, codec)
    facts = (sieve.records, sieve.superseded, sieve.expired, sieve.keyless, sieve.tombstones, sieve.earliest_horizon)
    return position, bytes(out[:used]), list(notes[: noted * module.NOTE]), facts


@for_each("codec", SIMPLE)
@for_each("seed", range(12))
def test_both_forms_map_and_sift_alike(sieve: Any, seed: int, codec: Codec) -> None:
    chunk = _batches(seed, codec, horizons=True)
    table, *mapped = _map(sieve, chunk)
    expected, *also_mapped = _map(INTERPRETED, chunk)
    assert mapped == also_mapped
    assert mapped[0] == len(chunk)
    assert (table.size, table.latest_offset) == (expected.size, expected.latest_offset)
    for latest_offset in (table.latest_offset, table.latest_offset // 2):
        table.latest_offset = expected.latest_offset = latest_offset
        assert _sift(sieve, table, chunk) == _sift(INTERPRETED, expected, chunk)


@for_each("codec", SIMPLE)
@for_each("seed", range(6))
def test_sifted_batches_hold_the_records_that_stay(sieve: Any, seed: int, codec: Codec) -> None:
    chunk = b"".join(_rows(_batches(seed, codec, horizons=True), with_horizon=True))
    table, *_ = _map(sieve, chunk)
    position, out, *_ = _sift(sieve, table, chunk)
    assert position == len(chunk)
    newest: dict[bytes, int] = {}
    expected = []
    rows = [(header, record) for p, header in iter_batches(chunk) for record in decode_records(chunk, p, header)]
    for _, record in rows:
        if record.key is not None:
            newest[record.key] = record.offset
    for header, record in rows:
        is_newest = record.key is not None and newest[record.key] == record.offset
        if is_newest and (record.value is not None or header.base_timestamp > 1_000):
            expected.append(record)
    assert [r for p, header in iter_batches(out) for r in decode_records(out, p, header)] == expected


def _rows(chunk: bytes, *, with_horizon: bool) -> list[bytes]:
    return [
        chunk[position : position + header.size]
        for position, header in iter_batches(chunk)
        if header.has_delete_horizon == with_horizon
    ]


def test_a_batch_that_must_not_go_stops_it(sieve: Any) -> None:
    first = build_batch([Record(0, 5, None, b"x")])
    second = build_batch([Record(1, 5, b"a", b"x")], base_offset=1)
    chunk = bytes(first + second)
    table, *_ = _map(sieve, chunk)
    assert _sift(sieve, table, chunk)[:2] == (len(chunk), bytes(second))
    assert _sift(sieve, table, chunk, precious=[0])[:2] == (0, b"")


def test_a_tombstone_without_horizon_stops_it(sieve: Any) -> None:
    first = build_batch([Record(0, 5, b"a", b"x")])
    chunk = bytes(first + build_batch([Record(1, 5, b"b", None)], base_offset=1))
    table, *_ = _map(sieve, chunk)
    assert _sift(sieve, table, chunk)[:2] == (len(first), bytes(first))


def test_compressed_batches_that_do_not_change_are_not_compressed_again(sieve: Any) -> None:
    records = [Record(n, 5, b"%d" % n, b"x" * 100) for n in range(9)]
    chunk = bytes(build_batch(records, codec=Codec.ZSTD, level=19))
    assert chunk != build_batch(records, codec=Codec.ZSTD)
    table, _ = _map(sieve, chunk)
    assert _sift(sieve, table, chunk)[1] == chunk


def test_without_a_codec_a_compressed_batch_stops_it(sieve: Any) -> None:
    first = build_batch([Record(0, 5, b"a", b"x")])
    chunk = bytes(first + build_batch([Record(1, 5, b"b", b"x")], base_offset=1, codec=Codec.LZ4))
    table, position = _map(sieve, chunk, codec=None)
    assert position == _sift(sieve, table, chunk, codec=None)[0] == len(first)


def test_a_batch_for_which_there_is_no_room_stops_it(sieve: Any) -> None:
    class Swelling(BlockCodec):
        def compress(self, codec: int, data: Any) -> bytes:
            return super().compress(codec, data) + bytes(1_000)

    first = build_batch([Record(n, 5, b"a", b"x") for n in range(2)])
    chunk = bytes(first + build_batch([Record(n, 5, b"%d" % (n // 2), b"x") for n in range(2, 5)], codec=Codec.ZSTD))
    table, position = _map(sieve, chunk)
    assert position == len(chunk)
    at, out, _, facts = _sift(sieve, table, chunk, codec=Swelling(1 << 20, SECRET))
    assert (at, [record.offset for record in _records(out)]) == (len(first), [1])
    assert facts[:2] == (2, 1)  # of the second one nothing is counted


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_what_cannot_be_decompressed_stops_it(sieve: Any, codec: Codec) -> None:
    batch = build_batch([Record(0, 5, b"a", b"x" * 500)], codec=codec)
    batch[70:80] = bytes(10)
    chunk = bytes(with_its_checksum(batch))
    table, position = _map(sieve, chunk)
    assert (position, table.size, table.error) == (0, 0, 0)
    assert _sift(sieve, table, chunk)[:2] == (0, b"")


def _with_block(batch: bytearray, block: bytes) -> bytearray:
    """The batch with another block, whatever its header says of the records."""
    changed = bytearray(batch[:HEADER_SIZE] + block)
    changed[LENGTH_AT : LENGTH_AT + 4] = (len(changed) - LOG_OVERHEAD).to_bytes(4, "big")
    return with_its_checksum(changed)


ODD_BLOCKS = {
    "two frames": lambda block: compress(Codec.ZSTD, block) * 2,
    "bytes behind the frame": lambda block: compress(Codec.ZSTD, block) + b"more",
    "a frame of two blocks": lambda block: compress(Codec.ZSTD, block * 2),
    "a frame with a byte too many": lambda block: compress(Codec.ZSTD, block + b"x"),
    "a frame with a byte too few": lambda block: compress(Codec.ZSTD, block[:-1]),
    "a frame that is cut": lambda block: compress(Codec.ZSTD, block)[:-2],
    "an empty frame": lambda block: compress(Codec.ZSTD, b""),
    "more than is decompressed at once": lambda block: compress(Codec.ZSTD, block + bytes(70_000)),
}


@for_each("odd", ODD_BLOCKS)
@for_each("number", [0, 3, 18, 38])
def test_an_odd_batch_among_others_that_are_decompressed_together_stops_it(sieve: Any, number: int, odd: str) -> None:
    batches = [
        build_batch(
            [Record(2 * n, 5, b"%d" % n, b"x" * n * 7), Record(2 * n + 1, 5, b"common", b"y")],
            base_offset=2 * n,
            codec=Codec.ZSTD,
        )
        for n in range(40)
    ]
    block = decompress(Codec.ZSTD, batches[number][HEADER_SIZE:], 1 << 20)
    batches[number] = _with_block(batches[number], ODD_BLOCKS[odd](block))
    chunk = b"".join(batches)
    before = len(b"".join(batches[:number]))
    table, position = _map(sieve, chunk)
    expected, _ = _map(INTERPRETED, chunk)
    assert (position, table.error) == (before, expected.error)
    assert table.size >= number + (number > 0)
    assert _sift(sieve, table, chunk) == _sift(INTERPRETED, expected, chunk)
    assert _sift(sieve, table, chunk)[0] == before
    behind = b"".join(batches[number + 1 :])
    assert table.put_batches(behind, 0, 0, CODEC) == len(behind)
    assert table.get(b"common") == 79


def with_its_checksum(batch: bytearray) -> bytearray:
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return batch


def _records(chunk: Any) -> Iterator[Record]:
    return (record for at, header in iter_batches(chunk) for record in decode_records(chunk, at, header))


@pytest.mark.parametrize("batch", [{"codec": Codec.GZIP}, {"transactional": True}, {"control": True}])
def test_batches_that_are_not_simple_stop_it(sieve: Any, batch: dict[str, Any]) -> None:
    first = build_batch([Record(0, 5, b"a", b"x")])
    chunk = bytes(first + build_batch([Record(1, 5, b"b", b"x")], base_offset=1, **batch))
    table, position = _map(sieve, chunk)
    assert position == len(first)
    assert _sift(sieve, table, chunk)[0] == len(first)


@for_each("length", [*range(1, 40), 383, 384, 385, 3071, 3072, 3073, 3457, 10_000])
def test_its_checksum_is_crc32c(sieve: Any, length: int) -> None:
    data = random.Random(length).randbytes(length + 1)
    assert sieve.checksum(data[1:]) == crc32c(data[1:])


@pytest.mark.parametrize("at", [17, 22, 43, 61, 70, -1])
def test_a_batch_with_a_wrong_checksum_stops_it(sieve: Any, at: int) -> None:
    first, second = (build_batch([Record(n, 5, b"%d" % n, b"x" * 50)], base_offset=n) for n in range(2))
    second[at] ^= 0x40
    chunk = bytes(first + second)
    table, position = _map(sieve, chunk)
    assert (position, table.size) == (len(first), 1)
    assert sieve.REASONS[table.error] == "the checksum of its batch is wrong"
    kernel = sieve.Sieve(table, 1_000, 0)
    out, notes = bytearray(len(chunk)), array("q", bytes(8 * sieve.NOTE * 2))
    assert kernel.sift_batches(chunk, 0, array("q"), memoryview(out), notes) == (len(first), len(first), 1)
    assert sieve.REASONS[kernel.error] == "the checksum of its batch is wrong"


@for_each("codec", SIMPLE)
@for_each("seed", range(6))
def test_what_it_lets_through_has_right_checksums_and_notes(sieve: Any, seed: int, codec: Codec) -> None:
    chunk = b"".join(_rows(_batches(seed, codec, horizons=True), with_horizon=True))
    table, _ = _map(sieve, chunk)
    _, out, notes, _ = _sift(sieve, table, chunk)
    found = list(iter_batches(out))
    assert all(is_crc_valid(out, position, header) for position, header in found)
    assert notes == [
        number for at, header in found for number in (at, header.size, header.last_offset, header.max_timestamp)
    ]


def test_half_a_batch_at_the_end_stops_it(sieve: Any) -> None:
    chunk = _batches(3)
    (last, _) = list(iter_batches(chunk))[-1]
    for end in (last + 1, last + 60, last + 61, len(chunk) - 1):
        _, position = _map(sieve, chunk[:end])
        assert position == last


@for_each("seed", range(40))
def test_bytes_that_are_no_records_do_no_harm(sieve: Any, seed: int) -> None:
    dice = random.Random(seed)
    chunk = bytearray(_batches(seed))
    starts = [position for position, _ in iter_batches(chunk)]
    for _ in range(dice.randrange(1, 6)):
        at = dice.choice(starts) + 61 + dice.randrange(12)
        if at < len(chunk):
            chunk[at] = dice.randrange(256)
    for position, header in iter_batches(bytes(chunk)):
        rewrite_header(chunk, position, header)  # with a checksum that believes it
    broken = bytes(chunk)
    table, position = _map(sieve, broken)
    expected, expected_position = _map(INTERPRETED, broken)
    assert (position, table.error) == (expected_position, expected.error)
    assert _sift(sieve, table, broken) == _sift(INTERPRETED, expected, broken)


class TestPieces:
    @pytest.mark.parametrize("size", [7, 50, 1_000])
    def test_records_may_come_in_pieces(self, sieve: Any, size: int) -> None:
        chunk = _batches(5)
        for position, header in iter_batches(chunk):
            block = chunk[position + 61 : position + header.size]
            table = sieve.KeyTable(bytearray(24 * 1_100), SECRET, 1_000)
            rest, taken = b"", 0
            for start in range(0, len(block), size):
                rest += block[start : start + size]
                end = table.put_records(rest, header.base_offset, 0)
                taken += end
                rest = rest[end:]
            assert (rest, taken, table.error) == (b"", len(block), 0)
            keys = {record.key for record in decode_records(chunk, position, header)} - {None}
            assert table.size == len(keys)

    @pytest.mark.parametrize(("shift", "fixed"), [(0, None), (-4_595, None), (1 << 40, None), (0, -77)])
    def test_timestamps_move_and_nothing_else(self, sieve: Any, shift: int, fixed: int | None) -> None:
        records = [Record(n, 1_000 + n, b"k%d" % n, b"v", (("h", None),)) for n in range(5)]
        batch = build_batch(records)
        verdicts = bytearray([0, 1, 0, 2, 0])
        block = sieve.rewrite(bytes(batch[61:]), verdicts, shift, fixed)
        header = next(iter_batches(batch))[1]
        rebuilt = bytearray(batch[:61]) + block
        rebuilt[8:12] = (len(rebuilt) - 12).to_bytes(4, "big")
        header = header._replace(batch_length=len(rebuilt) - 12, record_count=3)
        found = decode_records(rebuilt, 0, header)
        moved = [r._replace(timestamp=1_000 + fixed if fixed is not None else r.timestamp + shift) for r in records]
        assert found == moved[::2]

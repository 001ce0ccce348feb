"""The codecs: right data, wrong data, and data that is too much."""

import random
import struct
from itertools import pairwise

import pytest

from kmini.protocol.errors import CorruptMessage, InvalidRecord
from kmini.protocol.records.compression import (
    BlockCodec,
    Codec,
    compress,
    compress_chunks,
    decompress,
    decompress_chunks,
)
from support.for_each import for_each

CODECS = [codec for codec in Codec if codec is not Codec.NONE]
LIMIT = 10_000_000
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
SEPARATOR = bytes(range(16))
TEXT = b"".join(b"line %d of some text\n" % n for n in range(5000))


@for_each("codec", Codec)
@for_each("size", [0, 1, 100, 32 * 1024, 65_537, 1_000_000])
def test_what_was_compressed_comes_back(codec: Codec, size: int) -> None:
    data = (TEXT * 10)[:size]
    assert decompress(codec, compress(codec, data), LIMIT) == data
    noise = random.Random(size).randbytes(size)
    assert decompress(codec, compress(codec, noise), LIMIT) == noise


@pytest.mark.parametrize("codec", CODECS)
def test_a_limit_is_kept_to_the_byte(codec: Codec) -> None:
    stored = compress(codec, TEXT)
    assert len(decompress(codec, stored, len(TEXT))) == len(TEXT)
    with pytest.raises(InvalidRecord):
        decompress(codec, stored, len(TEXT) - 1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_frame_cut_at_any_byte_is_corrupt(codec: Codec) -> None:
    stored = compress(codec, TEXT[:3000])
    for cut in range(len(stored)):
        with pytest.raises(CorruptMessage):
            decompress(codec, stored[:cut], LIMIT)


def test_snappy_cut_at_any_byte_is_corrupt_or_ends_between_blocks() -> None:
    data = random.Random(1).randbytes(70_000)
    stored = compress(Codec.SNAPPY, data)
    for cut in [*range(1, 200), *range(200, len(stored), 97)]:
        try:
            shorter = decompress(Codec.SNAPPY, stored[:cut], LIMIT)
        except CorruptMessage:
            continue
        assert len(shorter) % (32 * 1024) == 0
        assert data.startswith(bytes(shorter))


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_is_corrupt(codec: Codec) -> None:
    dice = random.Random(codec)
    for size in (1, 3, 8, 20, 500):
        with pytest.raises((CorruptMessage, InvalidRecord)):
            decompress(codec, b"\xff" + dice.randbytes(size), LIMIT)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bytes_behind_the_frame_are_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, TEXT) + b"more", LIMIT)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_is_none_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptMessage):
        decompress(codec, b"data", LIMIT)


def test_raw_snappy_is_read() -> None:
    snappy = pytest.importorskip("snappy")
    assert decompress(Codec.SNAPPY, snappy.compress(TEXT), LIMIT) == TEXT


def test_xerial_blocks_of_any_size_are_read() -> None:
    snappy = pytest.importorskip("snappy")
    blocks = [snappy.compress(part) for part in (TEXT[:1], TEXT[1:90_000], TEXT[90_000:])]
    stored = XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    assert decompress(Codec.SNAPPY, stored, LIMIT) == TEXT


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x01"])
def test_a_snappy_block_that_lies_about_its_length_is_corrupt(claim: bytes) -> None:
    lie = claim + b"\0x"
    for stored in (lie, XERIAL + struct.pack(">i", len(lie)) + lie):
        with pytest.raises(CorruptMessage):
            decompress(Codec.SNAPPY, stored, 1 << 40)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 5])
def test_a_xerial_block_longer_than_the_data_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptMessage):
        decompress(Codec.SNAPPY, XERIAL + struct.pack(">i", size) + b"abc", LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_chunks_compress_to_what_decompresses_as_a_whole(codec: Codec) -> None:
    cuts = [0, 0, 1, 40_000, 40_001, len(TEXT)]
    chunks = [TEXT[start:end] for start, end in pairwise(cuts)]
    assert decompress(codec, b"".join(compress_chunks(codec, chunks)), LIMIT) == TEXT
    assert decompress(codec, b"".join(compress_chunks(codec, [])), LIMIT) == b""


@pytest.mark.parametrize("codec", CODECS)
def test_decompressed_chunks_are_small(codec: Codec) -> None:
    chunks = list(decompress_chunks(codec, compress(codec, bytes(1_000_000)), LIMIT))
    assert max(map(len, chunks)) <= 64 * 1024
    assert sum(map(len, chunks)) == 1_000_000


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, [1, 9]), (Codec.LZ4, [1, 12, 17]), (Codec.ZSTD, [-100, 1, 22])]
)
def test_every_level_that_kafka_allows_is_taken(codec: Codec, levels: list[int]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), LIMIT) == TEXT


def test_lz4_frames_have_independent_blocks_of_64_kib_and_no_size() -> None:
    flags, block_sizes = compress(Codec.LZ4, TEXT)[4:6]
    assert flags & 0b11101001 == 0b01100000
    assert block_sizes == 4 << 4


@pytest.mark.parametrize("size", [1, 15, 1_000, 64 * 1024])
def test_an_lz4_frame_of_one_block_is_as_the_library_would_frame_it(size: int) -> None:
    library = pytest.importorskip("lz4.frame")
    for content in (TEXT[:size], bytes(size), random.Random(size).randbytes(size)):
        frame = compress(Codec.LZ4, content)
        theirs = library.compress(content, store_size=False, block_size=library.BLOCKSIZE_MAX64KB, block_linked=False)
        assert frame[:7] == theirs[:7]
        assert len(frame) <= len(content) + 15
        assert library.decompress(frame) == content
        assert BlockCodec(1 << 20).decompress(Codec.LZ4, frame) == (content if len(frame) <= 16_384 else None)


def test_the_level_that_kafka_names_as_the_default_of_lz4_is_the_default() -> None:
    for content in (TEXT, TEXT[:1_000]):
        assert compress(Codec.LZ4, content, 9) == compress(Codec.LZ4, content) != compress(Codec.LZ4, content, 12)


def test_snappy_is_written_in_blocks_of_32_kib() -> None:
    stored = compress(Codec.SNAPPY, TEXT)
    assert stored.startswith(XERIAL)
    (size,) = struct.unpack_from(">i", stored, 16)
    snappy = pytest.importorskip("snappy")
    assert snappy.uncompress(stored[20 : 20 + size]) == TEXT[: 32 * 1024]


@pytest.mark.parametrize("level", [19, 22])
def test_a_zstd_frame_with_an_extraordinary_window_may_hold_32_mebibytes(level: int) -> None:
    mebibyte = bytes(1 << 20)
    stored = b"".join(compress_chunks(Codec.ZSTD, [mebibyte] * 33, level))
    if level == 22:
        with pytest.raises(InvalidRecord):
            decompress(Codec.ZSTD, stored, 1 << 30)
        stored = b"".join(compress_chunks(Codec.ZSTD, [mebibyte] * 32, level))
    assert set(decompress(Codec.ZSTD, stored, 1 << 30)) == {0}


def test_a_snappy_block_may_hold_32_mebibytes() -> None:
    snappy = pytest.importorskip("snappy")
    with pytest.raises(InvalidRecord):
        decompress(Codec.SNAPPY, snappy.compress(bytes((32 << 20) + 1)), 1 << 30)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_block_codec_compresses_every_block_as_the_first(codec: Codec) -> None:
    blocks = BlockCodec(1 << 20)
    for size in (10, 10_000, 1):
        assert blocks.compress(codec, b"x" * size) == compress(codec, b"x" * size)


def test_a_block_codec_goes_on_after_a_block_that_failed() -> None:
    blocks = BlockCodec(1 << 20)
    assert blocks.compress(Codec.ZSTD, b"first") == compress(Codec.ZSTD, b"first")
    with pytest.raises(TypeError):
        blocks.compress(Codec.ZSTD, "no bytes")  # type: ignore[arg-type]
    assert blocks.compress(Codec.ZSTD, b"second") == compress(Codec.ZSTD, b"second")


def test_blocks_of_zstd_are_decompressed_together() -> None:
    blocks = BlockCodec(1 << 20, SEPARATOR)
    contents = [b"one", TEXT[:40_000], b"x", random.Random(1).randbytes(5_000)]
    room = bytearray(60_000)
    for _ in range(2):
        used = blocks.decompress_together(Codec.ZSTD, [compress(Codec.ZSTD, content) for content in contents], room)
        assert room[:used] == SEPARATOR.join(contents)
    assert blocks.separator(Codec.ZSTD) == SEPARATOR
    assert not any(blocks.separator(codec) for codec in Codec if codec is not Codec.ZSTD)


@pytest.mark.parametrize(
    "odd",
    [
        b"no frame",
        compress(Codec.ZSTD, b"one") * 2,
        compress(Codec.ZSTD, b"one") + b"more",
        compress(Codec.ZSTD, TEXT[:1_000])[:-5],
        compress(Codec.ZSTD, bytes(100_000)),
    ],
    ids=["no frame", "two frames", "bytes behind it", "cut", "more than the room"],
)
def test_blocks_are_not_decompressed_together_with_an_odd_one(odd: bytes) -> None:
    good = compress(Codec.ZSTD, b"good")
    assert BlockCodec(1 << 20, SEPARATOR).decompress_together(Codec.ZSTD, [good, odd, good], bytearray(10_000)) == 0


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_a_block_codec_decompresses_a_block_after_one_that_it_refuses(codec: Codec) -> None:
    blocks = BlockCodec(50_000)
    for content in (TEXT[:40_000], b"x", TEXT[:49_000]):
        stored = compress(codec, content)
        assert blocks.decompress(codec, stored) == content
        for odd in (b"nothing", stored[:-3], stored + b"more", compress(codec, TEXT[:60_000]), compress(codec, b"")):
            assert blocks.decompress(codec, odd) is None

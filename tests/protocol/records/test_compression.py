"""The codecs: right data, wrong data, and data that becomes far more than it seems."""

import random
import struct
import subprocess
import sys

import pytest

from kmini.protocol.errors import CorruptMessage, InvalidRecord
from kmini.protocol.records.compression import Codec, compress, decompress

CODECS = [codec for codec in Codec if codec is not Codec.NONE]
LIMIT = 10_000_000
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
TEXT = b"".join(b"line %d of some text\n" % n for n in range(5000))

BOMB = """
import resource, sys
from kmini.protocol.errors import CorruptMessage, InvalidRecord
from kmini.protocol.records.batch import BatchHeader
from kmini.protocol.records.record import check_records, decode_records
from kmini.protocol.records.compression import Codec, compress
codec, mebibytes = Codec[sys.argv[1]], int(sys.argv[2])
if codec is Codec.GZIP:
    import zlib
    compressor = zlib.compressobj(wbits=31)
else:
    import zstandard
    compressor = zstandard.ZstdCompressor().compressobj()
zeros = bytes(1 << 20)
# One record that claims all of it, so that its length is no reason to stop.
size = (mebibytes << 20) - 5
start = bytearray()
raw = size << 1
while raw >= 128:
    start.append(raw & 127 | 128); raw >>= 7
start.append(raw)
data = bytearray(compressor.compress(bytes(start)))
for _ in range(mebibytes):
    data += compressor.compress(zeros)
data += compressor.flush()
bomb = bytes(61) + bytes(data)
header = BatchHeader(0, len(bomb) - 12, -1, 2, 0, int(codec), 0, 0, 0, -1, -1, -1, 1)
small = bytes(61) + compress(codec, b"x")
refused = 0
def read(batch):
    global refused
    for reading in (check_records, decode_records):
        try:
            reading(batch, 0, header._replace(batch_length=len(batch) - 12), limit=1 << 20)
        except (InvalidRecord, CorruptMessage):
            refused += 1
read(small)  # whatever the library needs itself
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read(bomb)
print(refused, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 65_537, 1_000_000])
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


@pytest.mark.parametrize(("codec", "mebibytes"), [("GZIP", 900), ("ZSTD", 1900)])
def test_a_bomb_is_refused_within_32_mebibytes(codec: str, mebibytes: int) -> None:
    command = [sys.executable, "-c", BOMB, codec, str(mebibytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    refused, kibibytes = map(int, done.stdout.split())
    assert refused == 4
    assert kibibytes <= 32 * 1024

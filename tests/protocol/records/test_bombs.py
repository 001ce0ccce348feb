"""Batches of some kilobytes that become far more: refused or not, reading them takes little memory."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec, compress_chunks
from kmini.protocol.records.record import Record

pytestmark = pytest.mark.sockets

MEBIBYTE = bytes(1 << 20)

READERS = """
import resource, sys, threading
from pathlib import Path
from kmini.protocol.errors import InvalidRecord
from kmini.protocol.records.batch import read_header
from kmini.protocol.records.batch_records import check_records, first_record_since, suspect_records
refused = []
def read(batch):
    header = read_header(batch)
    everything = {"earliest": 1, "latest": 0, "null_keys": True}
    for reading in (
        lambda: check_records(batch, 0, header),
        lambda: first_record_since(batch, 0, header, 5000, 0),
        lambda: [None for _ in suspect_records(batch, 0, header, **everything)],
    ):
        try:
            reading()
        except InvalidRecord:
            refused.append(reading)
small, *batches = [Path(path).read_bytes() for path in sys.argv[1:]]
read(small)  # whatever the library needs itself
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
threads = [threading.Thread(target=read, args=(batch,)) for batch in batches]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(refused), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def varint(value: int) -> bytes:
    encoded = bytearray()
    raw = value * 2
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*encoded, raw])


def one_value(mebibytes: int) -> Iterator[bytes]:
    """A record with a value of so many MiB."""
    size = mebibytes << 20
    start = b"\0\0\0\x01" + varint(size)
    yield varint(len(start) + size + 1) + start
    for _ in range(mebibytes):
        yield MEBIBYTE
    yield b"\0"


def nothing_but_headers(mebibytes: int) -> Iterator[bytes]:
    """A record with as many headers as there is room for, each with an empty name and no value."""
    size = mebibytes << 20
    start = b"\0\0\0\x01\x01" + varint(size // 2)
    yield varint(len(start) + size) + start
    for _ in range(mebibytes):
        yield b"\0\x01" * (1 << 19)


def zeros(mebibytes: int) -> Iterator[bytes]:
    """No record, but the length of one that would fill everything."""
    yield varint((mebibytes << 20) - 5)
    for _ in range(mebibytes):
        yield MEBIBYTE


@pytest.fixture
def read_apart(tmp_path: Path, batch_of: Callable[..., bytes]) -> Callable[..., tuple[int, int]]:
    """Read a block three times at once, in a process of its own: how often it was refused, and how many KiB it took."""

    def read(codec: Codec, block: Iterator[bytes]) -> tuple[int, int]:
        small, large = tmp_path / "small", tmp_path / "large"
        small.write_bytes(build_batch([Record(0, 0, None, bytes(200_000))], codec=codec))
        large.write_bytes(batch_of(b"".join(compress_chunks(codec, block, level=1)), attributes=codec))
        command = [sys.executable, "-c", READERS, str(small), *[str(large)] * 3]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        refused, kibibytes = map(int, done.stdout.split())
        return refused, kibibytes

    return read


@pytest.mark.parametrize(("codec", "mebibytes"), [(Codec.GZIP, 900), (Codec.ZSTD, 1900)])
def test_three_bombs_at_once_are_refused_within_32_mebibytes(
    read_apart: Callable[..., tuple[int, int]], codec: Codec, mebibytes: int
) -> None:
    refused, kibibytes = read_apart(codec, zeros(mebibytes))
    assert refused == 9
    assert kibibytes <= 32 * 1024


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_three_records_of_60_mebibytes_at_once_are_read_within_32_mebibytes(
    read_apart: Callable[..., tuple[int, int]], codec: Codec
) -> None:
    refused, kibibytes = read_apart(codec, one_value(60))
    assert refused == 0
    assert kibibytes <= 32 * 1024


def test_millions_of_headers_are_read_within_32_mebibytes(read_apart: Callable[..., tuple[int, int]]) -> None:
    refused, kibibytes = read_apart(Codec.ZSTD, nothing_but_headers(4))
    assert refused == 0
    assert kibibytes <= 32 * 1024

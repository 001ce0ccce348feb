"""Files in a file system of a test, and the dump of them."""

from __future__ import annotations

import struct

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record
from kmini.storage.filesystem import FileSystem
from kmini.storage.inspect.dump import Damage, dump


def write(filesystem: FileSystem, path: str, content: bytes) -> None:
    filesystem.make_directory(path.rpartition("/")[0] or ".")
    file = filesystem.open(path, create=True)
    file.append(content)
    file.close()


def lines(filesystem: FileSystem, path: str, *, records: bool = False) -> list[str]:
    """The dump of what must be whole."""
    entries = list(dump(filesystem, path, records=records))
    assert not [entry for entry in entries if isinstance(entry, Damage)]
    return [str(entry) for entry in entries]


def damage(filesystem: FileSystem, path: str) -> list[tuple[int, str]]:
    """Positions and reasons."""
    return [(entry.position, entry.reason) for entry in dump(filesystem, path) if isinstance(entry, Damage)]


def batch(first: int, count: int = 1, codec: Codec = Codec.NONE, timestamp: int = 1000) -> bytes:
    records = [Record(first + n, timestamp + n, b"k", b"v%d" % n) for n in range(count)]
    return bytes(build_batch(records, base_offset=first, codec=codec))


def segment_of_six(filesystem: FileSystem) -> str:
    """Six batches of two records; the indexes are those that the log has when every second batch is indexed."""
    directory = "orders-0"
    log, offset_index, time_index = b"", b"", b""
    for number in range(6):
        one = batch(1000 + 2 * number, 2, timestamp=100 + 2 * number)
        if number % 2:
            offset_index += struct.pack(">ii", 2 * number + 1, len(log))
            time_index += struct.pack(">qi", 100 + 2 * number + 1, 2 * number + 1)
        log += one
    for kind, content in ((".log", log), (".index", offset_index), (".timeindex", time_index)):
        write(filesystem, f"{directory}/00000000000000001000{kind}", content)
    return f"{directory}/00000000000000001000"

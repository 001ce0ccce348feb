"""Record batches written by hand, right or deliberately wrong, without the code under test."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import crcmod.predefined
import lz4.frame
import snappy
import zstandard

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC32C = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    0: lambda data: data,
    1: lambda data: gzip.compress(data, mtime=0),
    2: lambda data: _xerial(data),
    3: lambda data: lz4.frame.compress(data, block_linked=False),
    4: lambda data: zstandard.ZstdCompressor().compress(data),
}


class Item(NamedTuple):
    """A record; `offset_delta` and `attributes` may be wrong on purpose."""

    key: bytes | None = b"key"
    value: bytes | None = b"value"
    timestamp_delta: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    offset_delta: int | None = None
    attributes: int = 0


def varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes((*out, zigzag))


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(item: Item, index: int) -> bytes:
    delta = index if item.offset_delta is None else item.offset_delta
    headers = b"".join(sized(name) + sized(value) for name, value in item.headers)
    body = struct.pack(">b", item.attributes) + varint(item.timestamp_delta) + varint(delta)
    return sized(body + sized(item.key) + sized(item.value) + varint(len(item.headers)) + headers)


def batch(items: Sequence[Item] = (Item(),), *, codec: str = "none", **wrong: Any) -> bytes:
    """Build a batch from offset 0; any header field may be given by name to make it wrong, and so may `body`."""
    attributes = CODECS[codec] | wrong.get("attributes", 0)
    body = wrong.get("body", b"".join(record(item, index) for index, item in enumerate(items)))
    body = COMPRESS[CODECS[codec]](body)
    base_timestamp = wrong.get("base_timestamp", 1_700_000_000_000)
    fields = {
        "base_offset": 0,
        "length": HEADER.size - 12 + len(body),
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": attributes,
        "last_offset_delta": len(items) - 1,
        "base_timestamp": base_timestamp,
        "max_timestamp": base_timestamp + max((item.timestamp_delta for item in items), default=0),
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "count": len(items),
    }
    fields |= {name: value for name, value in wrong.items() if name in fields and name != "attributes"}
    built = bytearray(HEADER.pack(*fields.values()) + body)
    if "crc" not in wrong:
        struct.pack_into(">I", built, 17, CRC32C(built[21:]))
    return bytes(built)


def _xerial(data: bytes) -> bytes:
    block: bytes = snappy.compress(data)
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


def with_crc(batch: bytearray) -> bytearray:
    """The batch with the checksum that its bytes have now; changes its argument."""
    struct.pack_into(">I", batch, 17, CRC32C(bytes(batch[21:])))
    return batch

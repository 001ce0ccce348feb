"""The hash of the topics that a group subscribes to, by which it notices that they have changed (KIP-1101).

Apache Kafka stores it with the group epoch, and compares: a wrong hash costs a rebalance after a change of brokers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_INT32 = struct.Struct("<i")
_INT64 = struct.Struct("<q")
_HALVES = struct.Struct(">qq")
_START = b"\0"


def topic_hash(topic_id: bytes, name: str, racks: Sequence[Sequence[str]]) -> int:
    """The hash of a topic, an int64, with the racks of the replicas of each partition: XXH3 over all of them."""
    halves = _HALVES.unpack(topic_id)
    parts = [_START, *map(_INT64.pack, halves), _text(name), _INT32.pack(len(racks))]
    for number, of_replicas in enumerate(racks):
        parts.append(_INT32.pack(number))
        parts += map(_sized_text, sorted(of_replicas))
    return _xxh3(b"".join(parts))


def group_hash(hashes: Mapping[str, int]) -> int:
    """The hash of a group, an int64, from those of its topics by name; 0 without topics."""
    if not hashes:
        return 0
    return _xxh3(b"".join(_INT64.pack(hashes[name]) for name in sorted(hashes)))


def _text(text: str) -> bytes:
    """UTF-16 units, then their number."""
    units = text.encode("utf-16-le")
    return units + _INT32.pack(len(units) // 2)


def _sized_text(text: str) -> bytes:
    """The number of UTF-16 units, then what `_text` gives."""
    units = _text(text)
    return units[-_INT32.size :] + units


def _xxh3(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # most brokers have no such group

    digest = xxh3_64_intdigest(data)
    return digest - (1 << 64) if digest >= 1 << 63 else digest

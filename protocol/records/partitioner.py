"""The partition of a key, as Kafka's own producer chooses it."""

from __future__ import annotations

from .load_kernel import load_lines

murmur2 = load_lines().murmur2


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key: murmur2 of its bytes, without the sign, modulo the number of partitions."""
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % partitions

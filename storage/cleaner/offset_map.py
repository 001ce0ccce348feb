"""The newest offset of every key in the dirty part of a log, within a budget of memory.

The map keeps hashes of keys, 24 bytes an entry. Two keys with one hash would lose data. SipHash with 128 bits and a
secret drawn for each map leaves that to chance, about 10^-23 for a hundred million keys, even if an attacker chooses
the keys.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any

from ...protocol.records.load_kernel import load_sieve

ENTRY_BYTES = 24


class MapTooSmall(Exception):
    """The budget has no room for one key. The message names the setting to raise."""


class OffsetMap:
    """Keys to offsets, for one pass. `close` gives the memory back to the system."""

    def __init__(self, max_keys: int, *, budget_bytes: int, load_factor: float = 0.9, secret: bytes = b"") -> None:
        """Make room for `max_keys`, the most that the dirty records can need, or for as many as the budget in bytes
        (`log.cleaner.dedupe.buffer.size` by thread) and the load factor (`log.cleaner.io.buffer.load.factor`) allow.

        Raises MapTooSmall if that is none. Tests give a `secret`.
        """
        affordable = budget_bytes // ENTRY_BYTES
        if int(affordable * load_factor) < 1:
            raise MapTooSmall(
                f"{budget_bytes} bytes filled to {load_factor:.0%} have no room for a key:"
                " raise log.cleaner.dedupe.buffer.size (shared by log.cleaner.threads) or"
                " log.cleaner.io.buffer.load.factor"
            )
        slots = max(min(affordable, int(max_keys / load_factor) + 2), 2)
        capacity = min(int(slots * load_factor), slots - 1) or 1
        self.sieve = load_sieve()
        self._memory = _zeros(slots * ENTRY_BYTES)
        self.table: Any = self.sieve.KeyTable(self._memory, secret or os.urandom(16), capacity)
        """A KeyTable of protocol/records/kernels/key_table.py."""

    def __len__(self) -> int:
        return int(self.table.size)

    @property
    def capacity(self) -> int:
        """Keys that the map takes."""
        return int(self.table.capacity)

    @property
    def size_bytes(self) -> int:
        return len(self._memory)

    @property
    def utilization(self) -> float:
        """The share of its slots that are taken."""
        return len(self) * ENTRY_BYTES / self.size_bytes

    @property
    def is_full(self) -> bool:
        """Whether a key has found no room: the next pass takes the records from there on."""
        return bool(self.table.is_full)

    @property
    def latest_offset(self) -> int:
        """The last offset that the map covers. A record beyond it stays, whatever its key."""
        return int(self.table.latest_offset)

    def reach(self, offset: int) -> None:
        """Note that the map covers the log up to this offset."""
        self.table.latest_offset = max(self.table.latest_offset, offset)

    def put(self, key: bytes, offset: int) -> bool:
        """Set the offset of the key; return False if there is no room for the key."""
        return bool(self.table.put(key, offset))

    def get(self, key: bytes) -> int:
        """Return the offset of the key; -1 for a key that is not there."""
        return int(self.table.get(key))

    def close(self) -> None:
        self.table.close()
        self._memory.close()


def _zeros(size: int) -> mmap.mmap:
    """Return memory of zeros, in large pages where the system has them: keys are looked up all over the map, and
    finding a small page for each takes a fifth of the time of mapping small records."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory

"""CRC-32C (Castagnoli), the checksum of record batches and producer snapshots.

In hardware through the package `crc32c`; where that has no wheel, `crcmod` gives the same numbers slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Crc32c = Callable[..., int]


def _crcmod_crc32c() -> Crc32c:
    import crcmod.predefined

    table_driven = crcmod.predefined.mkCrcFun("crc-32c")

    def crc32c(data: Any, value: int = 0) -> int:
        return int(table_driven(bytes(data), value))

    return crc32c


try:
    from crc32c import crc32c as _hardware_crc32c
except ImportError:
    crc32c: Crc32c = _crcmod_crc32c()
else:
    crc32c = _hardware_crc32c

__all__ = ["crc32c"]

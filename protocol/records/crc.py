"""CRC-32C (Castagnoli): the checksum of record batches and producer snapshots.

In hardware through the package `crc32c`; where that has no wheel, `crcmod` gives the same numbers slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Crc32c = Callable[..., int]


def _hardware_crc32c() -> Crc32c:
    """Only the package's extension module: the package itself brings a command line, and takes 40 ms to import."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    package = PathFinder.find_spec("crc32c")
    spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ImportError("the package crc32c is not installed, or is not the one we know")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Crc32c = module.crc32c
    return function


def _crcmod_crc32c() -> Crc32c:
    import crcmod.predefined

    table_driven = crcmod.predefined.mkCrcFun("crc-32c")

    def crc32c(data: Any, value: int = 0) -> int:
        return int(table_driven(bytes(data), value))

    return crc32c


try:
    _crc32c = _hardware_crc32c()
except ImportError:
    _crc32c = _crcmod_crc32c()

crc32c = _crc32c
"""`crc32c(data, value=0)`: the checksum of `data`, continuing that of what came before it."""

__all__ = ["crc32c"]

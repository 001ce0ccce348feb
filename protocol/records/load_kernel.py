"""Kernels that are imported when they are first needed: all but `kernels.records`, which every process imports."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import extension_modules
from . import kernels
from .kernels import records

IS_COMPILED = extension_modules.is_compiled(records)
"""Whether a check of a record takes some 20 ns, or some µs."""


def load(name: str = "records", *, interpreted: bool = False) -> Any:
    """Import the kernel of this name; its source, under another name, if `interpreted` asks for that."""
    return extension_modules.load(f"{kernels.__name__}.{name}", interpreted=interpreted)


@cache
def load_sieve() -> Any:
    """The kernel of compaction, loaded by the first cleaning."""
    return load("sieve")


@cache
def load_lines() -> Any:
    """The kernel of producers that read lines."""
    return load("lines")

"""The kernels of records, each imported when it is first needed."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import extension_modules
from . import kernels


def load(name: str = "records", *, interpreted: bool = False) -> Any:
    """Import the kernel of this name; its source, under another name, if `interpreted` asks for that."""
    return extension_modules.load(f"{kernels.__name__}.{name}", interpreted=interpreted)


_kernel = load()

IS_COMPILED = extension_modules.is_compiled(_kernel)
"""Whether a check of a record takes some 20 ns, or some µs."""

RecordWalker: Any = _kernel.RecordWalker
RecordReader: Any = _kernel.RecordReader
PlainBatches: Any = _kernel.PlainBatches
assign_offsets: Any = _kernel.assign_offsets
encode_records: Any = _kernel.encode_records
fault_of_claims: Any = _kernel.fault_of_claims
is_transactional: Any = _kernel.is_transactional
transactional_batches: Any = _kernel.transactional_batches


@cache
def load_sieve() -> Any:
    """The kernel of compaction, loaded by the first cleaning."""
    return load("sieve")


@cache
def load_lines() -> Any:
    """The kernel of producers that read lines."""
    return load("lines")

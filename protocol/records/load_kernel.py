"""The kernels: compiled where they can be; interpreted elsewhere, or where the environment has KMINI_PURE=1."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from typing import Any

from . import kernels


def load(name: str = "records", *, interpreted: bool) -> Any:
    """Import the kernel of this name: the compiled one if there is one, unless `interpreted` asks for its source.

    The parts of a kernel are never compiled by themselves, so a kernel from source has all of its parts from source.
    """
    full_name = f"{kernels.__name__}.{name}"
    found = find_spec(full_name)
    if found is None or found.origin is None or not interpreted or found.origin.endswith(".py"):
        return import_module(full_name)
    source = os.path.join(os.path.dirname(found.origin), f"{name}.py")
    spec = spec_from_file_location(f"{full_name}_interpreted", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


IS_PURE = bool(os.environ.get("KMINI_PURE"))

_kernel = load(interpreted=IS_PURE)

IS_COMPILED: bool = not _kernel.__file__.endswith(".py")
"""Whether a check of a record takes some 20 ns, or some µs."""

RecordWalker: Any = _kernel.RecordWalker
RecordReader: Any = _kernel.RecordReader
encode_records: Any = _kernel.encode_records


@cache
def load_sieve() -> Any:
    """The kernel of compaction, loaded by the first cleaning."""
    return load("sieve", interpreted=IS_PURE)


@cache
def load_lines() -> Any:
    """The kernel of producers that read lines."""
    return load("lines", interpreted=IS_PURE)

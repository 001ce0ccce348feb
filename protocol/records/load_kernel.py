"""The kernels: compiled where it can be, interpreted elsewhere, or if KMINI_PURE=1 in the environment asks for that."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any


def load(name: str = "kernel", *, interpreted: bool) -> Any:
    """The module of this name, or its source run by the interpreter although a compiled one may be there."""
    if not interpreted:
        return import_module(f"{__package__}.{name}")
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(__file__), f"{name}.py")
    spec = spec_from_file_location(f"{__package__}.{name}_interpreted", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


IS_PURE = bool(os.environ.get("KMINI_PURE"))

_kernel = load(interpreted=IS_PURE)

IS_COMPILED: bool = not _kernel.__file__.endswith(".py")
"""Walking a record takes some 20 ns then, and some µs otherwise."""

REASONS: dict[int, str] = _kernel.REASONS
RecordWalker: Any = _kernel.RecordWalker
RecordReader: Any = _kernel.RecordReader
encode_records: Any = _kernel.encode_records


@cache
def load_sieve() -> Any:
    """The kernel of compaction, which only those load who compact."""
    return load("sieve", interpreted=IS_PURE)

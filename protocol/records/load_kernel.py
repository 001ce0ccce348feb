"""The kernel: compiled where it can be, interpreted elsewhere, or if KMINI_PURE=1 in the environment asks for that."""

from __future__ import annotations

import os
from typing import Any


def load(*, interpreted: bool) -> Any:
    """The module `kernel`, or its source run by the interpreter although a compiled one may be there."""
    if not interpreted:
        from . import kernel

        return kernel
    from importlib.util import module_from_spec, spec_from_file_location

    name = f"{__package__}.kernel_interpreted"
    spec = spec_from_file_location(name, os.path.join(os.path.dirname(__file__), "kernel.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_kernel = load(interpreted=bool(os.environ.get("KMINI_PURE")))

IS_COMPILED: bool = not _kernel.__file__.endswith(".py")
"""Walking a record takes some 20 ns then, and some µs otherwise."""

REASONS: dict[int, str] = _kernel.REASONS
RecordWalker: Any = _kernel.RecordWalker
RecordReader: Any = _kernel.RecordReader
encode_records: Any = _kernel.encode_records

"""The kernels: compiled where they can be; interpreted elsewhere, or where the environment has KMINI_PURE=1."""

from __future__ import annotations

import builtins
import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from . import cython_words


def load(name: str = "kernel", *, interpreted: bool) -> Any:
    """Import the kernel of this name: the compiled one if there is one, unless `interpreted` asks for its source."""
    found = find_spec(f"{__package__}.{name}")
    if not interpreted and found is not None and found.origin is not None and not found.origin.endswith(".py"):
        return import_module(f"{__package__}.{name}")
    path = os.path.join(os.path.dirname(__file__), f"{name}.py")
    spec = spec_from_file_location(f"{__package__}.{name}_interpreted", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
    spec.loader.exec_module(module)
    return module


def _import(name: str, *arguments: Any, **options: Any) -> ModuleType:
    """The import statement inside interpreted kernels, which takes `cython_words` for `cython`.

    An entry in `sys.modules` would do the same, and mislead other packages that ask whether Cython is installed.
    """
    return cython_words if name == "cython" else builtins.__import__(name, *arguments, **options)


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
    """The kernel of compaction, loaded by the first cleaning."""
    return load("sieve", interpreted=IS_PURE)


@cache
def load_lines() -> Any:
    """The kernel of producers that read lines."""
    return load("lines", interpreted=IS_PURE)

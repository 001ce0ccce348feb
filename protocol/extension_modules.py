"""Modules that are compiled where a C compiler is, and run interpreted elsewhere.

They are written in Cython's pure-Python mode: nearly every line stands once for both forms, and `if cython.compiled`
stands where the forms differ. setup.py has the table of them. A
compiled module is an extension beside its source, and an ordinary import finds the extension first. Interpreted,
`cython_words` stands for the module `cython`, so kmini never needs Cython to run. With KMINI_PURE=1 in the environment
`embed/__init__.py` calls `prefer_sources`, and all of them run interpreted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any


def load(name: str, *, interpreted: bool = False) -> Any:
    """Import the module of this full name; its source, under another name, if `interpreted` asks for that.

    Only modules of setup.py's table are compiled, and not what they import, so a module from source has all of its
    parts from source.
    """
    if not interpreted:
        return import_module(name)
    found = find_spec(name)
    if found is None or not isinstance(found.loader, ExtensionFileLoader):
        return import_module(name)
    spec = _source_beside(found, f"{name}_interpreted")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_compiled(module: ModuleType) -> bool:
    """Whether a module of the table is an extension in this process."""
    return module.__file__ is not None and not module.__file__.endswith(".py")


def prefer_sources() -> None:
    """Let every later import of a module of kmini take the source that stands beside its extension."""
    sys.meta_path.insert(0, _SourceFinder())


class _SourceFinder:
    """Finds the sources of compiled modules of kmini; what else is imported it leaves to the other finders."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if path is None or not name.startswith("kmini."):
            return None
        found = PathFinder.find_spec(name, path)
        if found is None or not isinstance(found.loader, ExtensionFileLoader):
            return None
        return _source_beside(found, name)


def _source_beside(extension: ModuleSpec, name: str) -> ModuleSpec | None:
    """The source that stands beside an extension, as a module of this name."""
    assert extension.origin is not None
    file_name = extension.name.rpartition(".")[2]
    folder = extension.origin[: extension.origin.rindex(file_name)]
    return spec_from_file_location(name, f"{folder}{file_name}.py")

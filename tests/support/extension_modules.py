"""setup.py as a module, and modules that can be compiled in either form."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kmini.protocol import extension_modules

TREE = Path(__file__).resolve().parent.parent.parent
FORMS = ("compiled", "interpreted")


@cache
def setup_py() -> ModuleType:
    """The functions of setup.py; they run only when it is the main program."""
    spec = importlib.util.spec_from_file_location("setup_of_kmini", TREE / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_form(name: str, form: str) -> Any:
    """The module of this full name, compiled or interpreted; skips the test where it is not compiled."""
    module = extension_modules.load(name, interpreted=form == "interpreted")
    if form == "compiled" and not extension_modules.is_compiled(module):
        pytest.skip(f"{name} is not compiled here")
    return module

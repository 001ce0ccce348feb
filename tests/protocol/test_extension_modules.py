"""Which form of a module is loaded; interpreted it has `kmini.protocol.cython_words` and no Cython."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kmini.protocol import extension_modules
from support.extension_modules import TREE, load_form, setup_py

pytestmark = pytest.mark.sockets

COMPILED = setup_py().COMPILED


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an environment without KMINI_PURE, but for the `variables`."""
    environment = {name: value for name, value in os.environ.items() if name != "KMINI_PURE"} | variables
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_with_kmini_pure_every_module_is_its_source_and_needs_no_cython() -> None:
    code = f"""
import sys
sys.modules["cython"] = sys.modules["Cython"] = None
from importlib import import_module
print([import_module(name).__file__ for name in {COMPILED}])
"""
    loaded = run(code, KMINI_PURE="1")
    sources = [str(setup_py().source_of(name, TREE)) for name in COMPILED]
    assert (loaded.stdout.strip(), loaded.stderr) == (repr(sources), "")


def test_without_it_every_module_that_was_compiled_is_its_extension() -> None:
    for name in COMPILED:
        load_form(name, "compiled")
    code = f"from importlib import import_module\nprint([import_module(name).__file__ for name in {COMPILED}])"
    loaded = run(code)
    assert loaded.stderr == ""
    assert loaded.stdout.count(".py'") == 0
    assert loaded.stdout.count("/") > 0


@pytest.mark.parametrize("name", COMPILED)
def test_a_source_is_loaded_beside_the_module_without_taking_its_place(name: str) -> None:
    before = extension_modules.load(name)
    source = extension_modules.load(name, interpreted=True)
    assert source.__file__ == str(setup_py().source_of(name, TREE))
    assert not extension_modules.is_compiled(source)
    assert extension_modules.load(name) is before is sys.modules[name]


def test_a_name_that_there_is_not_is_an_import_error_in_either_form() -> None:
    for interpreted in (False, True):
        with pytest.raises(ModuleNotFoundError):
            extension_modules.load("kmini.protocol.nothing", interpreted=interpreted)

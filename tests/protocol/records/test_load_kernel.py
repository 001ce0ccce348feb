"""Which form of a kernel is loaded; interpreted it has `kmini.protocol.cython_words` and no Cython."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kmini.protocol.records import load_kernel

pytestmark = pytest.mark.sockets

FOLDER = Path(load_kernel.__file__).with_name("kernels")
KERNELS = ["records", "sieve", "flagging", "columns", "lines"]


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an environment without KMINI_PURE, but for the `variables`."""
    environment = {name: value for name, value in os.environ.items() if name != "KMINI_PURE"} | variables
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_kmini_pure_chooses_the_interpreted_kernel() -> None:
    code = "from kmini.protocol.records import load_kernel as k; print(k.records.__file__, k.IS_COMPILED)"
    chosen = run(code, KMINI_PURE="1")
    assert chosen.stdout.split() == [str(FOLDER / "records.py"), "False"], chosen.stderr


@pytest.mark.parametrize("name", KERNELS)
def test_an_interpreted_kernel_needs_no_cython(name: str) -> None:
    """And it leaves no trace by which other packages would take Cython for installed."""
    code = f"""
import sys
sys.modules["cython"] = sys.modules["Cython"] = None
from kmini.protocol.records import load_kernel
kernel = load_kernel.load({name!r}, interpreted=True)
print(kernel.__file__, sys.modules["cython"])
"""
    loaded = run(code, KMINI_PURE="1")
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert loaded.stdout.split() == [str(FOLDER / f"{name}.py"), "None"]


@pytest.mark.parametrize("name", KERNELS)
def test_an_interpreted_kernel_has_no_compiled_part(name: str) -> None:
    code = f"""
import sys
from kmini.protocol.records import load_kernel
before = set(sys.modules)
load_kernel.load({name!r}, interpreted=True)
print([m for m in set(sys.modules) - before if ".kernels." in m and not sys.modules[m].__file__.endswith(".py")])
"""
    loaded = run(code)
    assert (loaded.stdout.strip(), loaded.stderr) == ("[]", "")


def test_where_no_kernel_was_compiled_its_source_is_loaded_and_needs_no_cython() -> None:
    code = """
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from kmini.protocol.records import load_kernel
sys.modules["cython"] = sys.modules["Cython"] = None
sys.path_hooks[:] = [FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))]
sys.path_importer_cache.clear()
print(load_kernel.load("flagging", interpreted=False).__file__)
"""
    loaded = run(code)
    assert (loaded.stderr, loaded.stdout.strip()) == ("", str(FOLDER / "flagging.py"))


def test_a_compiled_kernel_needs_no_cython() -> None:
    code = """
import sys
sys.modules["cython"] = sys.modules["Cython"] = None
from kmini.protocol.records import load_kernel
print([load_kernel.load(name, interpreted=False).__name__ for name in ("records", "sieve", "columns")])
"""
    loaded = run(code)
    assert (loaded.returncode, loaded.stderr) == (0, "")

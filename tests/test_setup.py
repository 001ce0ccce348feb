"""setup.py writes one source for Cython of a module and its parts, and extensions are made of the present source."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from support.extension_modules import TREE, load_form, setup_py

REBUILD = "the extension is out of date: run `python -m pip install -e . --no-deps`"
COMPILED = setup_py().COMPILED


@pytest.mark.parametrize("name", COMPILED)
def test_an_extension_is_made_of_the_present_source(name: str) -> None:
    compiled: Any = load_form(name, "compiled")
    assert f"SOURCE_CRC = {compiled.SOURCE_CRC}\n" in setup_py().amalgamated(name, TREE), REBUILD


@pytest.mark.parametrize("name", COMPILED)
def test_a_part_stands_before_the_module_that_imports_it(name: str) -> None:
    tree = ast.parse(setup_py().amalgamated(name, TREE))
    defined: set[str] = set()
    for statement in tree.body:
        for base in ast.walk(statement):
            assert not isinstance(base, ast.ImportFrom) or base.level == 0, ast.unparse(base)
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            assert statement.name not in defined
            defined.add(statement.name)


def write(tree: Path, path: str, text: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)


WORDS = "from ... import cython_words as cython\n\n"


def test_two_parts_cannot_define_one_name(tmp_path: Path) -> None:
    write(tmp_path, "protocol/records/layout.py", "SIZE = 1\n")
    write(tmp_path, "protocol/records/kernels/part.py", WORDS + "def same(): ...\n")
    kernel = "from .part import same\nfrom ..layout import SIZE\n\ndef other(): return SIZE\n"
    write(tmp_path, "protocol/records/kernels/kernel.py", kernel)
    source = setup_py().amalgamated("kmini.protocol.records.kernels.kernel", tmp_path)
    assert source.index("def same") < source.index("def other")
    write(tmp_path, "protocol/records/kernels/kernel.py", "from .part import same\n\ndef same(): ...\n")
    with pytest.raises(ValueError, match=r"part\.py and kernel\.py both define same"):
        setup_py().amalgamated("kmini.protocol.records.kernels.kernel", tmp_path)


def test_a_part_may_be_in_another_root_folder_and_what_it_imports_is_still_found(tmp_path: Path) -> None:
    write(tmp_path, "protocol/records/layout.py", "SIZE = 1\nREASONS = {}\n")
    part = "from ..layout import REASONS, SIZE\nfrom ..crc import (\n    crc32c,\n)\n\n"
    part += "def sum_of():\n    from ..batch import Batch as B\n\n    return B, crc32c, REASONS, SIZE\n"
    write(tmp_path, "protocol/records/kernels/part.py", WORDS + part)
    module = "# cython: boundscheck=False\n'''It sums.'''\nfrom ..protocol.records.kernels.part import sum_of\n"
    write(tmp_path, "storage/module.py", module)
    source = setup_py().amalgamated("kmini.storage.module", tmp_path)
    assert source.startswith("# cython: boundscheck=False\n")
    assert "from kmini.protocol.records.layout import REASONS\n" in source
    assert "from kmini.protocol.records.crc import crc32c\n" in source
    assert "    from kmini.protocol.records.batch import Batch as B\n" in source
    assert "cython_words" not in source
    assert "LAYOUT" in source


def test_a_module_without_numbers_of_the_layout_gets_none_and_keeps_cythons_checks(tmp_path: Path) -> None:
    write(tmp_path, "protocol/records/layout.py", "SIZE = 1\n")
    write(tmp_path, "broker/module.py", '"""Text."""\n\nVALUE = 7\n')
    source = setup_py().amalgamated("kmini.broker.module", tmp_path)
    assert "LAYOUT" not in source
    assert "boundscheck" not in source
    assert "VALUE = 7" in source


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("kmini.protocol.framing", "protocol/framing.py"),
        ("kmini.storage.cleaner.clean", "storage/cleaner/clean.py"),
        ("kmini.testkit.embedded", "testkit/embedded.py"),
    ],
)
def test_a_module_has_its_source_in_its_folder(module: str, path: str) -> None:
    assert setup_py().source_of(module, TREE) == TREE / path

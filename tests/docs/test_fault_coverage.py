"""The page of faults and the tests in which clients meet them names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "testing" / "fault-coverage.md"
ROW = re.compile(r"^\| (?!fault \|)(?P<fault>[^|-][^|]*?) \|(?P<how>[^|]*)\| (?P<met>[^|]*?) \|$", re.MULTILINE)
TEST = re.compile(r"`(\w+\.py)::(\w+)`")


def rows() -> dict[str, str]:
    """Where a client meets each fault, by the fault."""
    return {row["fault"]: row["met"] for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}


def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / "clients" / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_line_of_a_table_is_read_as_a_row() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    headings = [line for line in lines if line.startswith(("|---", "| fault |"))]
    assert len(rows()) == len(lines) - len(headings) > 80


@pytest.mark.parametrize("fault", rows())
def test_the_tests_that_a_row_names_exist(fault: str) -> None:
    """A row without a test says that it is open, or which part of the protocol it waits for."""
    met = rows()[fault]
    named = TEST.findall(met)
    assert named or met == "open" or met.startswith("later: ")
    assert [f"{file}::{test}" for file, test in named if test not in names_in(file)] == []

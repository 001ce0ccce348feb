"""The reference of what `kmini doctor` finds: its table of findings, and the tests that plant each."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from markdown_page import NOTE, table

from kmini.doctor.findings import FINDINGS

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests/doctor", "tests/oracle")
"""The folders of the tests: every file of the first, and those named after doctor of the second."""

INTRODUCTION = """\
# Findings of kmini doctor

What [`kmini doctor`](../doctor.md) can find, in the order of its checks. `--format json` has these names. The tests
plant each on kmini, and those of `oracle/` on Apache Kafka.

"""


def findings_page() -> str:
    """The page as text."""
    tests = tests_of_findings()
    rows = (
        (kind.check, kind.level, f"`{name}`", kind.meaning, ", ".join(f"`{test}`" for test in tests[name]))
        for name, kind in FINDINGS.items()
    )
    return NOTE + INTRODUCTION + table(("check", "level", "finding", "when", "tests"), rows)


def tests_of_findings() -> dict[str, list[str]]:
    """The tests that name each finding, as `file::test`."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in _files():
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test_"):
                for name in {node.value for node in ast.walk(function) if isinstance(node, ast.Constant)} & {*FINDINGS}:
                    found[name].append(f"{path.relative_to(ROOT / 'tests').as_posix()}::{function.name}")
    return found


def _files() -> list[Path]:
    mirrored, oracle = (ROOT / folder for folder in TESTS)
    return sorted([*mirrored.glob("test_*.py"), *oracle.glob("test_doctor*.py")])

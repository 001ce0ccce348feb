"""What CONTRIBUTING.md promises: the sizes of files, functions and import cycles.

Each rule about sizes has a table of what breaks it today, with the value of today. A value may fall, and never rises;
a line whose file or function keeps the rule by now, or is gone, fails and has to be removed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from support.source_tree import ROOT, Module, cycles, functions, imported_by, imports, modules, text

MOST_LINES = 450
"""Lines that a module or a test file may have."""
MOST_LINES_OF_A_FUNCTION = 60
LARGEST_CYCLE = 9
"""Modules that may import each other in a circle; imports in functions and for annotations count."""

TABLES = {
    "protocol/errors.py",  # a line for each error code of Kafka
    "broker/settings/broker_config.py",  # a line for each setting
}
"""Modules that are one long table each, and may have any number of lines."""

LONG_MODULES: dict[str, int] = {}

LONG_TESTS: dict[str, int] = {}

LONG_FUNCTIONS: dict[str, int] = {}

LARGE_CYCLES: dict[str, int] = {}
"""A module of each larger cycle, and how many modules the cycle has."""


def check(found: Mapping[str, int], allowed: Mapping[str, int]) -> None:
    """`found` names all that is over the limit."""
    over = {name: value for name, value in found.items() if value > allowed.get(name, 0)}
    assert over == {}
    assert sorted(allowed.keys() - found.keys()) == []  # stale lines


def test_no_module_is_longer_than_a_reader_keeps_in_mind() -> None:
    sizes = {each.path: each.lines for each in modules() if each.path not in TABLES}
    check({path: lines for path, lines in sizes.items() if lines > MOST_LINES}, LONG_MODULES)


def test_no_test_file_is_longer_than_a_reader_keeps_in_mind() -> None:
    paths = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")]
    sizes = {path: len(text(path).splitlines()) for path in paths}
    check({path: lines for path, lines in sizes.items() if lines > MOST_LINES}, LONG_TESTS)


@pytest.mark.parametrize("path", sorted(TABLES))
def test_every_table_that_may_be_long_is_long(path: str) -> None:
    assert len(text(path).splitlines()) > MOST_LINES


def test_no_function_is_longer_than_a_screen() -> None:
    check({each.name: each.lines for each in functions() if each.lines > MOST_LINES_OF_A_FUNCTION}, LONG_FUNCTIONS)


def test_no_import_cycle_is_larger_than_a_room() -> None:
    large = [group for group in cycles(imports()) if len(group) > LARGEST_CYCLE]
    named = {name: len(group) for group in large for name in LARGE_CYCLES if name in group}
    unnamed = [sorted(group) for group in large if not group & LARGE_CYCLES.keys()]
    assert unnamed == []
    check(named, LARGE_CYCLES)


def test_imports_in_functions_for_annotations_and_of_modules_from_packages_count() -> None:
    source = ast.parse(
        """
from . import near
from ..client import Client
if TYPE_CHECKING:
    from .rooms import table
def late():
    import kmini.far.below as below
"""
    )
    names = {"kmini.broker", "kmini.broker.near", "kmini.client", "kmini.broker.rooms", "kmini.far", "kmini.other"}
    module = Module("kmini.broker.here", "broker/here.py", is_package=False)
    assert imported_by(module, source, names) == names - {"kmini.broker", "kmini.other"}


def test_a_cycle_is_a_group_of_modules_that_reach_each_other() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert cycles(graph) == [{"a", "b", "c"}, {"d", "e"}]

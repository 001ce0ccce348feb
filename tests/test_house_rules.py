"""There is one way to wait, and no sleeps: tests wait for conditions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.source_tree import ROOT, syntax, text

SLEEPS = {
    "tests/support/until.py": "it waits for the conditions of all others",
    "tests/support/broker/chaos/actor.py": "clients act at random moments of a history",
    "tests/support/broker/chaos/record_actors.py": "clients act at random moments of a history",
    "tests/support/broker/chaos/nemesis.py": "trouble comes at random moments of a history, and lasts for some",
    "tests/broker/replication/test_fetcher.py": "a connection that takes forever, until it is cancelled",
    "tests/clients/test_exactly_once.py": "instances run for a time, and are watched meanwhile",
    "tests/support/group_members.py": "a process that failed writes its stack, before the test fails",
    "tests/pipeline/test_examples.py": "a driver is fed and watched in one loop, which has a deadline",
}
"""Test files that sleep, and why that is no guess how long something else takes."""


def files_with(word: str) -> Iterator[str]:
    """The test files that contain a word, which spares parsing the others."""
    for file in sorted((ROOT / "tests").rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if word in text(path):
            yield path


def test_tests_wait_for_conditions_and_do_not_sleep() -> None:
    """`asyncio.sleep(0)` only lets other tasks have their turn."""
    sleeping = {
        path
        for path in files_with("sleep(")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        if ast.unparse(node.args[0]) != "0"
    }
    assert sleeping == SLEEPS.keys()


def test_there_is_one_way_to_wait_for_a_condition() -> None:
    found = [
        f"{path}: {node.name}"
        for name in ("def until", "def eventually")
        for path in files_with(name)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name in ("until", "until_async", "eventually")
    ]
    assert found == ["tests/support/until.py: until", "tests/support/until.py: until_async"]

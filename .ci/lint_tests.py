"""Rules for tests that a busy machine does not break: `python .ci/lint_tests.py` prints each place that breaks one.

- Threads are compared as `support.own_threads` does, because those of client libraries end when they like.
- No upper bound by the wall clock below a minute; what a wait ended by is said by the journal, an error or an object.
- In tests of clients, of commands and against Apache Kafka no time-out below 5 s, unless the line, or the one above it,
  says `# short: <reason>`. Those of polls may be short, and 0 waits for nothing.
- Tests wait for conditions, with `until` or `until_async` of `support.until`, and do not sleep.
- A test that tests/flaky.tsv names twice is mended (its last column says how), or is in tests/quarantine.tsv: for a
  week, counted up to the last commit, and with nine others at most.
"""

from __future__ import annotations

import ast
import csv
import datetime
import io
import itertools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"

SLEEPS = {
    "tests/support/until.py": "it waits for the conditions of all others",
    "tests/broker/replication/test_fetcher.py": "a connection that takes forever, until it is cancelled",
    "tests/clients/test_exactly_once.py": "instances run for a time, and are watched meanwhile",
    "tests/support/group_members.py": "a process that failed writes its stack, before the test fails",
}
"""Test files that sleep, and why that is no guess how long something else takes."""

WAITS = {"until", "until_async", "eventually"}

CLOCKS = {"monotonic", "perf_counter", "time"}
LEAST_BOUND_S = 60
SIMULATED = ("tests/simulation/", "tests/support/simulation/")
"""The folders in which time is simulated: nothing else passes while something sleeps."""
MEASURED = "tests/fuzz/"
"""The folder whose tests measure, on a quiet machine."""

WITH_CLIENTS = ("tests/clients/", "tests/cli/", "tests/oracle/")
LEAST_TIMEOUT_S = 5
POLLS = {"poll", "getmany", "consume"}
REASON = re.compile(r"# short: \S")

SUSPECT = re.compile(
    r"active_count|sleep\(|def (?:until|eventually)|(?:monotonic|perf_counter|time)\(\) - |timeout|max.block"
)
"""What a file has that breaks a rule; to parse the others would take seconds."""

Found = Iterator[tuple[int, str]]


def threads(node: ast.AST) -> Found:
    if isinstance(node, ast.Attribute) and node.attr == "active_count":
        yield node.lineno, "active_count also counts threads of client libraries: use support.own_threads"


def wall_clock(node: ast.AST) -> Found:
    """A difference of clocks that has to be less than a small number, in seconds."""
    if not isinstance(node, ast.Assert):
        return
    for compared in ast.walk(node.test):
        match compared:
            case ast.Compare(
                ast.BinOp(op=ast.Sub()) as taken, [ast.Lt() | ast.LtE()], [ast.Constant(int() | float() as most)]
            ):
                calls = (each.func for each in ast.walk(taken) if isinstance(each, ast.Call))
                if most < LEAST_BOUND_S and any(isinstance(of, ast.Attribute) and of.attr in CLOCKS for of in calls):
                    yield node.lineno, f"a bound by the wall clock below {LEAST_BOUND_S} s: a busy machine breaks it"


def timeouts(node: ast.AST) -> Found:
    for name, value in _settings(node):
        words = re.split(r"[._-]+", name.strip("-"))
        if "min" in words or not ("timeout" in words or words[:2] == ["max", "block"]):
            continue
        try:
            number = float(ast.literal_eval(value)) / (1000 if words[-1] == "ms" else 1)
        except (ValueError, TypeError):  # computed, or none
            continue
        if 0 < number < LEAST_TIMEOUT_S:
            yield (
                value.lineno,
                f"{name} is below {LEAST_TIMEOUT_S} s: say `# short: <reason>`, or give a busy machine time",
            )


def _settings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Keywords and items of dicts, and options of commands with the argument that follows."""
    following: list[ast.expr] = []
    match node:
        case ast.Call(ast.Attribute(attr=name)) if name in POLLS:
            return
        case ast.Call(args=following, keywords=keywords):
            yield from ((keyword.arg, keyword.value) for keyword in keywords if keyword.arg)
        case ast.List(following) | ast.Tuple(following):
            pass
        case ast.Dict(keys, values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), value
    for option, value in itertools.pairwise(following):
        if isinstance(option, ast.Constant) and str(option.value).startswith("--"):
            yield str(option.value), value


def sleeps(node: ast.AST) -> Found:
    """`asyncio.sleep(0)` only lets other tasks have their turn."""
    match node:
        case ast.Call(ast.Attribute(ast.Name("time" | "asyncio"), "sleep"), [ast.Constant(0)]):
            return
        case ast.Call(ast.Attribute(ast.Name("time" | "asyncio"), "sleep")):
            yield node.lineno, "tests wait for conditions (support.until) and do not sleep"


def own_waits(node: ast.AST) -> Found:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in WAITS:
            yield node.lineno, f"{name} is another way to wait: use support.until"


def broken(path: str, text: str) -> Found:
    """The lines of a file that break a rule."""
    lines = ["", *text.splitlines()]
    has_slept = False
    for node in ast.walk(ast.parse(text)):
        yield from threads(node)
        if not path.startswith(MEASURED):
            yield from wall_clock(node)
        if path != "tests/support/until.py":
            yield from own_waits(node)
        if path.startswith(WITH_CLIENTS):
            for line, sentence in timeouts(node):
                if not REASON.search(lines[line - 1] + lines[line]):
                    yield line, sentence
        for line, sentence in () if path.startswith(SIMULATED) else sleeps(node):
            has_slept = True
            if path not in SLEEPS:
                yield line, sentence
    if path in SLEEPS and not has_slept:
        yield 1, "it does not sleep: take it out of SLEEPS in .ci/lint_tests.py"


LONGEST_QUARANTINE = 10
QUARANTINE_DAYS = 7


def luck(flaky: str, quarantine: str, today: datetime.date) -> Iterator[str]:
    """What is wrong with the two tables of tests that fail by luck, given as their text."""
    excused = list(csv.DictReader(io.StringIO(quarantine), delimiter="\t"))
    rows = csv.DictReader(io.StringIO(flaky), delimiter="\t")
    for test, times in Counter(row["test"] for row in rows if not row["mended"]).items():
        if times > 1 and all(test != row["test"] for row in excused):
            yield f"tests/flaky.tsv: {test} was flaky {times} times: mend it, or put it into tests/quarantine.tsv"
    if len(excused) > LONGEST_QUARANTINE:
        yield f"tests/quarantine.tsv: {len(excused)} tests, and there may be {LONGEST_QUARANTINE}"
    for row in excused:
        if today > datetime.date.fromisoformat(row["since"]) + datetime.timedelta(QUARANTINE_DAYS):
            yield f"tests/quarantine.tsv: {row['test']} is there since {row['since']}: mend it"


def day_of_last_commit() -> datetime.date:
    """So that a tree which passes today passes for ever. Today, where git does not know."""
    command = ["git", "log", "-1", "--format=%cs"]
    day = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return datetime.date.fromisoformat(day) if day else datetime.date.today()


def main() -> int:
    files = {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in sorted(TESTS.rglob("*.py"))
    }
    found = [
        f"{path}:{line}: {sentence}"
        for path, text in files.items()
        if path in SLEEPS or SUSPECT.search(text)
        for line, sentence in sorted(broken(path, text))
    ]
    found += [f"{path}:1: it is gone: take it out of SLEEPS in .ci/lint_tests.py" for path in SLEEPS.keys() - files]
    tables = [(TESTS / name).read_text(encoding="utf-8") for name in ("flaky.tsv", "quarantine.tsv")]
    found += luck(*tables, day_of_last_commit())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a run of the suite forgives, and what it does not."""

from __future__ import annotations

import datetime
import importlib.util
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import run

from support.stages import ROOT, SHARDS, Shard, stage_of, stages_in

pytestmark = pytest.mark.sockets

SHARD = Shard("some", ("tests/some",))


def outcome(*failed: str, passed: int = 1, unforgiven: str | None = None, broken: str | None = None) -> run.Outcome:
    failures = [run.Failure(test, "assert 1 == 2", unforgiven, SHARD) for test in failed]
    return run.Outcome(passed, 0, failures, "1 passed", {}, broken)


@pytest.fixture
def a_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str]]]:
    """The exit code and the lines of a run whose only shard ends like `first`, and each second run like the next."""

    def perform(first: run.Outcome, *second: run.Outcome, stage: str = "sockets", excused: str = "") -> Any:
        outcomes = iter([first, *second])
        monkeypatch.setattr(run, "run_pytest", lambda *_: next(outcomes))
        monkeypatch.setitem(run.SHARDS, stage, (SHARD,))
        monkeypatch.setattr(run, "quarantined", lambda: {excused})
        code = run.run([stage], [])
        assert next(outcomes, None) is None, "a second run was not made"
        return code, capsys.readouterr().out.splitlines()

    return perform


@pytest.fixture
def lint_tests() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lint_tests", ROOT / ".ci" / "lint_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def results(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """What the plugin writes about a suite of one file: its lines about tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))

    def of(source: str, *arguments: str) -> list[dict[str, Any]]:
        file = pytester.makepyfile(source)
        pytester.makeini("[pytest]\nmarkers =\n  certain\n  sockets\n  promise\n")
        written = pytester.path / "results.jsonl"
        command = ("-p", "support.stage_plugin", "--results", str(written), "-p", "no:randomly", *arguments)
        pytester.runpytest_subprocess(*command, str(file))
        lines = [json.loads(line) for line in written.read_text().splitlines()]
        assert "ended" in lines[-1]
        return [line for line in lines if "test" in line]

    return of


def test_a_failure_that_does_not_come_again_is_flaky_and_the_last_lines_say_so(a_run: Any) -> None:
    code, lines = a_run(outcome("tests/a.py::test_a", passed=7), outcome(passed=1))
    assert code == 0
    assert lines[-2].endswith("1 flaky: tests/a.py::test_a")
    assert lines[-1] == "8 passed, 0 failed, 0 skipped"
    assert any(line.endswith("?\ttests/a.py::test_a\tassert 1 == 2\t") for line in lines)


def test_a_failure_that_comes_again_is_one(a_run: Any) -> None:
    code, lines = a_run(outcome("tests/a.py::test_a"), outcome("tests/a.py::test_a", passed=0))
    assert code == 1
    assert lines[-1] == "1 passed, 1 failed, 0 skipped"


def test_what_is_not_forgiven_does_not_run_again(a_run: Any) -> None:
    assert a_run(outcome("tests/a.py::test_a", unforgiven="it is a promise"))[0] == 1


def test_more_than_three_failures_are_no_luck(a_run: Any) -> None:
    assert a_run(outcome(*(f"tests/a.py::test_{number}" for number in range(4))))[0] == 1


def test_a_process_that_ended_amid_its_tests_is_no_luck(a_run: Any) -> None:
    code, lines = a_run(outcome(broken="exit -9, amid tests/a.py::test_a"))
    assert code == 1
    assert "BROKEN sockets: exit -9, amid tests/a.py::test_a" in lines


def test_a_test_in_quarantine_fails_no_run(a_run: Any) -> None:
    code, lines = a_run(outcome("tests/a.py::test_a"), excused="tests/a.py::test_a")
    assert code == 0
    assert "in quarantine, so not counted: tests/a.py::test_a: assert 1 == 2" in lines


def test_a_run_without_a_test_is_no_green_one(a_run: Any) -> None:
    assert a_run(outcome(passed=0))[0] == 1


def test_the_plugin_tells_luck_from_what_is_not_forgiven(results: Any) -> None:
    told = results(
        """
import logging, pytest, time

@pytest.mark.sockets
def test_luck():
    assert 1 == 2

@pytest.mark.sockets
@pytest.mark.promise
def test_promise():
    assert 1 == 2

@pytest.mark.sockets
def test_error():
    logging.getLogger("kmini.storage").error("the disk is full")
    assert 1 == 2

@pytest.mark.sockets
@pytest.mark.timeout(0.1)
def test_hang():
    while True:
        time.sleep(0.01)

@pytest.mark.certain
def test_certain():
    assert 1 == 2
"""
    )
    assert {line["test"].rpartition("_")[2]: line["unforgiven"] for line in told} == {
        "luck": None,
        "promise": "it is a promise",
        "error": "the broker logged an error",
        "hang": "it hangs",
        "certain": "it is certain",
    }
    assert told[0]["error"] == "assert 1 == 2"


@pytest.mark.parametrize(
    "act",
    [
        "socket.create_connection(('127.0.0.1', 9))",
        "subprocess.run(['true'])",
        "threading.Thread(target=print).start()",
        "time.sleep(0)",
    ],
)
def test_a_certain_test_that_does_what_luck_decides_fails_even_if_it_catches_the_error(results: Any, act: str) -> None:
    (told,) = results(
        f"""
import pytest, socket, subprocess, threading, time

@pytest.mark.certain
def test_it():
    try:
        {act}
    except Exception:
        pass
"""
    )
    assert told["outcome"] == "failed"
    assert told["error"].startswith("a test of the certain stage ")


def test_what_a_thread_of_an_earlier_test_does_is_not_held_against_a_certain_one(results: Any) -> None:
    told = results(
        """
import pytest, threading, time

sleeps, slept = threading.Event(), threading.Event()

def sleep():
    sleeps.wait()
    time.sleep(0)
    slept.set()

@pytest.mark.sockets
def test_one():
    threading.Thread(target=sleep, daemon=True).start()

@pytest.mark.certain
def test_other():
    sleeps.set()
    assert slept.wait(30)
"""
    )
    assert [line["outcome"] for line in told] == ["passed", "passed"]


def test_what_ends_with_the_last_test_of_several_stages_is_not_held_against_it(results: Any) -> None:
    source = """
import pytest, time

@pytest.fixture(scope="session")
def server():
    yield
    time.sleep(0)

@pytest.mark.sockets
def test_one(server): pass

@pytest.mark.certain
def test_other(): pass
"""
    assert [line["outcome"] for line in results(source)] == ["passed", "passed"]


def test_a_stage_runs_its_tests_alone(results: Any) -> None:
    source = "import pytest\n\n@pytest.mark.{}\ndef test_{}(): pass\n"
    told = results(source.format("certain", "one") + source.format("sockets", "other"), "--stage", "sockets")
    assert [line["test"].rpartition("::")[2] for line in told] == ["test_other"]


def test_the_mark_of_a_test_counts_before_that_of_its_module_and_both_before_fixtures() -> None:
    assert stage_of("tests/broker/test_a.py::test_a", ["sockets", "certain"], ["java"]) == "sockets"
    assert stage_of("tests/broker/test_a.py::test_a", ["oracle"], ["java"]) == "programs"
    assert stage_of("tests/broker/test_a.py::test_a", [], []) == "certain"


def test_every_test_file_is_in_the_shards_of_each_of_its_stages() -> None:
    """And in one alone, so that no test is forgotten or runs twice."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        for stage in stages_in(path):
            shards = [shard.name for shard in SHARDS[stage] if _has(shard, path.relative_to(ROOT).as_posix())]
            assert len(shards) == 1, f"{path} in the stage {stage}: {shards}"


def test_a_shard_that_measures_runs_after_the_others_with_none_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = [SHARD._replace(name="measures", alone=True), SHARD, SHARD, SHARD._replace(name="also", alone=True)]
    began: list[str] = []
    ended: list[str] = []

    def run_pytest(stage: str, shard: Shard, *_: object) -> run.Outcome:
        if shard.alone:
            assert len(ended) == len(began) >= 2, "another one is running, or to run"
        began.append(shard.name)
        ended.append(shard.name)
        return outcome()

    monkeypatch.setattr(run, "run_pytest", run_pytest)
    monkeypatch.setitem(run.SHARDS, "sockets", tuple(shards))
    run.run_stage("sockets", [])
    assert ended == [SHARD.name, SHARD.name, "measures", "also"]


def _has(shard: Shard, path: str) -> bool:
    def is_below(folders: tuple[str, ...]) -> bool:
        return any(f"{path}/".startswith(f"{folder}/") for folder in folders)

    return is_below(shard.paths) and not is_below(shard.without)


DAY = datetime.date(2026, 11, 24)
FLAKY = "date\tcommit\tclass\ttest\terror\tmended\n"
QUARANTINE = "test\tsince\treason\n"


@pytest.mark.parametrize(
    ("flaky", "quarantine", "finding"),
    [
        ("2026-11-23\tabc\td\tt\te\t\n", "", None),
        ("2026-11-23\tabc\td\tt\te\t\n" * 2, "", "t was flaky 2 times"),
        ("2026-11-23\tabc\td\tt\te\t\n2026-11-22\tabd\td\tt\te\twaits now\n", "", None),
        ("2026-11-23\tabc\td\tt\te\t\n" * 2, "t\t2026-11-17\tunknown\n", None),
        ("", "t\t2026-11-16\tunknown\n", "there since 2026-11-16"),
        ("", "t\t2026-11-17\tunknown\n" * 11, "11 tests, and there may be 10"),
    ],
)
def test_a_test_that_is_flaky_twice_is_mended_or_for_a_week_in_quarantine(
    lint_tests: ModuleType, flaky: str, quarantine: str, finding: str | None
) -> None:
    found = list(lint_tests.luck(FLAKY + flaky, QUARANTINE + quarantine, DAY))
    assert len(found) == (finding is not None), found
    assert finding is None or finding in found[0]

"""Run the suite in stages, and say in one closing line what came of it.

    python tests/run.py                           # certain, sockets, programs: what `make test` runs
    python tests/run.py certain sockets           # these stages
    python tests/run.py --hammer tests/cli/…      # these files twenty times, beside busy processes
    python tests/run.py certain -- -k cleaner     # what follows `--` goes to pytest

A stage is cut into shards (`support/stages.py`), and each of a few lanes runs one shard after the other, in a process
of its own. A test of the last two stages that failed runs once more, alone, in a new process. If it passes it is flaky:
the closing line says so, with a line for tests/flaky.tsv. Not forgiven are a promise, a broker that logged an error, a
test that hangs, and more than three flaky tests in a run.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from support.stages import ROOT, SHARDS, STAGES, Shard, lanes

MOST_FLAKY = 3
"""Flaky tests that a green run may have."""
NO_TESTS = 5
"""How pytest exits where the arguments leave it none."""
HAMMERED = 20
SLOWEST = 10
QUARANTINE = ROOT / "tests" / "quarantine.tsv"


class Failure(NamedTuple):
    test: str
    error: str
    unforgiven: str | None
    """Why it does not run once more."""
    shard: Shard


class Outcome(NamedTuple):
    """What one process of pytest did."""

    passed: int
    skipped: int
    failures: list[Failure]
    output: str
    durations_s: dict[str, float]
    broken: str | None
    """What kept the process from running all its tests, or failed beside them."""

    @property
    def closing_line(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip("= ") if lines else "no output"


def run_pytest(stage: str, shard: Shard, tests: Sequence[str], arguments: Sequence[str], patience: int) -> Outcome:
    """Run tests of one stage in a new process, with the order and the random numbers that the tree gives."""
    env = {**os.environ, **dict(shard.env), "KMINI_PATIENCE": str(patience)}
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results.jsonl"
        command = [sys.executable, "-m", "pytest", "-q", "--stage", stage, "--results", str(results), *seed(stage)]
        command += [f"--ignore={path}" for path in shard.without]
        try:
            done = subprocess.run(
                [*command, *arguments, *tests],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=shard.timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
            return _outcome(shard, results, output, f"not done after {shard.timeout_s} s")
        is_done = done.returncode in (0, 1, NO_TESTS)
        return _outcome(shard, results, done.stdout, None if is_done else f"exit {done.returncode}")


def _outcome(shard: Shard, results: Path, output: str, broken: str | None) -> Outcome:
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    tests = [line for line in lines if "test" in line]
    if lines and "ended" not in lines[-1]:
        broken = f"{broken or 'the process ended'}, amid {lines[-1].get('began', 'its tests')}"
    failures = [
        Failure(line["test"], line["error"], line["unforgiven"], shard) for line in tests if line["outcome"] == "failed"
    ]
    if not failures and broken is None and (not lines or lines[-1]["ended"] not in (0, NO_TESTS)):
        broken = "pytest failed beside its tests"
    count = {what: sum(line["outcome"] == what for line in tests) for what in ("passed", "skipped")}
    durations_s = {line["test"]: line["duration_s"] for line in tests}
    return Outcome(count["passed"], count["skipped"], failures, output, durations_s, broken)


def seed(stage: str) -> list[str]:
    """The options that make two runs of a tree alike. What `make soak` draws differs each time, and pytest says it."""
    if stage == "soak":
        return []
    number = zlib.crc32(git("rev-parse", "HEAD^{tree}").encode())
    return [f"--randomly-seed={number}", f"--kafka-seed={number}"]


def git(*arguments: str) -> str:
    """What git says; nothing where there is none."""
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def run_stage(stage: str, arguments: Sequence[str]) -> list[Outcome]:
    """Run the shards of a stage, side by side in its lanes, and then those that measure, one by one; print a line for
    each, and the output of what failed."""
    outcomes: list[Outcome] = []
    printing = threading.Lock()

    def lane(waiting: queue.SimpleQueue[Shard], count: int) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                shard = waiting.get_nowait()
                outcome = run_pytest(stage, shard, shard.paths, arguments, 5 if count > 1 else 1)
                with printing:
                    outcomes.append(outcome)
                    if outcome.failures or outcome.broken:
                        print(outcome.output)
                    print(f"{stage} {shard.name}: {outcome.broken or outcome.closing_line}", flush=True)

    for alone, count in ((False, lanes(stage)), (True, 1)):
        waiting: queue.SimpleQueue[Shard] = queue.SimpleQueue()
        for shard in SHARDS[stage]:
            if shard.alone == alone:
                waiting.put(shard)
        threads = [threading.Thread(target=lane, args=(waiting, count)) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return outcomes


def judge(stage: str, failures: list[Failure], arguments: Sequence[str]) -> tuple[list[Failure], list[Failure]]:
    """What is red and what is flaky: each failure that may be luck runs once more, unless there are too many."""
    hopeful = [failure for failure in failures if failure.unforgiven is None]
    if len(hopeful) > MOST_FLAKY:
        return failures, []
    red = [failure for failure in failures if failure.unforgiven]
    for failure in red:
        print(f"{failure.test} does not run again: {failure.unforgiven}")
    flaky = []
    for failure in hopeful:
        print(f"once more, alone: {failure.test}", flush=True)
        again = run_pytest(stage, failure.shard, [failure.test], arguments, 1)
        if again.passed and not again.failures and not again.broken:
            flaky.append(failure)
        else:
            print(again.output)
            red.append(failure)
    return red, flaky


def slowest(outcomes: list[Outcome]) -> list[tuple[float, str]]:
    """The tests of a stage that took the longest, with what they set up, in seconds."""
    durations_s = [(each, test) for outcome in outcomes for test, each in outcome.durations_s.items()]
    return sorted(durations_s, reverse=True)[:SLOWEST]


def quarantined() -> set[str]:
    with QUARANTINE.open(encoding="utf-8", newline="") as file:
        return {row["test"] for row in csv.DictReader(file, delimiter="\t")}


def run(stages: Sequence[str], arguments: Sequence[str]) -> int:
    began = time.monotonic()
    passed = skipped = 0
    red: list[Failure] = []
    flaky: list[Failure] = []
    broken: list[str] = []
    excused = quarantined()
    for stage in stages:
        stage_began = time.monotonic()
        outcomes = run_stage(stage, arguments)
        passed += sum(outcome.passed for outcome in outcomes)
        skipped += sum(outcome.skipped for outcome in outcomes)
        broken += [f"{stage}: {outcome.broken}" for outcome in outcomes if outcome.broken]
        failures = [failure for outcome in outcomes for failure in outcome.failures]
        for failure in failures:
            if failure.test in excused:
                print(f"in quarantine, so not counted: {failure.test}: {failure.error}")
        newly_red, newly_flaky = judge(stage, [each for each in failures if each.test not in excused], arguments)
        red += newly_red
        flaky += newly_flaky
        for duration_s, test in slowest(outcomes):
            print(f"{duration_s:6.1f} s {test}")
        print(f"== {stage}: {time.monotonic() - stage_began:.0f} s", flush=True)
    if len(flaky) > MOST_FLAKY:
        red, flaky = [*red, *flaky], []
    passed += len(flaky)
    for line in broken:
        print(f"BROKEN {line}")
    for failure in red:
        print(f"FAILED {failure.test}: {failure.error}")
    if flaky:
        print("For tests/flaky.tsv, with the class of the cause:")
        today, commit = time.strftime("%Y-%m-%d"), git("rev-parse", "--short", "HEAD").strip()
        for failure in flaky:
            print("\t".join((today, commit, "?", failure.test, failure.error, "")))
    failed = len(red) + len(broken)
    names = f", {len(flaky)} flaky: {', '.join(failure.test for failure in flaky)}" if flaky else ""
    print(f"{time.monotonic() - began:.0f} s{names}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if red or broken or not passed else 0


@contextlib.contextmanager
def busy_processes() -> Iterator[None]:
    """Twice as many as there are processors, so that every wait in a test is a long one."""
    count = 2 * (os.cpu_count() or 1)
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def hammer(files: Sequence[str], arguments: Sequence[str]) -> int:
    """Run files again and again, each time in another order and beside busy processes; the exit code."""
    with busy_processes():
        for number in range(HAMMERED):
            command = [sys.executable, "-m", "pytest", "-q", f"--randomly-seed={number}", *arguments, *files]
            if code := subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode:
                print(f"run {number + 1} of {HAMMERED} failed, with --randomly-seed={number}")
                return code
    print(f"{HAMMERED} runs passed")
    return 0


def main() -> int:
    # Hundreds of processes would compile the tree each, where the environment says not to keep bytecode.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument(
        "--hammer", nargs="+", metavar="FILE", help="run these files twenty times beside busy processes"
    )
    own, further = _divided(sys.argv[1:])
    options = parser.parse_args(own)
    if unknown := set(options.stages) - set(STAGES):
        parser.error(f"no stage {', '.join(sorted(unknown))}: there are {', '.join(STAGES)}")
    if options.hammer:
        return hammer(options.hammer, further)
    return run(options.stages or [stage for stage in STAGES if stage != "soak"], further)


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those for pytest."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:place], arguments[place + 1 :]


if __name__ == "__main__":
    sys.exit(main())

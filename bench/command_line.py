"""Lines in and out of a broker: `kmini produce` and `kmini consume`, beside another commit's and beside kcat.

python bench/command_line.py --before PATH    PATH is a checkout of another commit, with its kernels compiled:
                                              git worktree add PATH COMMIT; cd PATH; python setup.py build_ext --inplace

The commands take turns, so that all see the same minute; a ratio is the median of the rounds' own ratios, each to the
command before the change in the same round. Start-up of the command is part of every figure. The broker is of this
commit, and one for all. Prints a Markdown table: thousand lines a second (median), processor seconds of the command,
and the ratio. kcat is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from kmini import Broker


class Command(NamedTuple):
    """A command line, and the file that it reads from stdin if it reads one."""

    words: list[str]
    stdin: Path | None = None
    environment: dict[str, str] | None = None


class Timing(NamedTuple):
    """The times of a run of a command, in seconds."""

    elapsed: float
    processor: float


def run(command: Command) -> Timing:
    began = time.perf_counter()
    with open(command.stdin or os.devnull, "rb") as stdin:
        environment = {**os.environ, **(command.environment or {})}
        process = subprocess.Popen(
            command.words, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
        )
        assert process.stderr is not None
        said = process.stderr.read()
        process.stderr.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command.words)}: {said.decode()}")
    return Timing(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)


def write_lines(path: Path, count: int) -> None:
    """Lines of a key and an object of JSON, 89 bytes on average where there are a million."""
    chance = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        for number in range(count):
            amount = chance.randrange(10_000)
            file.write(f'k{number % 1000}:{{"id": {number}, "name": "customer {number}", "amount": {amount}, ')
            file.write('"note": "abcdefghijklmnop"}\n')


def commands(address: str, lines: Path, before: Path) -> dict[str, dict[str, Command]]:
    """By what they do, and by program. Each produces into a topic of its own; all consume the same one."""
    python = [sys.executable, "-m", "kmini"]
    programs = {"before": {"PYTHONPATH": str(before / ".typing")}, "now": {}}
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    table: dict[str, dict[str, Command]] = {}
    for what, options, kcat_options in (
        ("produce", [], []),
        ("produce, with keys", ["-K", ":"], ["-K", ":"]),
        ("produce, with keys to 4 partitions", ["-K", ":"], ["-K", ":"]),
    ):
        topic = "four" if "4" in what else "one"
        words = ["produce", f"in-{topic}", "-b", address, "--file", str(lines), *options]
        table[what] = {name: Command([*python, *words], None, at) for name, at in programs.items()}
        if kcat:
            table[what]["kcat"] = Command([kcat, "-P", "-b", address, "-t", f"in-{topic}", *kcat_options], lines)
    for what, options, kcat_options in (
        ("consume", [], []),
        ("consume, with keys", ["-K", ":"], ["-K", ":"]),
        ("consume as JSON", ["--format", "json"], ["-J"]),
    ):
        words = ["consume", "out", "-b", address, *options]
        table[what] = {name: Command([*python, *words], None, at) for name, at in programs.items()}
        if kcat:
            table[what]["kcat"] = Command([kcat, "-C", "-q", "-e", "-b", address, "-t", "out", *kcat_options])
    return table


def measure(commands: dict[str, Command], rounds: int) -> dict[str, list[Timing]]:
    """Timings by program; the order changes with each round."""
    timings: dict[str, list[Timing]] = {name: [] for name in commands}
    for number in range(rounds):
        names = list(commands) if number % 2 else list(reversed(commands))
        for name in names:
            timings[name].append(run(commands[name]))
    return timings


def row(what: str, timings: dict[str, list[Timing]], count: int) -> str:
    cells = [what]
    for name in ("before", "now", "kcat"):
        if name not in timings:
            cells.append("")
            continue
        rate = count / statistics.median(one.elapsed for one in timings[name]) / 1000
        processor = statistics.median(one.processor for one in timings[name])
        cells.append(f"{rate:,.0f} ({processor:.2f} s)")
    pairs = zip(timings["before"], timings["now"], strict=True)
    cells.append(f"{statistics.median(before.elapsed / now.elapsed for before, now in pairs):.1f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the commit to compare with")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        lines = Path(directory) / "lines"
        write_lines(lines, arguments.lines)
        data_dir = Path(directory) / "data"
        with Broker(data_dir=data_dir, topics={"in-one": 1, "in-four": 4, "out": 1}) as broker:
            address = broker.bootstrap_servers
            run(Command([sys.executable, "-m", "kmini", *f"produce out -K : -b {address} --file {lines}".split()]))
            print("| thousand lines a second (processor time) | before | now | kcat | now to before |")
            print("|---|---:|---:|---:|---:|")
            for what, some in commands(address, lines, arguments.before.resolve()).items():
                print(row(what, measure(some, arguments.rounds), arguments.lines), flush=True)


if __name__ == "__main__":
    main()

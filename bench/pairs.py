"""This commit beside another one, in turn: pairs.py --before PATH [--pairs 20] [part…]

PATH is a checkout of the other commit with its kernels compiled:
    git worktree add PATH COMMIT; cd PATH; python setup.py build_ext --inplace

server    single records (acknowledged; end to end), bulk, and the processor time of the broker for all of it
start     from launching `kmini serve` to its first answer
kernel    `bench/kernel.py` of each commit, its compiled lines
cleaner   `bench/cleaner.py --alone` of each commit, processor time of a pass

The commits take turns, and the order changes with each pair, so that both see the same minute. A ratio is new to old,
so that below 1.00 is better; rates are turned over for that. Prints a Markdown table: the median of the ratios of all
pairs, and the interval that holds the true median with 95 % (of the sorted ratios, by the binomial distribution).
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from peers import ServerProcess, apache_kafka
from roundtrip import bulk, latencies

from support.server_process import PORT, answers

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 60
TICKS_S = os.sysconf("SC_CLK_TCK")

Figures = dict[str, float]
"""The times of one commit in one round, by measurement: less is better."""


def environment(checkout: Path) -> dict[str, str]:
    """The environment in which `import kmini` finds this checkout."""
    return {**os.environ, "PYTHONPATH": str(checkout / ".typing")}


def serve(checkout: Path, data_dir: Path) -> list[str]:
    words = [sys.executable, "-m", "kmini", "serve", "--port", PORT, "--data-dir", str(data_dir)]
    return ["env", f"PYTHONPATH={checkout / '.typing'}", *words]


def processor_s(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_S


class Servers:
    """A broker of each commit. Both run all the time, and one of them works."""

    def __init__(self, checkouts: list[Path], directory: Path) -> None:
        self._servers = {
            one: ServerProcess(serve(one, directory / f"{number}-data"), directory / f"{number}-log")
            for number, one in enumerate(checkouts)
        }

    def measure(self, checkout: Path) -> Figures:
        server = self._servers[checkout]
        began_s = processor_s(server.pid)
        run = time.time_ns()
        single = latencies(server.bootstrap_servers, f"single-{run}", 1_500)
        many = bulk(server.bootstrap_servers, f"bulk-{run}", 100, 200_000)
        return {
            "ack p50": single["ack_p50_us"],
            "end to end p50": single["e2e_p50_us"],
            "bulk produce, 100 bytes": 1 / many["produce_100_krec_s"],
            "bulk consume, 100 bytes": 1 / many["consume_100_krec_s"],
            "processor time of the broker": processor_s(server.pid) - began_s,
        }

    def close(self) -> None:
        for server in self._servers.values():
            server.kill()


def start(checkout: Path) -> Figures:
    """Seconds until a broker answers that was launched in an empty directory."""
    with tempfile.TemporaryDirectory(prefix="bench-pairs-") as directory:
        port = apache_kafka.free_port()
        words = [word.replace(PORT, str(port)) for word in serve(checkout, Path(directory) / "data")]
        began = time.perf_counter()
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not answers("127.0.0.1", port):
                if time.perf_counter() - began > START_TIMEOUT_S or process.poll() is not None:
                    process.kill()
                    sys.exit(f"does not answer: {' '.join(words)}")
                time.sleep(0.001)
            taken = time.perf_counter() - began
            process.terminate()
    return {"start": taken}


def printed(checkout: Path, script: str, *options: str) -> str:
    words = [sys.executable, str(checkout / "bench" / script), *options]
    done = subprocess.run(words, env=environment(checkout), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def kernel(checkout: Path) -> Figures:
    """Nanoseconds a record of each compiled line, first for 100 bytes a record, then for 1,000."""
    found: Figures = {}
    size = ""
    for line in printed(checkout, "kernel.py", "3000").splitlines():
        if heading := re.match(r"(\d+) bytes a record", line):
            size = heading[1]
        elif figures := re.match(r"  (\S.*?), compiled +([\d.]+)", line):
            found[f"kernel: {figures[1]}, {size} bytes"] = float(figures[2])
    return found


def cleaner(checkout: Path) -> Figures:
    """Seconds of processor time of a pass over 100-byte records."""
    options = ["--alone", "--scale", "0.2", "--rounds", "5", "--sizes", "100 B", "--codecs", "uncompressed"]
    line = printed(checkout, "cleaner.py", *options).splitlines()[-1]
    return {"cleaner, 100 bytes": float(line.split("|")[6].split()[0])}


def in_turn(measure: Callable[[Path], Figures], old: Path, new: Path, pairs: int) -> dict[str, list[float]]:
    """The ratios of new to old, by measurement. One pair before the first is not counted."""
    ratios: dict[str, list[float]] = {}
    for number in range(pairs + 1):
        order = (old, new) if number % 2 else (new, old)
        taken = {checkout: measure(checkout) for checkout in order}
        if number:
            for name in [name for name in taken[new] if name in taken[old]]:
                ratios.setdefault(name, []).append(taken[new][name] / taken[old][name])
    return ratios


def interval(ratios: list[float]) -> tuple[float, float]:
    """The pair of sorted ratios, equally far from both ends, that holds the true median with 95 %."""
    count, outside, below = len(ratios), 0.0, 0
    while outside + math.comb(count, below) / 2**count <= 0.025:
        outside += math.comb(count, below) / 2**count
        below += 1
    found = sorted(ratios)
    below = max(below - 1, 0)
    return found[below], found[count - 1 - below]


PARTS = ("server", "start", "kernel", "cleaner")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the commit to compare with")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    options = parser.parse_args()
    parts = options.parts or PARTS
    if unknown := {*parts} - {*PARTS}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    old = options.before.resolve()
    print("| new to old, below 1.00 is better | median | 95 % | pairs |")
    print("|---|---:|---:|---:|")
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="bench-pairs-") as directory:
            servers = Servers([old, ROOT], Path(directory)) if part == "server" else None
            measure = servers.measure if servers else {"start": start, "kernel": kernel, "cleaner": cleaner}[part]
            try:
                found = in_turn(measure, old, ROOT, options.pairs)
            finally:
                if servers:
                    servers.close()
        for name, ratios in found.items():
            low, high = interval(ratios)
            print(f"| {name} | {statistics.median(ratios):.3f} | {low:.3f} – {high:.3f} | {len(ratios)} |", flush=True)


if __name__ == "__main__":
    main()

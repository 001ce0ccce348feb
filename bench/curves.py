"""make curves: measure how the cost of a broker grows, write bench/curves.json, and draw docs/performance.md from it.

    python bench/curves.py                     every curve: about twenty minutes on two idle cores, and 20 GiB of disk
    python bench/curves.py --quick             each curve at a fraction of its length; nothing is written
    python bench/curves.py groups logs         these curves alone; the others stay as they are in the file

Curves: connections, partitions, groups (of one member, with heartbeats), consumers of one partition, sizes of a log in
GiB; and reading in Spark. `curve_points.py` and `spark_points.py` measure each point. Progress goes to stderr. A line
says whether the machine was too noisy.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import curve_points
import spark_points
from curve_points import Effort, Point
from measured import compile_packages, machine
from noise import Noise
from scale import raise_descriptor_limit

BENCH = Path(__file__).resolve().parent
FILE = BENCH / "curves.json"
PAGE_SCRIPT = BENCH.parent / "docs" / "performance_page.py"
SPARE_BYTES = 4 * 2**30
"""Bytes of the disk that the logs leave free."""


class Curve(NamedTuple):
    """The numbers at which something is measured."""

    counts: list[int]
    quick: list[int]


CURVES = {
    "connections": Curve([1, 100, 1_000, 3_000, 10_000], [1, 100, 300]),
    "partitions": Curve([1, 100, 1_000, 3_000, 10_000], [1, 30, 100]),
    "groups": Curve([1, 10, 100, 500, 2_000], [1, 10, 30]),
    "consumers": Curve([1, 10, 100, 300, 1_000], [1, 10, 30]),
    "logs": Curve([1, 4, 16], [1]),
    "spark_tasks": Curve([1, 2, 4], [1]),
    "spark_partitions": Curve([1, 4, 16, 64], [2]),
    "spark_sizes": Curve([1, 4, 16], [1]),
}
FULL = Effort(idle_s=5.0, rounds=3, requests=2_000)
QUICK = Effort(idle_s=0.5, rounds=1, requests=100)


def points_of(name: str, counts: list[int], effort: Effort, tell: Callable[[int], None]) -> Iterator[Point]:
    """Measure the points of a curve, one after the other. `tell` gets each count first."""
    if name == "logs":
        free = shutil.disk_usage(tempfile.gettempdir()).free - SPARE_BYTES
        fitting = [gib for gib in counts if gib * 2**30 <= free]
        if fitting != counts:
            print(f"logs: there is no room for more than {free / 2**30:.0f} GiB", file=sys.stderr)
        yield from curve_points.logs(fitting, effort, tell)
        return
    measure: Callable[[int, Effort], Point] = getattr(spark_points if name.startswith("spark") else curve_points, name)
    for count in counts:
        tell(count)
        yield measure(count, effort)


def measured_curves(names: list[str], *, quick: bool, noise: Noise) -> dict[str, list[Point]]:
    began, found = time.monotonic(), {}

    def tell(name: str, count: int) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {name}: {count:,}", file=sys.stderr, flush=True)

    for name in names:
        counts = CURVES[name].quick if quick else CURVES[name].counts
        found[name] = []
        points = points_of(name, counts, QUICK if quick else FULL, partial(tell, name))
        for count, point in zip(counts, points, strict=False):
            found[name].append({"count": count, **{key: round(value, 3) for key, value in point.items()}})
            noise.sample()
    return found


def commit() -> str:
    """The commit that was measured."""
    command = ["git", "-C", str(BENCH.parent), "describe", "--always", "--dirty", "--abbrev=7"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", nargs="*", choices=[*CURVES, []], help="all by default")
    parser.add_argument("--quick", action="store_true", help="see whether all of it runs; nothing is written")
    options = parser.parse_args()
    raise_descriptor_limit()
    compile_packages()
    names, noise, began = options.curves or list(CURVES), Noise(), time.time()
    run: dict[str, Any] = {
        "machine": machine(),
        "day": time.strftime("%Y-%m-%d", time.gmtime(began)),
        "commit": commit(),
    }
    curves = measured_curves(names, quick=options.quick, noise=noise)
    run |= {"minutes": round((time.time() - began) / 60), "noise": noise.sentence()}
    for name, points in curves.items():
        print(json.dumps({name: points}))
    print(noise.sentence())
    if not options.quick:
        kept = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
        written = {name: {"run": run, "points": curves[name]} if name in curves else kept[name] for name in CURVES}
        FILE.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        subprocess.run([sys.executable, str(PAGE_SCRIPT)], check=True)


if __name__ == "__main__":
    main()

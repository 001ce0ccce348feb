"""Measure an audit: records and bytes a second, and memory, in this process and on Spark.

Makes a directory of a compacted topic, then audits it some times, in a process of its own each time, so that its peak
memory is that of the audit. `local` is the loop on one core; `spark` is Spark with so many cores on this machine, with
the time of the second of two audits in one session (the first one starts Python workers and lets Java compile). The
time of the disk is not included: the files have just been written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

sys.path.remove(str(Path(__file__).resolve().parent))  # its profile.py would hide that of the standard library

from kmini.pipeline.audit.audit_plan import Scope
from kmini.pipeline.audit.local_audit import audit_directory
from kmini.pipeline.audit.report import AuditReport
from kmini.pipeline.audit.topic_policy import TopicPolicy
from kmini.pipeline.logs.log_dir import LogDir
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record

MIB = 1 << 20
DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000
RECORDS_A_BATCH = 76
"""Records of 200 bytes in a batch: about 16 KiB, the default `batch.size` of Kafka's producer."""
POLICY = TopicPolicy(is_compacted=True, max_compaction_lag_ms=DAY_MS)


def make(directory: Path, options: argparse.Namespace) -> None:
    """Partitions of one topic, their segments filled with records of random keys and a fixed value."""
    dice = random.Random(1)
    value = bytes(options.value_bytes)
    each = options.mib * MIB // options.partitions
    for partition in range(options.partitions):
        folder = directory / f"profiles-{partition}"
        folder.mkdir()
        offset, written = 0, 0
        while written < each:
            with (folder / f"{offset:020d}.log").open("wb") as file:
                while file.tell() < options.segment_mib * MIB and written < each:
                    now_ms = NOW_MS - 2 * DAY_MS + int(2 * DAY_MS * written / each)
                    records = [
                        Record(offset + number, now_ms, b"user-%011d" % dice.randrange(options.keys), value)
                        for number in range(RECORDS_A_BATCH)
                    ]
                    batch = build_batch(records, base_offset=offset)
                    file.write(batch)
                    offset += len(records)
                    written += len(batch)


class Once(NamedTuple):
    """One audit."""

    report: AuditReport
    processor_seconds: float
    """Processor seconds of this process and all below it, Java's included."""


def audit_here(path: str) -> Once:
    before = processor_seconds()
    report = audit_directory(LogDir(path), Scope(NOW_MS), {"profiles": POLICY})
    return Once(report, processor_seconds() - before)


def audit_there(path: str, cores: int) -> Once:
    from kmini.pipeline.audit.spark_audit import audit_on_spark
    from kmini.pipeline.session import spark_session

    with spark_session("bench", master=f"local[{cores}]") as spark:
        for _ in range(2):
            before = processor_seconds()
            report = audit_on_spark(spark, LogDir(path), Scope(NOW_MS), {"profiles": POLICY})
            taken = processor_seconds() - before
    return Once(report, taken)


def once(options: argparse.Namespace) -> None:
    """One audit, in this process; a line of JSON."""
    peaks = Peaks()
    before = resident(os.getpid(), "VmRSS")
    path = options.directory
    report, taken = audit_here(path) if options.engine == "local" else audit_there(path, options.cores)
    told = {
        "records": report.records,
        "bytes": report.bytes_read,
        "seconds": report.seconds,
        "processor_seconds": taken,
        "before_mib": before,
        "peak_mib": resident(os.getpid(), "VmHWM"),
        "worker_mib": peaks.end(),
    }
    print(json.dumps(told))


def processor_seconds() -> float:
    """Processor seconds of this process and of all below it, ended ones included."""
    ticks = 0
    for pid in (os.getpid(), *descendants(os.getpid())):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Peaks:
    """The highest memory of any Python process below this one, looked at often enough."""

    def __init__(self) -> None:
        self._highest = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def end(self) -> float:
        self._ended.set()
        self._thread.join()
        return self._highest

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            for pid in descendants(os.getpid()):
                try:
                    if b"python" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        self._highest = max(self._highest, resident(pid, "VmHWM"))
                except OSError:
                    continue  # it has ended


def descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def resident(pid: int, kind: str) -> float:
    """Memory in MiB: VmRSS, the current size, or VmHWM, the peak; 0 for a process that has ended."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next((int(line.split()[1]) for line in status if line.startswith(kind)), 0) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=1024, help="of segments")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--segment-mib", type=int, default=128)
    parser.add_argument("--keys", type=int, default=2_000_000, help="so many different ones, in each partition")
    parser.add_argument("--value-bytes", type=int, default=176, help="200-byte records with their key")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--engine", choices=("local", "spark"), help="only this one")
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.directory:
        once(options)
        return
    place = Path(tempfile.mkdtemp(prefix="bench-audit-"))
    try:
        make(place, options)
        print(
            f"{options.mib} MiB in {options.partitions} partitions, segments of {options.segment_mib} MiB,"
            f" {options.keys:,} keys in each partition"
        )
        for engine in (options.engine,) if options.engine else ("local", "spark"):
            told = [run(place, engine, options) for _ in range(options.rounds)]
            print(engine.ljust(6), figures(told))
    finally:
        shutil.rmtree(place)


def figures(told: list[dict[str, float]]) -> str:
    """The medians of some rounds, and the highest memory."""
    seconds = statistics.median(one["seconds"] for one in told)
    taken = statistics.median(one["processor_seconds"] for one in told)
    records = told[0]["records"]
    text = (
        f"{records / seconds / 1e6:.2f} M records/s, {told[0]['bytes'] / seconds / MIB:.0f} MiB/s: {seconds:.1f} s;"
        f" {taken / records * 1e6:.2f} s of processors for a million;"
        f" {max(one['peak_mib'] for one in told):.0f} MiB at its peak, {told[0]['before_mib']:.0f} before"
    )
    worker = max(one["worker_mib"] for one in told)
    return f"{text}; {worker:.0f} MiB the largest Python worker" if worker else text


def run(place: Path, engine: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--directory", str(place), "--engine", engine, "--cores", str(options.cores)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    told: dict[str, float] = json.loads(said.splitlines()[-1])
    return told


if __name__ == "__main__":
    main()

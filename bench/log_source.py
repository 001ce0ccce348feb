"""Measure reading segment files in Spark (pipeline/log_source.py), beside a source that reads no files.

Makes segments of uncompressed records, reads them with one task and with two, and lets a *floor* have its turn in each
round: a source that gives the same Arrow batches again and again out of memory, so that what it takes is Spark's own.
Rates are million rows a second of a query that asks for all columns and keeps none (`noop`). Processor seconds are
those of the JVM and of all Python processes together, for a million rows. Rounds that are not counted come first: Java
compiles in them.

Last comes the memory of the Python worker: its highest, after a segment of 64 MiB and after one of `--large` MiB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.remove(str(Path(__file__).resolve().parent))  # its profile.py would hide that of the standard library

import pyarrow as pa
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kmini.pipeline.log_source import MAX_DATA_BYTES, MAX_ROWS, KminiLogSource, LogReader
from kmini.pipeline.logs.options import parse_options
from kmini.pipeline.session import spark_session
from kmini.protocol.records.batch import assign_offsets, build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record

RECORDS_A_BATCH = 76
"""Records of 200 bytes in a batch: about 16 KiB, the default `batch.size` of Kafka's producer."""
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class FloorSource(DataSource):
    """Gives the first Arrow batch of a log again and again, until it has given as many rows as `rows` says."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> StructType:
        return KminiLogSource({"path": self.options["path"]}).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return _FloorReader(dict(self.options), schema)


class _FloorReader(DataSourceReader):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._rows = int(options["rows"])
        self._reader = LogReader(parse_options({"path": options["path"]}), schema)

    def partitions(self) -> list[InputPartition]:
        return list(self._reader.partitions())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = next(self._reader.read(partition))
        left = self._rows
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


class Figures(NamedTuple):
    rates: list[float]
    cpu_seconds: list[float]

    def row(self, name: str) -> str:
        return (
            f"| {name} | {statistics.median(self.rates):.2f} | {max(self.rates):.2f} "
            f"| {statistics.median(self.cpu_seconds):.2f} |"
        )


def make_segment(folder: Path, mib: int, codec: Codec = Codec.NONE) -> int:
    """A log of one segment; returns how many records are in it."""
    records = [Record(0, 1_700_000_000_000 + n, b"key-%06d" % n, os.urandom(180)) for n in range(RECORDS_A_BATCH)]
    batch = build_batch(records, codec=codec)
    count = mib * (1 << 20) // len(batch)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{0:020d}.log").open("wb") as file:
        for number in range(count):
            assign_offsets(batch, 0, number * RECORDS_A_BATCH, 0)
            file.write(batch)
    return count * RECORDS_A_BATCH


def processes() -> dict[int, tuple[int, str]]:
    """Every process, its parent's and its name."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            found[int(entry.name)] = int(rest.split()[1]), name.partition("(")[2]
    return found


def ours() -> list[int]:
    """This process and all below it."""
    parents = processes()
    wanted = {os.getpid()}
    while more := {process for process, (parent, _) in parents.items() if parent in wanted} - wanted:
        wanted |= more
    return sorted(wanted)


def cpu_seconds() -> float:
    """Processor seconds of this process and those below it so far."""
    total = 0
    for process in ours():
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / CLOCK_TICKS


def highest_worker_mib() -> float:
    """The most memory that any Python worker of Spark has had."""
    highest = 0
    for process in ours():
        try:
            if b"pyspark.daemon" in Path(f"/proc/{process}/cmdline").read_bytes():
                status = Path(f"/proc/{process}/status").read_text()
                highest = max(highest, int(status.partition("VmHWM:")[2].split()[0]))
        except (OSError, IndexError):
            continue
    return highest / 1024


def measured(read: DataFrameReader, path: Path, rows: int) -> tuple[float, float]:
    """Million rows a second, and processor seconds for a million."""
    before, begun = cpu_seconds(), time.perf_counter()
    read.load(str(path)).write.format("noop").mode("overwrite").save()
    taken = time.perf_counter() - begun
    return rows / taken / 1e6, (cpu_seconds() - before) / rows * 1e6


def rounds(cases: dict[str, Callable[[], tuple[float, float]]], uncounted: int, counted: int) -> dict[str, Figures]:
    figures = {name: Figures([], []) for name in cases}
    for number in range(uncounted + counted):
        for name, run in cases.items():
            rate, seconds = run()
            if number >= uncounted:
                figures[name].rates.append(rate)
                figures[name].cpu_seconds.append(seconds)
    return figures


def session(cores: int) -> SparkSession:
    spark = spark_session(master=f"local[{cores}]", settings={"spark.log.level": "ERROR"})
    spark.dataSource.register(KminiLogSource)
    spark.dataSource.register(FloorSource)
    return spark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="of each segment (1024)")
    parser.add_argument("--large", type=int, default=1024, help="MiB of the segment whose memory is measured (1024)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--uncounted", type=int, default=4)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="kmini-bench-"))
    try:
        rows = make_segment(root / "one" / "one-0", args.mib)
        for number in range(2):
            (root / "two").mkdir(exist_ok=True)
            shutil.copytree(root / "one" / "one-0", root / "two" / f"two-{number}", copy_function=os.link)
        lz4_rows = make_segment(root / "lz4" / "lz4-0", args.mib, Codec.LZ4)
        make_segment(root / "empty" / "empty-0", 0)
        spark = session(2)

        def ours_of(folder: str, count: int, **options: str) -> Callable[[], tuple[float, float]]:
            return lambda: measured(spark.read.format("kmini-log").options(**options), root / folder, count)

        def floor(folder: str, tasks: int) -> Callable[[], tuple[float, float]]:
            read = spark.read.format("floor").options(rows=str(rows))
            return lambda: measured(read, root / folder, rows * tasks)

        figures = rounds(
            {
                "floor, one task": floor("one", 1),
                "kmini-log, one task": ours_of("one", rows),
                "kmini-log, one task, `columns=key,value,offset,error`": ours_of(
                    "one", rows, columns="key,value,offset,error"
                ),
                "kmini-log, one task, lz4": ours_of("lz4", lz4_rows),
                "floor, two tasks": floor("two", 2),
                "kmini-log, two tasks": ours_of("two", rows * 2),
            },
            args.uncounted,
            args.rounds,
        )
        print(f"{rows:,} records of 200 bytes a task; Arrow batches of {MAX_ROWS:,} rows or {MAX_DATA_BYTES >> 20} MiB")
        print("\n| | median, M rows/s | best | processor seconds a million rows |\n|---|---:|---:|---:|")
        for name, figure in figures.items():
            print(figure.row(name))
        empty = [1 / measured(spark.read.format("kmini-log"), root / "empty", 1_000_000)[0] for _ in range(5)]
        print(f"\na query that reads nothing takes {statistics.median(empty):.2f} s; it is part of the figures")
        one, two = (statistics.median(figures[f"kmini-log, {tasks}"].rates) for tasks in ("one task", "two tasks"))
        print(f"two tasks are {two / one:.2f} × one")
        spark.stop()
        print_memory(root, args.large)
    finally:
        shutil.rmtree(root)


def print_memory(root: Path, large: int) -> None:
    """The memory of fresh workers."""
    for mib in (64, large):
        make_segment(root / f"{mib}" / "memory-0", mib)
        spark = session(1)
        measured(spark.read.format("kmini-log"), root / f"{mib}", 1)
        print(f"highest memory of the Python worker, a segment of {mib} MiB: {highest_worker_mib():.0f} MiB")
        spark.stop()


if __name__ == "__main__":
    main()

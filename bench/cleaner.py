"""How fast logs are cleaned, by our cleaner and by Apache Kafka's.

For each size and codec a log is made, with as many random keys as records. In each round Apache Kafka's cleaner and
ours get a copy of the same files, one right after the other. A rate is MB (2^20 bytes) of log a second of a whole pass,
as Kafka's own log line says it. The first round is not counted: Java compiles in it (it is what a broker's first pass
is like, and stands beside the others on stderr). Both fsync what they write: on a disk slower than the cleaners, the
rates are those of the disk.

With KMINI_PURE=1 ours is interpreted: add `--alone --scale 0.01`.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from peers import ServerProcess
from roundtrip import QUIET

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.background_work import Deletions
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from kmini.storage.cleaner.schedule import Schedule
from kmini.storage.cleaner.stats import PassReport
from kmini.storage.cleaner.throttle import Throttle
from kmini.storage.cleaner.worker import CleaningWork, swap_in
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.log_config import LogConfig
from kmini.storage.log_environment import LogEnvironment
from kmini.storage.log_manager import create_log
from kmini.storage.recovery import load_log
from kmini.storage.validation import ValidatedRecords
from support.server_process import kafka_command

BATCH_BYTES = 16_384
"""The default `batch.size` of Kafka's producer."""
SIZES = {"1 KB": (1_000_000, 1_000), "100 B": (5_000_000, 100)}
"""Records, and bytes in the value of each."""
CODECS = {"uncompressed": Codec.NONE, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
MB = 2**20
CONFIG = LogConfig(cleanup_policy=("compact",))
ANY = TopicPartition("cleaned", 0)
LIMITS = Limits()


class Figures(NamedTuple):
    """The figures of one pass."""

    mb: float
    seconds: float
    kept: int
    """Records left in the log."""
    cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.mb / self.seconds


# Logs


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def environment(filesystem: OsFileSystem) -> LogEnvironment:
    return LogEnvironment(filesystem, [], Deletions(filesystem), now_ms)


def make_log(
    directory: Path, count: int, value_bytes: int, codec: Codec, segment_bytes: int, *, distinct: bool = False
) -> int:
    """The log of a partition in `directory`, all of it in sealed segments; how many keys there are in it. They are
    drawn at random of as many as there are records, or are `distinct`."""
    chance = random.Random(count)
    digits = f"{{:0{len(str(count))}d}}"
    text = chance.randbytes(MB // 2).hex().encode()  # with the dots, it compresses to about a third
    config = CONFIG.replace(segment_bytes=segment_bytes)
    log = create_log(environment(OsFileSystem()), str(directory), ANY, chance.randbytes(16), config)
    keys, records, at_ms = set(), [], now_ms() - count // 50
    in_batch = max(BATCH_BYTES // (value_bytes + 20), 1)
    for number in range(count):
        key = number if distinct else chance.randrange(count)
        if not distinct:
            keys.add(key)
        start = chance.randrange(MB - value_bytes)
        value = text[start : start + value_bytes // 2] + b"." * (value_bytes - value_bytes // 2)
        records.append(Record(0, at_ms + number // 50, digits.format(key).encode(), value))
        if len(records) == in_batch or number == count - 1:
            batch = build_batch(records, codec=codec)
            log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=0, now_ms=now_ms())
            records.clear()
    log.roll(now_ms())
    log.close()
    return len(keys) or count


def made(place: Path, size: str, codec: str, options: argparse.Namespace) -> tuple[Path, int]:
    """A log as it was asked for, and how many keys there are in it."""
    count, value_bytes = SIZES[size]
    log = place / "made"
    log.mkdir()
    return log, make_log(log, int(count * options.scale), value_bytes, CODECS[codec], options.segment_bytes)


def copied(log: Path, directory: Path) -> Path:
    """A copy of a log, by itself, and on the disk."""
    shutil.copytree(log, directory)
    os.sync()
    return directory


def clean(directory: Path, limits: Limits = LIMITS) -> tuple[PassReport, Figures]:
    """A pass of our cleaner over a log, as a broker runs it, but from this thread."""
    filesystem = OsFileSystem()
    log = load_log(environment(filesystem), str(directory), ANY, CONFIG, is_clean=True)
    log.update_high_watermark(log.log_end_offset)
    schedule = Schedule(CleanerCheckpoint(filesystem, str(directory.parent)), backoff_ms=0)
    job = schedule.pick_this(ANY, log, now_ms())
    assert job is not None, schedule.uncleanable()
    work = CleaningWork(job, now_ms(), limits, Throttle(1e300), lambda: False)
    began = time.process_time()
    work.run(lambda group: swap_in(log, group))
    cpu_seconds = time.process_time() - began
    report = work.report
    if report is None:
        raise RuntimeError(f"the pass has failed: {work.error}")
    assert report.end_offset == job.range.end_offset, "one pass was not enough"
    log.close()
    return report, Figures(report.bytes_read / MB, report.seconds, report.records_kept, cpu_seconds)


# Rates


class Kafka:
    """One Apache Kafka that begins with `logs`: topics of one partition each, not compacted until asked."""

    SAYS = re.compile(
        r"cleaned log (?P<topic>[\w.]+)-0 .*?\n\s*(?P<mb>[\d.,]+) MB of log processed in (?P<seconds>[\d.,]+) seconds"
        r".*?End size: [\d.,]+ MB \((?P<kept>[\d.,]+) messages\)",
        re.DOTALL,
    )
    SETTINGS = {  # noqa: RUF012
        "log.cleanup.policy": "delete",
        "log.retention.ms": "-1",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.backoff.ms": "100",
    }

    def __init__(self, directory: Path, logs: dict[str, Path]) -> None:
        """Topic names, and the log that each begins with."""
        for number, (topic, log) in enumerate(logs.items()):
            folder = copied(log, directory / "log" / f"{topic}-0")
            topic_id = base64.urlsafe_b64encode(bytes(15) + bytes([number + 1])).decode().rstrip("=")
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n", encoding="ascii")
        self._log = directory / "server.log"
        command = kafka_command(directory, self.SETTINGS, "--fast", "--adopt")
        os.environ["JAVA_TOOL_OPTIONS"] = "-Dlog.level=INFO"  # the level at which the cleaner logs its passes
        try:
            self._server = ServerProcess(command, self._log)
        finally:
            del os.environ["JAVA_TOOL_OPTIONS"]
        self.kill = self._server.kill

    def clean(self, topic: str) -> Figures:
        """Have the cleaner's thread clean this topic, once; it does nothing else meanwhile."""
        os.sync()
        used = self._server.processor_seconds()
        alter(self._server, topic, "cleanup.policy", "compact")
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            for said in self.SAYS.finditer(self._log.read_text(encoding="utf-8", errors="replace")):
                if said["topic"] == topic:
                    mb, seconds, kept = (float(said[name].replace(",", "")) for name in ("mb", "seconds", "kept"))
                    return Figures(mb, seconds, int(kept), self._server.processor_seconds() - used)
            time.sleep(0.1)
        raise TimeoutError(f"Apache Kafka has not cleaned {topic}: {self._server.log_tail()}")


def alter(server: ServerProcess, topic: str, key: str, value: str) -> None:
    """Set a key of a topic's configuration."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({**QUIET, "bootstrap.servers": server.bootstrap_servers})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)


def rate(size: str, codec: str, options: argparse.Namespace) -> str:
    """A line of the table."""
    ours: list[Figures] = []
    theirs: list[Figures] = []
    with workplace(options) as place:
        log, keys = made(place, size, codec, options)
        topics = [f"round{number}" for number in range(options.rounds + 1)]
        kafka = None if options.alone else Kafka(place / "kafka", dict.fromkeys(topics, log))
        try:
            for topic in topics:
                if kafka is not None:
                    theirs.append(kafka.clean(topic))
                copy = copied(log, place / topic)
                ours.append(clean(copy)[1])
                shutil.rmtree(copy)
                said = [f"{figures.rate:.0f} ({figures.cpu_seconds:.2f} s)" for figures in (*ours[-1:], *theirs[-1:])]
                print(f"  {size}, {codec}, {topic}: {' and '.join(said)}", file=sys.stderr, flush=True)
        finally:
            if kafka is not None:
                kafka.kill()
    if {figures.kept for figures in (*ours, *theirs)} != {keys}:
        sys.exit(f"not one record for each of {keys} keys was left: {ours}, {theirs}")
    cells = [f"{size}, {codec}", f"{ours[0].mb:.0f}", spread(ours[1:]), "–", "–", cpu_seconds(ours[1:]), "–"]
    if theirs:
        medians, best = (
            [choose(f.rate for f in found[1:]) for found in (ours, theirs)] for choose in (statistics.median, max)
        )
        cells[3:5] = [spread(theirs[1:]), f"{medians[0] / medians[1]:.2f} ({best[0] / best[1]:.2f})"]
        cells[6] = cpu_seconds(theirs[1:])
    return f"| {' | '.join(cells)} |"


def cpu_seconds(found: list[Figures]) -> str:
    """Processor seconds of all threads, ours or Java's."""
    return f"{statistics.median(f.cpu_seconds for f in found):.2f} ({min(f.cpu_seconds for f in found):.2f})"


def spread(figures: list[Figures]) -> str:
    found = [f.rate for f in figures]
    digits = 0 if max(found) >= 10 else 2
    return f"{statistics.median(found):.{digits}f} ({max(found):.{digits}f})"


@contextmanager
def workplace(options: argparse.Namespace) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-cleaner-", dir=options.directory) as directory:
        yield Path(directory)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options about the logs, here and in cleaner_costs.py."""
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--scale", type=float, default=1.0, help="so much of the records")
    parser.add_argument("--sizes", nargs="*", default=[*SIZES], choices=[*SIZES])
    parser.add_argument("--codecs", nargs="*", default=[*CODECS], choices=[*CODECS])
    parser.add_argument("--segment-bytes", type=int, default=CONFIG.segment_bytes)
    parser.add_argument("--directory", help="where the logs are made, several GB; else where temporary files are")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser)
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    options = parser.parse_args()
    print("| medians (the best) | MB | kmini MB/s | Kafka MB/s | ratio | kmini, s of CPU | Kafka, s of CPU |")
    print("|---|---|---|---|---|---|---|")
    for size in options.sizes:
        for codec in options.codecs:
            print(rate(size, codec, options), flush=True)


if __name__ == "__main__":
    main()

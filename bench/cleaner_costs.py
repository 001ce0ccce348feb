"""Measure the costs of cleaning besides its time: memory, produce latency meanwhile, and idle time.

memory    of a pass over many distinct keys
produce   time to acknowledge a single record, with and without a pass running
idle      processor time of a broker with 1,000 compacted partitions, all of them clean
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cleaner import MB, alter, arguments, clean, made, make_log, workplace
from peers import ServerProcess, kmini_command
from roundtrip import QUIET, must_arrive, quantile

from kmini.protocol.records.compression import Codec
from kmini.storage.cleaner.cleanable_log import Limits

# Memory


def memory(options: argparse.Namespace) -> None:
    """The pass runs in a process of its own, whose memory before and at its peak the system reports."""
    with workplace(options) as place:
        log = place / "made"
        log.mkdir()
        make_log(log, options.keys, 10, Codec.NONE, options.segment_bytes, distinct=True)
        command = [sys.executable, __file__, "pass", "--directory", str(log)]
        said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    allowed = 24 * options.keys / 0.9 / MB + 32
    print(
        f"{said['keys']:,} keys, {said['mb']:.0f} MB of log: {said['peak'] - said['before']:.0f} MiB more than the"
        f" {said['before']:.0f} MiB before the pass (the map has {said['map']:.0f}; {allowed:.0f} may be)"
    )


def one_pass(options: argparse.Namespace) -> None:
    def resident(kind: str) -> float:
        """Memory in MiB: VmRSS, the current size, or VmHWM, the peak."""
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(kind)) / 1024

    before = resident("VmRSS")
    report, figures = clean(Path(options.directory), Limits(map_bytes=1 << 31))
    said = {"keys": report.keys, "mb": figures.mb, "map": report.map_bytes / MB, "before": before}
    said["peak"] = resident("VmHWM")
    print(json.dumps(said))


# Beside producers

QUIET_SECONDS = 1.5


class Sample(NamedTuple):
    began: float
    """Seconds since the epoch."""
    seconds: float


PASSED = re.compile(
    r"^([\d-]+ [\d:]+),(\d+) INFO kmini.storage.cleaner: ([\w.-]+): cleaned .* in ([\d.]+) s ", re.MULTILINE
)


def produce(options: argparse.Namespace) -> None:
    """Time to acknowledge a single record of 100 bytes, with and without a pass running."""
    rounds = [f"compacted{number}" for number in range(options.rounds)]
    with workplace(options) as place:
        log, _ = made(place, options.sizes[0], options.codecs[0], options)
        server = server_with(place, log, rounds)
        try:
            produced, busy = quiet_and_cleaning(server, rounds)
        finally:
            server.kill()
        passes = passes_in(server.log.read_text(encoding="utf-8"))
    assert len(passes) == len(rounds), "a pass a round"
    found = sorted(Round.of(begin, ended, produced, busy) for begin, ended in passes)
    seconds = statistics.median(ended - begin for begin, ended in passes)
    print(f"single records of 100 bytes, beside {len(rounds)} passes of {seconds:.1f} s")
    for name, some in (("all rounds", found), ("the quietest quarter", found[: max(len(found) // 4, 1)])):
        print(f"{name}; others took up to {max(r.others for r in some):.0%} of a core")
        for part, by_round in (("no pass", [r.quiet for r in some]), ("during a pass", [r.cleaning for r in some])):
            times = [seconds for one in by_round for seconds in one]
            cells = [f"p{100 * share:g} {quantile(times, share)}" for share in (0.5, 0.9, 0.99, 0.999)]
            print(f"  {part}: {', '.join(cells)} µs ({len(times)} records)")
        print(f"  p99 grows by a factor of {statistics.median(r.ratio for r in some):.2f} (median of the rounds)")


class Busy(NamedTuple):
    """Processor seconds used so far."""

    at: float
    by_all: float
    by_us: float


class Round(NamedTuple):
    others: float
    """The share of a core that other processes took."""
    quiet: list[float]
    cleaning: list[float]

    @property
    def ratio(self) -> float:
        return quantile(self.cleaning, 0.99) / quantile(self.quiet, 0.99)

    @classmethod
    def of(cls, begin: float, ended: float, produced: list[Sample], busy: list[Busy]) -> Round:
        start, stop = begin - QUIET_SECONDS, begin - 0.1
        seen = [b for b in busy if start <= b.at <= ended]
        others = (seen[-1].by_all - seen[0].by_all) - (seen[-1].by_us - seen[0].by_us)
        return cls(others / (seen[-1].at - seen[0].at), within(produced, start, stop), within(produced, begin, ended))


def within(produced: list[Sample], begin: float, ended: float) -> list[float]:
    return [s.seconds for s in produced if begin <= s.began and s.began + s.seconds <= ended]


def processor_seconds(server: ServerProcess) -> Busy:
    """Processor time of the machine (time stolen by other machines included), and of the server and this process."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _wait, irq, soft_irq, stolen = map(int, stat.readline().split()[1:9])
    used = (user + nice + system + irq + soft_irq + stolen) / os.sysconf("SC_CLK_TCK")
    return Busy(time.time(), used, server.processor_seconds() + time.process_time())


def server_with(place: Path, log: Path, topics: list[str]) -> ServerProcess:
    """A kmini with topics that begin as copies of a log, and are not dirty enough to be cleaned until they may be."""
    from support.client_adapters import create_topic

    server = ServerProcess(kmini_command(place / "data", {"log.cleaner.backoff.ms": "300"}), place / "server.log")
    never = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
    try:
        for topic in topics:
            create_topic(server.bootstrap_servers, topic, configs=never)
        server.stop()
        for topic in topics:
            (folder,) = (place / "data").rglob(f"{topic}-0")
            shutil.copytree(log, folder, dirs_exist_ok=True)
        os.sync()
        server.start()
    except BaseException:
        server.kill()
        raise
    return server


def quiet_and_cleaning(server: ServerProcess, topics: list[str]) -> tuple[list[Sample], list[Busy]]:
    """Produce all the time; in each round leave the broker alone for a while, then have it clean a topic."""
    from confluent_kafka import Producer

    produced: list[Sample] = []
    busy: list[Busy] = []
    is_over = threading.Event()
    producer = Producer({**QUIET, "bootstrap.servers": server.bootstrap_servers, "linger.ms": 0, "acks": 1})

    def produce_all_the_time() -> None:
        while not is_over.is_set():
            began, at = time.time(), time.perf_counter()
            producer.produce("single", b"x" * 100, partition=0, on_delivery=must_arrive)
            producer.flush(30)
            produced.append(Sample(began, time.perf_counter() - at))
            if len(produced) % 200 == 0:
                busy.append(processor_seconds(server))

    thread = threading.Thread(target=produce_all_the_time)
    thread.start()
    try:
        for number, topic in enumerate(topics):
            time.sleep(QUIET_SECONDS + 0.5)
            alter(server, topic, "min.cleanable.dirty.ratio", "0.01")
            deadline = time.monotonic() + 120
            while len(passes_in(server.log.read_text(encoding="utf-8"))) <= number:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} is not cleaned: {server.log_tail()}")
                time.sleep(0.2)
    finally:
        is_over.set()
        thread.join()
    return produced[200:], busy


def passes_in(log: str) -> list[tuple[float, float]]:
    """When passes began and ended, by the broker's log."""
    found = []
    for said in PASSED.finditer(log):
        ended = time.mktime(time.strptime(said[1], "%Y-%m-%d %H:%M:%S")) + int(said[2]) / 1000
        found.append((ended - float(said[4]), ended))
    return found


# Rest


def idle(options: argparse.Namespace) -> None:
    """Each partition has been written to, rolled and cleaned."""
    from confluent_kafka import Producer

    from support.client_adapters import create_topic

    with workplace(options) as place:
        server = ServerProcess(kmini_command(place / "data", {"log.cleaner.backoff.ms": "100"}), place / "server.log")
        try:
            configs = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01"}
            create_topic(server.bootstrap_servers, "many", partitions=options.partitions, configs=configs)
            producer = Producer({**QUIET, "bootstrap.servers": server.bootstrap_servers})
            for number in range(20):
                for partition in range(options.partitions):
                    producer.produce("many", b"v" * 100, key=b"%d" % (number % 3), partition=partition)
                    producer.poll(0)
                if producer.flush(60):
                    sys.exit("not everything was acknowledged")
            cleaned = await_rest(server)
            used = server.processor_seconds()
            time.sleep(options.idle_seconds)
            share = (server.processor_seconds() - used) / options.idle_seconds
        finally:
            server.kill()
    print(f"{options.partitions} compacted partitions after {cleaned} passes: {share:.2%} of a core")


def await_rest(server: ServerProcess) -> int:
    """Return once no pass has ended for a while; how many did."""
    deadline, count = time.monotonic() + 300, -1
    while time.monotonic() < deadline:
        found = len(passes_in(server.log.read_text(encoding="utf-8")))
        if found == count:
            return count
        count = found
        time.sleep(3)
    raise TimeoutError("the cleaner does not come to rest")


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "memory": memory,
    "produce": produce,
    "idle": idle,
    "pass": one_pass,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS])
    arguments(parser)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--idle-seconds", type=float, default=20)
    options = parser.parse_args()
    PARTS[options.part](options)


if __name__ == "__main__":
    main()

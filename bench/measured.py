"""make bench: run the benchmarks whose figures README states, and write what they print to bench/RESULTS.md.

README's tables are copied from that file by the same run, so that no page has a figure which no run shows; a test
compares the two. On two idle cores it takes about ten minutes. RESULTS.md says what the machine was and how busy.

    python bench/measured.py                 everything
    python bench/measured.py --quick         each benchmark at a fraction of its length, printed and not written
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from peers import apache_kafka

BENCH = Path(__file__).resolve().parent
RESULTS = BENCH / "RESULTS.md"
README = BENCH.parent / "README.md"
BEGIN, END = "<!-- make bench writes from here -->\n", "<!-- to here -->\n"

Figures = dict[str, Any]


def ms(value: float) -> str:
    return f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"


def us(value: float) -> str:
    return f"{value:,.0f} µs" if value < 1_000 else ms(value / 1_000)


def beside(figures: Figures, key: str, show: Callable[[float], str]) -> tuple[str, str]:
    """The cells of kmini, with its ratio to Apache Kafka, and of Apache Kafka."""
    ours, theirs = (figures[name][key] for name in ("kmini", "kafka"))
    return f"{show(ours)} ({ours / theirs:.2f})", show(theirs)


def startup_rows(figures: Figures) -> list[tuple[str, ...]]:
    def against_python(name: str) -> str:
        return f"{ms(figures[f'{name}_ms'])} ({figures[f'{name}_ratio']:.2f})"

    return [
        ('`python -c "import asyncio"` on this machine', ms(figures["python_ms"]), ""),
        (
            "launch to first answer (times the bare Python)",
            against_python("serve"),
            against_python("kafka"),
        ),
        ("`Broker()` in a warm process (likewise)", against_python("broker"), ""),
        ("memory when idle", f"{figures['idle_mib']:.0f} MiB", f"{figures['kafka_idle_mib']:.0f} MiB"),
    ]


def group_rows(figures: Figures) -> list[tuple[str, ...]]:
    return [
        ("a group of two is stable after the second join, p50", *beside(figures, "stable_p50_ms", ms)),
        (
            "1,000 members of 100 groups send heartbeats: share of a core",
            *beside(figures, "heartbeat_share_of_a_core", lambda share: f"{share:.1%}"),
        ),
    ]


def consumer_group_rows(figures: Figures) -> list[tuple[str, ...]]:
    return [
        (
            "a group of two of the consumer protocol is stable after the second join, p50",
            *beside(figures, "stable_p50_ms", ms),
        ),
        ("… with heartbeats every 5 s, as Apache Kafka wants them", *beside(figures, "kafkas_p50_ms", ms)),
        (
            "1,000 members of 100 groups of the consumer protocol send heartbeats: share of a core",
            *beside(figures, "heartbeat_share_of_a_core", lambda share: f"{share:.1%}"),
        ),
    ]


def large_group_rows(figures: Figures) -> list[tuple[str, ...]]:
    ours = figures["kmini"]
    return [
        (
            "a member joins a group of 1,000 over 10,000 partitions: its target is computed, p50",
            ms(ours["large_join_p50_ms"]),
            "",
        ),
        ("… and the longest wait of another client meanwhile", ms(ours["large_others_wait_max_ms"]), ""),
    ]


def offset_rows(figures: Figures) -> list[tuple[str, ...]]:
    return [
        ("offset commit, p50", *beside(figures, "p50_us", us)),
        ("restart with 100,000 committed offsets", f"{figures['start_s']:.2f} s", ""),
        ("… after `kill -9`", f"{figures['start_after_kill_s']:.2f} s", ""),
    ]


def transaction_rows(figures: Figures) -> list[tuple[str, ...]]:
    latency = figures["latency"]
    return [
        ("empty transaction, p50", *beside(latency, "empty", us)),
        ("transaction of 100 records over 3 partitions, with offsets, p50", *beside(latency, "full", us)),
    ]


def transaction_version_rows(figures: Figures) -> list[tuple[str, ...]]:
    versions = figures["versions"]
    second = "transaction of one record (Produce, EndTxn: the second version of transactions), p50"
    ratios = [f"{versions[name]['ratio']:.2f}" for name in ("kmini", "kafka")]
    return [
        (second, *beside(versions, "version_2", us)),
        ("… with AddPartitionsToTxn (the first version), p50", *beside(versions, "version_1", us)),
        ("… the second's multiple of the first", *ratios),
    ]


def partition_rows(figures: Figures) -> list[tuple[str, ...]]:
    return [
        ("memory for each of 1,000 partitions", f"{figures['kib_a_partition']:.1f} KiB", ""),
        ("start with 1,000 partitions", f"{figures['clean_start_s']:.2f} s", ""),
        ("… after `kill -9`", f"{figures['start_after_kill_s']:.2f} s", ""),
        ("1,000 idle partitions: share of a core", f"{figures['idle_percent_of_a_core']:.1f} %", ""),
    ]


def many_partition_rows(figures: Figures) -> list[tuple[str, ...]]:
    return [
        ("10,000 partitions with a record each: start", f"{figures['clean_start_s']:.2f} s", ""),
        ("… after `kill -9`", f"{figures['killed_start_s']:.2f} s", ""),
        ("… memory after a start", f"{figures['clean_mib']:.0f} MiB", ""),
        ("… share of a core when idle", f"{figures['idle_percent']:.2f} %", ""),
        ("… acknowledged produce, p50, of that of one partition", f"{figures['ack_ratio']:.2f}", ""),
    ]


def connection_rows(figures: Figures) -> list[tuple[str, ...]]:
    return [
        ("10,000 connections: memory for each", f"{figures['kib_a_connection']:.1f} KiB", ""),
        ("… share of a core when idle", f"{figures['idle_percent']:.2f} %", ""),
        ("… acknowledged produce of 100 of them, p50, of that of 100 alone", f"{figures['ack_ratio']:.2f}", ""),
    ]


def fairness_rows(figures: Figures) -> list[tuple[str, ...]]:
    bulks = {
        "produce": "200 MB/s of produces of 1 MB",
        "consume": "200 MB/s of fetches of 50 MB",
        "both": "100 MB/s of both",
    }
    return [(f"heartbeat beside {bulk}, p99", ms(figures[kind]["p99_ms"]), "") for kind, bulk in bulks.items()]


def session_rows(figures: Figures) -> list[tuple[str, ...]]:
    return [("a fetch over 500 idle partitions in a session, of a full one", f"{figures['ratio']:.1%}", "")]


def cluster_rows(figures: Figures) -> list[tuple[str, ...]]:
    return [
        ("`kmini serve --brokers 3` to its first answer", ms(figures["start_3_ms"]), ""),
        ("… one broker in the same run", ms(figures["start_1_ms"]), ""),
        ("… memory when idle", f"{figures['idle_mib']:.0f} MiB", ""),
        ("acks=all to three replicas on three brokers, 100 bytes, p50", us(figures["produce_3_us"]), ""),
        ("… to one broker in the same run", us(figures["produce_1_us"]), ""),
        ("… its multiple of that", f"{figures['produce_ratio']:.1f}", ""),
        ("DeleteRecords over three replicas, p50", ms(figures["delete_median_ms"]), ""),
        ("a leader is killed: until Metadata names the next, p50", ms(figures["kill_median_ms"]), ""),
    ]


def tls_rows(figures: Figures) -> list[tuple[str, ...]]:
    def row(label: str, key: str, show: Callable[[float], str]) -> tuple[str, ...]:
        kmini, floor, kafka = (show(figures[name][key]) for name in ("kmini", "floor", "kafka"))
        return f"{label} (the floor: {floor})", kmini, kafka

    def krec(value: float) -> str:
        return f"{value:.0f}"

    return [
        row("TLS 1.3 adds to an acknowledged 100-byte produce, p50", "ack_added_us", us),
        row("bulk produce 1 KB over TLS, thousand/s", "tls_produce_1000_krec_s", krec),
        row("bulk consume 1 KB over TLS, thousand/s", "tls_consume_1000_krec_s", krec),
        row("TLS handshakes in a second of processor time", "handshakes_a_cpu_s", krec),
        row("memory of a connection with TLS", "kib_a_connection", lambda value: f"{value:.0f} KiB"),
    ]


class Benchmark(NamedTuple):
    """A script of this folder, how it is run, and the rows that its JSON makes."""

    script: str
    arguments: str
    quick: str
    rows: Callable[[Figures], list[tuple[str, ...]]]


FAIRNESS = "kmini --kinds produce consume both"
BENCHMARKS = [
    Benchmark("startup.py", "--repetitions 5", "--repetitions 1", startup_rows),
    Benchmark("groups.py", "kmini kafka", "kmini kafka --repetitions 5 --seconds 6", group_rows),
    Benchmark(
        "consumer_groups.py",
        "kmini kafka --part stable --part kafkas --part heartbeat",
        "kmini kafka --part stable --part kafkas --part heartbeat --repetitions 3 --seconds 6",
        consumer_group_rows,
    ),
    Benchmark("consumer_groups.py", "kmini --part large", "kmini --part large", large_group_rows),
    Benchmark("offsets.py", "", "--offsets 2000 --rounds 1 --commits 200", offset_rows),
    Benchmark("transactions.py", "latency", "latency --rounds 1 --count 10", transaction_rows),
    Benchmark("transactions.py", "versions", "versions --rounds 1 --count 10", transaction_version_rows),
    Benchmark("partitions.py", "", "--partitions 100 --idle-seconds 1", partition_rows),
    Benchmark(
        "scale.py",
        "partitions --rounds 3 --idle-seconds 10",
        "partitions --count 100 --rounds 1 --idle-seconds 1",
        many_partition_rows,
    ),
    Benchmark(
        "scale.py",
        "connections --idle-seconds 10",
        "connections --count 200 --rounds 1 --idle-seconds 1",
        connection_rows,
    ),
    Benchmark("fairness.py", f"{FAIRNESS} --seconds 5", f"{FAIRNESS} --seconds 1", fairness_rows),
    Benchmark("fetch_sessions.py", "", "--requests 50", session_rows),
    Benchmark("cluster.py", "", "--repetitions 1 --records 50", cluster_rows),
    Benchmark("tls.py", "", "--rounds 1 --single 100 --bulk 2000 --connections 20", tls_rows),
]
COMPARISON = ("compare.py", "--rounds 5 kmini kafka kfake floor", "--rounds 1 --bulk 20000 kmini kafka kfake floor")


def run(script: str, arguments: str) -> str:
    """Return a script's stdout. Exits if the script fails, so that no incomplete table is written."""
    print(f"{script} {arguments}", file=sys.stderr, flush=True)
    command = [sys.executable, str(BENCH / script), *arguments.split()]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode:
        sys.exit(f"{script} failed, so nothing is written")
    return finished.stdout


def figures_of(output: str) -> Figures:
    """The JSON of a script: one object; or one a kind of bulk, or one a peer, which then are values by these names."""
    objects = [json.loads(line) for line in output.splitlines()]
    for name in ("bulk", "peer"):
        if name in objects[0]:
            return {one.pop(name): one for one in objects}
    (figures,) = objects
    assert isinstance(figures, dict)
    return figures


def machine() -> str:
    """The machine and its load, in one sentence."""
    kind = platform.processor() or platform.machine()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} cores ({kind}), {platform.system()}, Python {platform.python_version()}, load {load}"


def compile_packages() -> None:
    """Write the byte code of the packages, as an installation does: else each start would compile them again where
    PYTHONDONTWRITEBYTECODE is set."""
    for package in BENCH.parent.glob("*/__init__.py"):
        compileall.compile_dir(package.parent, quiet=1)


def page(*, quick: bool) -> str:
    began, before = time.time(), machine()
    script, arguments, shorter = COMPARISON
    comparison = run(script, shorter if quick else arguments)
    rows = []
    for benchmark in BENCHMARKS:
        output = run(benchmark.script, benchmark.quick if quick else benchmark.arguments)
        rows += benchmark.rows(figures_of(output))
    table = ["| | kmini | Apache Kafka |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    minutes = (time.time() - began) / 60
    day = time.strftime("%Y-%m-%d", time.gmtime(began))
    after = os.getloadavg()[0]
    header = f"Measured on {day}, in {minutes:.0f} minutes: {before} at the beginning and {after:.1f} at the end."
    return "\n".join([header, "", comparison.strip(), "", *table, ""])


LAST_OF_README = "| memory when idle |"
"""The last row of the second table that README has; RESULTS.md has all."""


def placed(readme: str, text: str) -> str:
    """README with its tables replaced by the first ones of this text."""
    first, row, rest = text.partition(LAST_OF_README)
    text = first + row + rest.partition("\n")[0] + "\n" if row else text
    before, _, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"README.md has no lines {BEGIN!r} and {END!r}"
    return before + BEGIN + text + END + after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="see whether all of it runs; nothing is written")
    options = parser.parse_args()
    if reason := apache_kafka.why_unavailable():
        sys.exit(f"the tables stand beside Apache Kafka's figures, and {reason}")
    compile_packages()
    text = page(quick=options.quick)
    print(text)
    if not options.quick:
        RESULTS.write_text(f"# Results\n\n{text}", encoding="utf-8")
        README.write_text(placed(README.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Run the same client work against kmini and its peers, in turn, several rounds, and print a table.

The first round warms everything up (a JVM compiles its code in it) and is not counted. A cell has the median of the
others, the lowest and the highest, and of a peer kmini's median as a multiple of the peer's. A fixed piece of work
between the rounds says whether the machine was too noisy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import java_perf
import peers
from noise import Noise

BENCH = Path(__file__).resolve().parent
TITLES = {"kafka": "Apache Kafka"}
ROWS = {
    "ack_p50_us": "acknowledged 100-byte produce, p50, µs",
    "ack_p99_us": "… p99, µs",
    "e2e_p50_us": "produce to consume of one record, p50, µs",
    "e2e_p99_us": "… p99, µs",
    "produce_100_krec_s": "bulk produce 100 B, librdkafka, thousand/s",
    "consume_100_krec_s": "bulk consume 100 B, thousand/s",
    "produce_1000_krec_s": "bulk produce 1 KB, thousand/s",
    "consume_1000_krec_s": "bulk consume 1 KB, thousand/s",
    "java_produce_100_krec_s": "Java ProducerPerformance 100 B, thousand/s",
    "java_consume_100_krec_s": "Java consumer 100 B, thousand/s",
    "java_produce_1000_krec_s": "Java ProducerPerformance 1 KB, thousand/s",
    "java_consume_1000_krec_s": "Java consumer 1 KB, thousand/s",
    "resident_mib": "resident memory after all that, MiB",
}


def one_round(servers: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, str(BENCH / "roundtrip.py"), servers, "--bulk", str(options.bulk)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if finished.returncode:
        print(f"  {finished.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {}
    measured: dict[str, float] = json.loads(finished.stdout)
    if options.java:
        measured |= java_perf.measure(servers, 2 * options.bulk)
    return measured


def table(results: dict[str, list[dict[str, float]]]) -> str:
    lines = [f"| | {' | '.join(TITLES.get(name, name) for name in results)} |", "|---|" + "---|" * len(results)]
    for key, label in ROWS.items():
        found = {name: [figures[key] for figures in rounds if key in figures] for name, rounds in results.items()}
        if any(found.values()):
            ours = found.get("kmini")
            cells = [_cell(values, None if name == "kmini" else ours) for name, values in found.items()]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: list[float], ours: list[float] | None) -> str:
    if not values:
        return "–"
    median = statistics.median(values)
    cell = f"{median:.0f} ({min(values):.0f}–{max(values):.0f})"
    return f"{cell} {statistics.median(ours) / median:.2f} ×" if ours else cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", help="only these (kmini, kafka, and each KMINI_BENCH_<NAME>)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--bulk", type=int, default=500_000)
    parser.add_argument("--java", action="store_true", help="Kafka's Java clients too")
    options = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {}
    noise = Noise()
    with peers.running(peers.available(options.peers)) as servers:
        for number in range(options.rounds + 1):
            for name, server in servers.items():
                noise.sample()
                measured = one_round(server.bootstrap_servers, options)
                if measured:
                    measured["resident_mib"] = server.resident_bytes() / 2**20
                print(f"round {number} {name}: {json.dumps(measured)}", file=sys.stderr, flush=True)
                if number:
                    results.setdefault(name, []).append(measured)
    print(table(results))
    print(f"\nMedians of {options.rounds} rounds (lowest–highest), the brokers in turn; × is kmini's median by theirs.")
    print(noise.sentence())


if __name__ == "__main__":
    main()

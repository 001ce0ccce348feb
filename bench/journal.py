"""What the journal of requests costs: journal.py [--rounds 40] [--requests 1000] [--no-callgrind] [case…]

The same broker runs twice, with and without a journal, and a raw socket asks both in turn. Three figures for a request:

* instructions of the broker without and with the journal, by callgrind (`instructions.py`; system calls not counted)
* processor time of the broker, in user and system mode, of the whole request: the median over the rounds
* the journal's share of that time. It makes no system call, so its time is its instructions at the speed of the
  broker's own: instructions added / instructions × time in user mode. Beside it stands the ratio that was measured
  directly, with the interval that holds the median with 95 %; other work on the machine widens it.

The journal is full when it is measured, so that each request pushes one out; under callgrind it has room for 100.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from instructions import Client, in_callgrind, launched
from pairs import interval
from peers import DATA_DIR

from kmini.broker.network.event_loop import new_event_loop
from support.server_process import PORT

ROUNDS, REQUESTS = 40, 1_000
CASES = ("produce", "fetch", "idempotent")
FILLED = 12_000
"""Requests before the measurement: more than a journal keeps."""


async def serve(port: int, data_dir: str, entries: int) -> None:
    """Run a broker with a journal of so many entries, or without one, until the process is ended."""
    from kmini.broker.broker import BrokerServer
    from kmini.broker.journal import request_journal
    from kmini.broker.settings.broker_config import BrokerConfig

    request_journal.MOST_ENTRIES = entries
    config = BrokerConfig.parse({"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    await BrokerServer.start(config, data_dir, journal=request_journal.RequestJournal() if entries else None)
    await asyncio.Event().wait()


def command(entries: int) -> list[str]:
    words = ["env", sys.executable, __file__, "--serve", str(entries), "--port", PORT]
    return [*words, "--data-dir", DATA_DIR]


def processor_ns(pid: int) -> tuple[int, float]:
    """Nanoseconds that a process has run, and the share of them in user mode."""
    ran = sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return ran, user / max(user + system, 1)


def rounds(case: str, count: int, requests: int) -> Iterator[tuple[float, float, float]]:
    """For each round the nanoseconds of a request without and with the journal, and the share of user mode."""
    with ExitStack() as stack:
        clients = [stack.enter_context(launched(command(entries), replicas=1)) for entries in (0, 10_000)]
        for client in clients:
            run(client, case, FILLED)
        for number in range(count):
            took = {}
            for client in clients if number % 2 else reversed(clients):
                assert client.process is not None
                before, _ = processor_ns(client.process.pid)
                run(client, case, requests)
                after, in_user_mode = processor_ns(client.process.pid)
                took[client] = (after - before) / requests
            yield took[clients[0]], took[clients[1]], in_user_mode


def run(client: Client, case: str, count: int) -> None:
    client.produce()
    getattr(client, f"case_{case}")(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of a round")
    parser.add_argument("--no-callgrind", action="store_true", help="processor time only")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--data-dir", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    options = parser.parse_args()
    if options.serve is not None:
        loop = new_event_loop()
        loop.run_until_complete(serve(options.port, options.data_dir, options.serve))
        return
    if unknown := {*options.cases} - {*CASES}:
        parser.error(f"there is no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    print("| a request | instructions off | on | µs off | of it in user mode | journal | ratio on/off (95 %) |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for case in options.cases or CASES:
        print(f"| {case} | {' | '.join(cells(case, options))} |", flush=True)


def cells(case: str, options: argparse.Namespace) -> list[str]:
    found = [*rounds(case, options.rounds, options.requests)]
    off_us = statistics.median(off for off, _, _ in found) / 1_000
    in_user_mode = found[-1][2]
    ratios = sorted(on / off for off, on, _ in found)
    low, high = interval(ratios)
    direct = f"{statistics.median(ratios):.3f} ({low:.3f}-{high:.3f})"
    if options.no_callgrind:
        return ["", "", f"{off_us:.1f}", f"{in_user_mode:.0%}", "", direct]
    off, on = (in_callgrind(command(entries), case, 300) for entries in (0, 100))
    share = (on - off) / off * in_user_mode
    return [f"{off:,.0f}", f"{on:,.0f}", f"{off_us:.1f}", f"{in_user_mode:.0%}", f"{share:.2%}", direct]


if __name__ == "__main__":
    main()

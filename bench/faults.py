"""What fault rules cost: faults.py [--rounds 40] [--requests 1000] [--no-callgrind] [case…]

The same broker runs three times: without a rule, after rules were set and taken back, and with ten rules that are about
other topics, clients and APIs, two of them about the API that is asked. A raw socket asks each. The figures for a
request are those of `journal.py`: instructions of the broker by callgrind, its processor time, and the share of that
time that the ten rules take, from the instructions that they add; beside it the ratio that was measured directly, with
the interval that holds the median with 95 %.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from instructions import in_callgrind, launched
from journal import processor_ns, run
from pairs import interval
from peers import DATA_DIR

from kmini.broker.network.event_loop import new_event_loop
from support.server_process import PORT

ROUNDS, REQUESTS = 40, 1_000
CASES = ("produce", "fetch", "poll")
NONE, TAKEN_BACK, TEN = "none", "taken back", "ten"

RULES: list[dict[str, Any]] = [
    {"when": {"api": ["Produce"], "topic": "orders"}, "do": [{"error": "NOT_LEADER_OR_FOLLOWER"}]},
    {"when": {"api": ["Produce"], "client_id": "app-*"}, "do": [{"delay": "10ms"}]},
    {"when": {"api": ["Fetch"], "topic": "orders"}, "do": [{"delay": "10ms"}]},
    {"when": {"api": ["Fetch"], "client_id": "app-*"}, "do": [{"drop": True}]},
    {"when": {"api": ["Metadata"], "topic": "orders"}, "do": [{"error": "LEADER_NOT_AVAILABLE"}]},
    {"when": {"api": ["JoinGroup"], "group": "billing"}, "do": [{"hold": "before"}]},
    {"when": {"api": ["Heartbeat"], "group": "billing"}, "do": [{"error": "REBALANCE_IN_PROGRESS"}]},
    {"when": {"api": ["OffsetCommit"], "group": "billing"}, "do": [{"error": "NOT_COORDINATOR"}]},
    {"when": {"api": ["EndTxn"], "transactional_id": "payments"}, "do": [{"disconnect": True, "applied": True}]},
    {"when": {"api": ["FindCoordinator"]}, "do": [{"error": "COORDINATOR_NOT_AVAILABLE"}]},
]


async def serve(port: int, data_dir: str, rules: str) -> None:
    """Run a broker with rules, or without, until the process is ended."""
    from kmini.broker.broker import BrokerServer
    from kmini.broker.settings.broker_config import BrokerConfig

    config = BrokerConfig.parse({"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    broker = await BrokerServer.start(config, data_dir)
    if rules != NONE:
        from kmini.broker.faults.active_rules import ActiveRules
        from kmini.broker.faults.rule_checks import rules_from_json

        active = ActiveRules()
        active.attach(broker)
        active.arm(rules_from_json(RULES, active.possible()))
        if rules == TAKEN_BACK:
            active.clear()
    await asyncio.Event().wait()


def command(rules: str) -> list[str]:
    words = ["env", sys.executable, __file__, "--serve", rules, "--port", PORT]
    return [*words, "--data-dir", DATA_DIR]


def rounds(case: str, count: int, requests: int) -> Iterator[tuple[float, float, float]]:
    """For each round the nanoseconds of a request without rules and with ten, and the share of user mode."""
    with ExitStack() as stack:
        clients = [stack.enter_context(launched(command(rules), replicas=1)) for rules in (NONE, TEN)]
        for client in clients:
            run(client, case, requests)
        for number in range(count):
            took = {}
            for client in clients if number % 2 else reversed(clients):
                assert client.process is not None
                before, _ = processor_ns(client.process.pid)
                run(client, case, requests)
                after, in_user_mode = processor_ns(client.process.pid)
                took[client] = (after - before) / requests
            yield took[clients[0]], took[clients[1]], in_user_mode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of a round")
    parser.add_argument("--no-callgrind", action="store_true", help="processor time only")
    parser.add_argument("--serve", choices=(NONE, TAKEN_BACK, TEN), help=argparse.SUPPRESS)
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
    print(
        "| a request | instructions: none | taken back | ten rules | µs none | user mode | ten rules | ratio (95 %) |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
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
        return ["", "", "", f"{off_us:.1f}", f"{in_user_mode:.0%}", "", direct]
    none, taken_back, ten = (in_callgrind(command(rules), case, 300) for rules in (NONE, TAKEN_BACK, TEN))
    share = (ten - none) / none * in_user_mode
    counted = [f"{none:,.0f}", f"{taken_back:,.0f}", f"{ten:,.0f}"]
    return [*counted, f"{off_us:.1f}", f"{in_user_mode:.0%}", f"{share:.2%}", direct]


if __name__ == "__main__":
    main()

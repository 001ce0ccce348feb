"""Play histories of a cluster in trouble, and say which promises they break.

    python tests/simulate.py 1-1000                      # the histories of these seeds
    python tests/simulate.py 17                          # one of them, as it happened
    python tests/simulate.py 17 --steps 3,7 --actors p1  # a part of it

A history that breaks a promise is made as short as it can be, and printed with the test that plays it. In the end a
table says how often each fault met each state of the cluster: a fault that never met a state is a hole.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from run import git

from support.simulation.history import KINDS, Outcome, play
from support.simulation.shrinking import Failing, shortest
from support.simulation.world import Violation

MOST_SHOWN = 3
"""Failing histories that a run makes short and shows; of the others it names the seeds."""


def play_quietly(seed: int) -> tuple[int, Outcome | None]:
    """The outcome of a history, without its lines; None if it breaks a promise."""
    logging.lastResort = None
    try:
        return seed, play(seed)._replace(lines=[])
    except Violation:
        return seed, None


def run(seeds: Sequence[int], *, stops: bool = False) -> int:
    """Play many histories, or those up to the first that fails. The exit status."""
    began_s, simulated_s = time.monotonic(), 0.0
    met: Counter[tuple[str, str]] = Counter()
    failing = []
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for seed, outcome in processes.map(play_quietly, seeds, chunksize=4):
            if outcome is None:
                failing.append(seed)
                print(f"seed {seed} breaks a promise", flush=True)
                if stops:
                    processes.shutdown(cancel_futures=True)
                    return 1
            else:
                met += outcome.met
                simulated_s += outcome.simulated_s
    print(table(met))
    for seed in failing[:MOST_SHOWN]:
        show(shortest(seed))
    took_s = time.monotonic() - began_s
    hours = simulated_s / 3600
    print(f"{len(seeds)} histories, {hours:.1f} simulated hours in {took_s:.0f} s; failing: {failing or 'none'}")
    return 1 if failing else 0


def show(failing: Failing | None) -> None:
    if failing is None:
        print("it does not fail when it is played again: that is a fault of the simulation")
        return
    commit = git("describe", "--always", "--dirty").strip()
    kinds = dict.fromkeys(name[0] for name in failing.actors)
    print(f"{failing.error}\n\nClients: {'; '.join(f'{kind} {KINDS[kind]}' for kind in kinds)}.")
    print(f"Commit {commit or 'unknown'}, seed {failing.seed}, {len(failing.steps)} steps.")
    chosen = f"--steps {_list(failing.steps)} --actors {_list(failing.actors)}"
    print(f"To play it:\n\n    python tests/simulate.py {failing.seed} {chosen}\n\nThe test:\n\n{failing.as_test}")


def _list(parts: Sequence[object]) -> str:
    return ",".join(map(str, parts)) or "none"


def table(met: Counter[tuple[str, str]]) -> str:
    """How often each fault met each state, as a table of Markdown."""
    states = sorted({state for _, state in met})
    lines = [f"| fault | {' | '.join(states)} |", "|---" * (len(states) + 1) + "|"]
    for fault in sorted({fault for fault, _ in met}):
        lines.append(f"| {fault} | {' | '.join(str(met[fault, state]) for state in states)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", help="a seed, or first and last ones: 1-1000 or 1-1000,10001-10300")
    parser.add_argument("--stop", action="store_true", help="at the first history that breaks a promise")
    parser.add_argument("--steps", help="only these steps of the nemesis: 3,7, or none")
    parser.add_argument("--actors", help="only these clients: p1,d1")
    options = parser.parse_args(arguments)
    if "-" in options.seeds:
        ends = [map(int, part.split("-")) for part in options.seeds.split(",")]
        return run([seed for first, last in ends for seed in range(first, last + 1)], stops=options.stop)
    steps = None if options.steps is None else [int(step) for step in options.steps.split(",") if step != "none"]
    actors = None if options.actors is None else options.actors.split(",")
    logging.lastResort = None  # a history says what is worth knowing
    try:
        outcome = play(int(options.seeds), steps=steps, actors=actors)
    except Violation as error:
        print(error)
        return 1
    print("\n".join(outcome.lines))
    print(f"{outcome.simulated_s:.1f} simulated seconds, {outcome.acknowledged} records; digest {outcome.digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

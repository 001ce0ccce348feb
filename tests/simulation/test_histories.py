"""A cluster in trouble keeps what it promised, in histories that a seed says to the byte."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from support.simulation import history
from support.simulation.history import play
from support.simulation.world import Violation
from support.stages import ROOT

pytestmark = pytest.mark.promise

FOUND = (1, 5, 6, 28, 52, 107, 145, 185, 214, 223, 344, 424, 445, 783, 812, 1639, 2152, 3783)
FOUND += (10267, 11125, 20006, 30069)
"""Seeds that have found a fault. It is mended, so they may find nothing any more when the simulation changes.

- 1: after a truncation above its high watermark a replica took the first transaction for the last stable offset.
- 5: the state of a share group was deleted below a snapshot that no follower had yet.
- 6: a broker that was away while a topic was deleted used its log for the next topic of that name.
- 28, 52: so did a broker whose log had lost its topic id, because the power failed.
- 107: a broker that was cut off answered a fetch by the id of the new topic with records of the deleted one.
- 145: a share fetch whose broker led no more went round until its wait was over.
- 185: a fetch that a broker had sent before its power failed came late, and brought it into the ISR without what it
  had lost.
- 214, 223: a move of log time aborted open transactions once another broker coordinated them.
- 344: a share group was given records again that it had accepted: a write of its state that was tried again undid a
  later one.
- 424: a follower that had truncated its log was not told the log start again, and stayed out of the ISR.
- 445: the log of a follower began earlier after an append that failed.
- 783: of several transactions that a follower appended at once, its index gave the first one a last stable offset that
  hid the others from readers.
- 812: a fetch of a follower came late and put back what its leader knew of it. The follower stayed out of the ISR until
  something was written.
- 1639: a truncation and a power loss left zeros below the recovery point, and the follower could truncate no more.
- 2152: a power loss emptied a segment that was rolled and not flushed, and recovery took that for the work of
  compaction.
- 3783: a partition that another broker's full disk refused came back with a power loss, and stayed.
- 10267: while the cluster stopped, DeleteRecords was answered though replicas in sync had not followed.
- 11125: a follower whose disk was full told its leader of a log start that was in no checkpoint.
- 20006: a move of log time waited without end for the abort of a transaction that no other replica took.
- 30069: a fetch session listened no more for a topic that had the name of a deleted one, and a follower stayed out of
  the ISR.
"""


PLAYED = {*range(1, 25), *range(10_001, 10_009), *range(20_001, 20_009), *range(30_001, 30_009)}


@pytest.mark.parametrize("seed", sorted({*PLAYED, *FOUND}))
def test_no_promise_is_broken_whatever_happens_to_the_cluster(seed: int) -> None:
    assert play(seed).acknowledged, "nobody got anything done"


def digest_in_a_new_process(seed: int, hash_seed: int) -> str:
    command = [sys.executable, "tests/simulate.py", str(seed)]
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.sockets  # it starts processes
def test_a_seed_is_one_history_in_every_process() -> None:
    for seed in (5, 11):
        assert digest_in_a_new_process(seed, hash_seed=1) == digest_in_a_new_process(seed, hash_seed=2)


def test_a_seed_is_one_history_whatever_was_played_before() -> None:
    first = play(19)
    play(45)
    assert play(19) == first


@pytest.mark.sockets  # it starts a thread
def test_a_seed_is_one_history_whatever_other_threads_of_the_process_do() -> None:
    is_over = threading.Event()

    def sleep() -> None:
        while not is_over.is_set():
            time.sleep(0.001)
            os.urandom(1)

    alone = play(19)
    other = threading.Thread(target=sleep)
    other.start()
    try:
        assert play(19) == alone
    finally:
        is_over.set()
        other.join()


def test_a_history_without_some_steps_and_clients_can_be_played() -> None:
    outcome = play(19, steps=(1, 2, 3), actors=("p1", "r1"))
    assert {line.split()[1] for line in outcome.lines if line.split()[1] in ("p1:", "p2:")} == {"p1:"}
    assert sum(outcome.met.values()) <= 3


def test_a_history_in_which_time_stands_still_while_something_goes_round_breaks_a_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def go_round(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(history, "_live", go_round)
    monkeypatch.setattr(history, "MOST_PROCESSOR_S", 0.1)
    with pytest.raises(Violation, match=r"(?s)more than 0.1 s of processor time.*seed 19"):
        play(19)


def test_what_breaks_a_promise_is_told_with_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> None:
        raise Violation("t-0 offset 7 is gone")

    monkeypatch.setattr("support.simulation.history._check_promises", lose)
    with pytest.raises(Violation, match=r"(?s)t-0 offset 7 is gone.*seed 19:.*everything is repaired"):
        play(19)

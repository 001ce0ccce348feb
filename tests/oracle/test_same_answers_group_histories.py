"""Histories of groups of the new protocols (KIP-848, KIP-932, KIP-1071), drawn at random, are answered as Apache Kafka
answers them, and leave the same records; by the assignors that may choose between members, in numbers."""

from __future__ import annotations

import os
import random

import pytest

from support.oracle.consumer_cast import ConsumerCast, consumer_cast
from support.oracle.group_histories import ConsumerHistory, ShareHistory, StreamsHistory
from support.oracle.share_cast import share_cast
from support.oracle.streams_cast import streams_cast
from support.transcript import SameAnswers, Transcript

pytestmark = pytest.mark.deep

IS_SOAK = bool(os.environ.get("KMINI_SOAK"))
SEEDS = range(100 if IS_SOAK else 8)
SLOWER_SEEDS = range(25 if IS_SOAK else 4)
"""Of groups whose topics, or states of partitions, come after the answers."""
STEPS = 120
"""Of each history."""


@pytest.mark.parametrize("seed", SEEDS)
def test_consumers(same_answers: SameAnswers, seed: int) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, **ConsumerHistory.partitions) as cast:
            ConsumerHistory(cast, seed).play(STEPS)

    same_answers(script)


@pytest.mark.parametrize("seed", SLOWER_SEEDS)
def test_streams(same_answers: SameAnswers, seed: int) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, **StreamsHistory.partitions) as cast:
            StreamsHistory(cast, seed).play(STEPS)

    same_answers(script)


@pytest.mark.parametrize("seed", SLOWER_SEEDS)
def test_share_consumers(same_answers: SameAnswers, seed: int) -> None:
    def script(transcript: Transcript) -> None:
        with share_cast(transcript, **ShareHistory.partitions) as cast:
            ShareHistory(cast, seed).play(STEPS)

    same_answers(script)


def numbers_of(cast: ConsumerCast, members: list[str], before: dict[str, set[tuple[str, int]]]) -> dict[str, object]:
    """How many partitions each member has, in order, and how many have come to a member that was there before."""
    has = {member: places_of(cast, member) for member in members}
    moved = sum(len(has[member] - before[member]) for member in members if member in before)
    assert len(set().union(*has.values())) == sum(map(len, has.values())), "a partition has two owners"
    return {"sizes": sorted(map(len, has.values())), "moved": moved}


def places_of(cast: ConsumerCast, member: str) -> set[tuple[str, int]]:
    return {(topic, partition) for topic, numbers in cast.assigned[member].items() for partition in numbers}


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_gives_as_many_and_moves_as_few(same_answers: SameAnswers, seed: int) -> None:
    """All members read the same topics. Which one leaves is told by what it has, because either server may give the odd
    partition to another one."""

    def script(transcript: Transcript) -> None:
        dice = random.Random(seed)
        topics = {name: dice.randrange(1, 9) for name in "tuv"}
        with consumer_cast(transcript, **topics) as cast:
            present: list[str] = []
            for number in range(14):
                before = {member: places_of(cast, member) for member in present}
                if len(present) < 2 or dice.random() < 0.6:
                    present.append(f"m{number}")
                    cast.join("", present[-1], *topics, server_assignor="uniform", quietly=True)
                else:
                    present.sort(key=lambda member: (len(before[member]), member))
                    cast.leave("", present.pop(dice.choice((0, -1))), quietly=True)
                cast.settle(f"after {number}", *present, quietly=True)
                transcript.note(f"{number}: {len(present)} members", numbers_of(cast, present, before))
                epochs = {cast.epochs[member] for member in present}
                transcript.note(f"{number}: epochs", sorted(epochs))

    same_answers(script)

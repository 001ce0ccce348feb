"""Mutated requests of every API and version, hostile frames and garbage against a broker in a process of its own.

Every connection gets its answers, in order, or is closed; the broker stays alive, holds nothing of those who are gone,
and serves somebody who does nothing wrong meanwhile.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from mutations import Names, every_version, mutated, random_message, request_frame
from swarm import LAST, LAST_REQUEST, Stranger, until_done
from watched import WatchedBroker
from well_behaved import WellBehavedClient

from kmini.protocol.messages import (
    REQUESTS,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
)
from kmini.protocol.schema import Request
from kmini.testing import Wire

AT_ONCE = 40
REQUESTS_EACH = 10
HEADER_BYTES = 12
"""Size, API key, version and correlation id: if these are changed nobody knows which answer is to which request."""
FOREVER_MS = 1 << 32
"""Longer than any request can ask to be kept waiting."""
FILE_DELETE_DELAY_MS = 60_000
MIB = 1 << 20

Rounds = Callable[[int, int], int]


def have_topic(wire: Wire, name: str) -> bytes:
    topics = [CreateTopicsRequest.Topic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])]
    wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
    found = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=name)])).topics[0]
    return bytes(found.topic_id)


def delete_other_topics(wire: Wire, kept: tuple[str, ...]) -> None:
    """What was created on the way is not what is measured."""
    names = [topic.name for topic in wire.ask(MetadataRequest(topics=None)).topics if topic.name not in kept]
    wire.ask(DeleteTopicsRequest(topics=[], topic_names=names, timeout_ms=60_000), 5)


class Attack:
    """An endless supply of streams, from one seed."""

    def __init__(self, names: Names, seed: str) -> None:
        self.dice = random.Random(seed)
        self._valid: list[tuple[type[Request], int, bytearray]] = []
        for cls, version in every_version(iter(REQUESTS.values())):
            assert issubclass(cls, Request)
            for _ in range(8):
                frame = request_frame(random_message(cls, version, self.dice, names), version, 0)
                self._valid.append((cls, version, frame))

    def orderly_stream(self) -> tuple[bytes, list[int]]:
        """Requests that are whole, some valid and some changed behind the header, and their correlation ids."""
        stream = bytearray()
        ids = []
        for _ in range(REQUESTS_EACH):
            _, _, valid = self.dice.choice(self._valid)
            frame = mutated(valid, self.dice, keep=HEADER_BYTES) if self.dice.random() < 0.3 else bytearray(valid)
            ids.append(self.dice.randrange(1 << 30))
            struct.pack_into(">i", frame, 0, len(frame) - 4)
            struct.pack_into(">i", frame, 8, ids[-1])
            stream += frame
        return bytes(stream + LAST_REQUEST), [*ids, LAST]

    def disorderly_stream(self) -> bytes:
        """Garbage, half frames, frames with any size and any header."""
        stream = bytearray()
        for _ in range(REQUESTS_EACH):
            _, _, valid = self.dice.choice(self._valid)
            match self.dice.randrange(5):
                case 0:
                    stream += self.dice.randbytes(self.dice.randrange(1, 200))
                case 1:
                    stream += valid[: self.dice.randrange(len(valid))]
                case 2:
                    frame = bytearray(valid)
                    struct.pack_into(">hh", frame, 4, self.dice.randrange(-2, 100), self.dice.randrange(-2, 30))
                    stream += frame
                case _:
                    stream += mutated(valid, self.dice)
        return bytes(stream)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory and descriptors are read from /proc")
def test_mutated_requests_are_answered_or_closed_and_leave_nothing_behind(
    watched_broker: Callable[..., WatchedBroker], rounds: Rounds
) -> None:
    broker = watched_broker(connections_max_idle_ms=-1)
    with Wire(broker.bootstrap_servers, timeout_s=60) as wire:
        have_topic(wire, "calm")
        attack = Attack(Names(("t", "gone"), (have_topic(wire, "t"),)), "running broker")
    attack_with(broker, attack, rounds(600, 5_000))  # compiles codecs, fills caches
    broker.let_records_age(2 * FILE_DELETE_DELAY_MS)
    before = broker.settled(broker.state()._replace(connections=0, purgatory=0))
    memory = broker.resident_bytes()
    with WellBehavedClient(broker.bootstrap_servers, "calm") as client:
        attack_with(broker, attack, rounds(6_000, 100_000))
        report = client.report()
    broker.let_records_age(2 * FILE_DELETE_DELAY_MS)
    after = broker.settled(before)
    assert all(now <= then for now, then in zip(after[:-1], before[:-1], strict=True)), (before, after)
    print(f"{(broker.resident_bytes() - memory) / MIB:.1f} MiB more; {report}")
    assert broker.resident_bytes() - memory <= 128 * MIB
    assert report.trouble == ""
    assert report.records > 0
    assert report.p99_ms <= 500
    crashes = [line for line in broker.log() if "Traceback" in line or "ERROR" in line]
    assert crashes == []


def attack_with(broker: WatchedBroker, attack: Attack, requests: int) -> None:
    """Go on until so many requests were answered or had their connection closed; clean up now and then."""
    served = 0
    for wave in range(requests):
        if served >= requests:
            return
        served += one_wave(broker, attack)
        if wave % 10 == 9 or served >= requests:
            with Wire(broker.bootstrap_servers, timeout_s=60) as wire:
                delete_other_topics(wire, ("t", "calm"))
                have_topic(wire, "t")
    raise AssertionError(f"only {served} requests were served")


def one_wave(broker: WatchedBroker, attack: Attack) -> int:
    """Many connections at once. Returns how many requests were answered, in order, or had their connection closed."""
    dice = attack.dice
    strangers = []
    expected: list[list[int]] = []
    for _ in range(AT_ONCE):
        if dice.random() < 0.75:
            stream, ids = attack.orderly_stream()
            expected.append(ids)
            strangers.append(Stranger(broker.address, stream, leaves=dice.random() < 0.2))
        else:
            expected.append([])
            strangers.append(Stranger(broker.address, attack.disorderly_stream(), leaves=True))
    assert until_done(strangers, on_silence=lambda: broker.let_time_pass(FOREVER_MS)) == 0
    for stranger, ids in zip(strangers, expected, strict=True):
        due = iter(ids)
        assert not ids or all(answered in due for answered in stranger.answered)
    return sum(len(stranger.answered) + (LAST not in stranger.answered) for stranger in strangers)

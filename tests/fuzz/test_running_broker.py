"""Mutated requests of every API and version, hostile frames and garbage against a broker in a process of its own.

Every connection gets its answers, in order, or is closed; the broker stays alive, holds nothing of clients that are
gone, and serves a client that does nothing wrong meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.protocol.messages import CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest
from kmini.testing import Wire
from support.fuzz.attack import Attack, one_wave
from support.fuzz.mutations import Names
from support.fuzz.watched_broker import WatchedBroker
from support.fuzz.well_behaved_client import WellBehavedClient

pytestmark = pytest.mark.soak

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
                # In the end it is made anew: requests may have added partitions to it.
                delete_other_topics(wire, ("t", "calm") if served < requests else ("calm",))
                have_topic(wire, "t")
    raise AssertionError(f"only {served} requests were served")

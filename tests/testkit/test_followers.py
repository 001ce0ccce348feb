"""What a test does to the log of a partition is done on every replica; idle followers cost a moved clock nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kmini import Cluster
from kmini.broker.clock import Clock
from kmini.client import Client
from kmini.client.produce import record
from kmini.protocol.topics import TopicPartition


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": {"replication_factor": 3}}) as running:
        yield running


def produce(cluster: Cluster, value: bytes, topic: str = "orders", acks: int = -1, key: bytes | None = None) -> None:
    async def run() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            await client.produce(topic, 0, [record(value, key=key)], acks=acks)

    asyncio.run(run())


def segments_of(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    """The base offsets of the segments of each replica."""
    return {
        broker.node_id: [segment.base_offset for segment in broker.logs.logs[TopicPartition(topic, 0)].segments]
        for broker in cluster._operations.running
    }


def values_after_failover(cluster: Cluster, topic: str) -> list[bytes | None]:
    cluster.move_leader(topic, to=cluster.replicas(topic)[1])
    return [record.value for record in cluster.records(topic)]


def test_what_is_compacted_is_so_on_every_replica(cluster: Cluster) -> None:
    cluster.create_topic("users", replication_factor=3, config={"cleanup.policy": "compact"})
    for value in (b"alice", b"Alice", b"ALICE"):
        produce(cluster, value, topic="users", key=b"1")
    (report,) = cluster.topic("users").compact()
    assert report.end_offset == 3
    assert segments_of(cluster, "users") == {1: [0, 3], 2: [0, 3], 3: [0, 3]}
    assert values_after_failover(cluster, "users") == [b"ALICE"]
    cluster.move_leader("users")
    cluster.hold(cluster.replicas("users")[2])
    produce(cluster, b"bob", topic="users", key=b"1", acks=1)
    cluster.compact("users")
    assert values_after_failover(cluster, "users") == [b"ALICE"], "it is hidden until the held follower has it"


@pytest.mark.parametrize("of", ["topic", "cluster"])
def test_what_is_rolled_and_retained_is_so_on_every_replica(cluster: Cluster, of: str) -> None:
    cluster.create_topic("events", replication_factor=3, config={"retention.ms": "3600000"})
    for end in (1, 2):
        produce(cluster, b"old", topic="events")
        cluster.topic("events").roll()
        assert segments_of(cluster, "events") == {broker: [*range(end), end] for broker in (1, 2, 3)}
    cluster._operations.clock._ahead_ms += 7_200_000  # no task runs, but that of the method
    assert {one.log_start_offset for one in cluster.offsets("events").values()} == {0}
    (cluster if of == "cluster" else cluster.topic("events")).apply_retention()
    assert {one.log_start_offset for one in cluster.offsets("events").values()} == {2}
    assert values_after_failover(cluster, "events") == []


def test_what_is_done_to_every_replica_waits_for_none_that_cannot_follow(cluster: Cluster) -> None:
    _, held, cut_off = cluster.replicas("orders")
    cluster.hold(held)
    cluster.cut_off(cut_off)
    produce(cluster, b"one", acks=1)
    cluster.topic("orders").roll()
    cluster.topic("orders").apply_retention()
    cluster.reconnect(cut_off)
    cluster.release(held)
    cluster.wait_until_in_sync("orders")


def test_a_month_of_liveness_runs_what_falls_due_and_no_more(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(cluster, b"one")
    fired: list[object] = []
    fire = Clock._fire
    monkeypatch.setattr(Clock, "_fire", lambda clock, timer: fired.append(timer) or fire(clock, timer))
    cluster.clock.advance("30d", liveness=True)
    assert len(fired) < 1_000
    assert cluster.isr("orders") == {1, 2, 3}


def test_leadership_returns_to_the_first_replica_after_a_rest() -> None:
    settings = {"auto.leader.rebalance.enable": True, "leader.imbalance.check.interval.seconds": 600}
    with Cluster(config=settings, topics={"orders": {"replication_factor": 3}}) as cluster:
        cluster.clock.advance("1d", liveness=True)
        first, second, _ = cluster.replicas("orders")
        cluster.move_leader("orders", to=second)
        cluster.clock.advance("10m", liveness=True)
        assert cluster.leader("orders") == first

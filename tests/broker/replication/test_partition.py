"""A partition as its leader sees it: high and low watermark, the ISR, and which requests are refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import elections, topics
from kmini.broker.local_cluster import LocalCluster
from kmini.client import Client
from kmini.client.produce import record
from kmini.protocol.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
)
from kmini.protocol.messages.delete_records import HIGH_WATERMARK
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.deletion import without_checkpoint
from kmini.storage.validation import ValidatedRecords
from support.broker.clusters import Clusters
from support.broker.lone_broker import OTHER, T0, append, shared_partition, start_alone
from support.until import until_async

SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0", "replica.fetch.wait.max.ms": "100"}
LAG_MS = 10_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    broker = await start_alone(str(tmp_path), replica_lag_time_max_ms=LAG_MS)
    yield broker
    await broker.stop()


async def advance(broker: BrokerServer, duration_ms: int) -> None:
    assert isinstance(broker.clock, MovableClock)
    await broker.clock.advance(duration_ms, liveness=True)


# --- high watermark


async def test_the_high_watermark_is_the_smallest_end_of_the_replicas_in_sync(broker: BrokerServer) -> None:
    partition = shared_partition(broker)
    append(broker, partition, 3)
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 3)
    partition.follower_fetched(OTHER, 2, 0)
    assert partition.log.high_watermark == 2
    partition.follower_fetched(OTHER, 3, 0)
    assert partition.log.high_watermark == 3


async def test_callbacks_run_in_order_once_the_high_watermark_is_beyond_their_offset(broker: BrokerServer) -> None:
    partition = shared_partition(broker)
    append(broker, partition, 2)
    called: list[int] = []
    for offset in (0, 1):
        partition.when_replicated(offset, lambda offset=offset: called.append(offset))  # type: ignore[misc]
    assert called == []
    partition.follower_fetched(OTHER, 1, 0)
    assert called == [0]
    partition.follower_fetched(OTHER, 2, 0)
    assert called == [0, 1]
    partition.when_replicated(1, lambda: called.append(-1))
    assert called == [0, 1, -1]


async def test_a_broker_that_left_no_longer_holds_the_high_watermark_back(broker: BrokerServer) -> None:
    partition = shared_partition(broker)
    append(broker, partition, 1)
    assert partition.log.high_watermark == 0
    elections.leave(broker.controller, OTHER)
    assert (partition.state.isr, partition.log.high_watermark) == ((1,), 1)


async def test_a_follower_that_has_caught_up_and_may_not_join_yet_holds_the_high_watermark_back(
    broker: BrokerServer,
) -> None:
    """Else it could never join while records are appended: it would always lack one below the high watermark."""
    partition = shared_partition(broker)
    append(broker, partition, 2)
    await advance(broker, LAG_MS + 1)
    partition.shrink_isr()
    partition.delete_records(1, without_checkpoint)
    partition.follower_fetched(OTHER, 2, 0)  # it still has the record that is deleted here
    append(broker, partition, 1)
    assert (partition.state.isr, partition.log.high_watermark) == ((1,), 2)
    partition.follower_fetched(OTHER, 2, 1)
    assert (partition.state.isr, partition.log.high_watermark) == ((1, OTHER), 2)
    partition.follower_fetched(OTHER, 3, 1)
    assert partition.log.high_watermark == 3


async def test_the_high_watermark_stands_still_while_too_few_replicas_are_in_sync(clusters: Clusters) -> None:
    """What one more failure could take back is shown to no consumer (KIP-966)."""
    cluster = await clusters.start(3, SETTINGS)
    topics.create(cluster.brokers[1], "two", replication_factor=3, configs={"min.insync.replicas": "2"})
    two = TopicPartition("two", 0)
    partition = cluster.brokers[cluster.state(two).leader].replica_manager.partitions[two]
    first, second = sorted({1, 2, 3} - {cluster.state(two).leader})
    for node_id in (first, second):
        await cluster.kill(node_id)
    partition.append(ValidatedRecords.of(build_batch([Record(0, 0, None, b"value")])), 0)
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 1)
    await cluster.restart(first)
    await until_async(lambda: partition.log.high_watermark == 1)


# --- ISR


async def test_a_follower_that_lags_leaves_the_isr_and_returns_when_it_has_caught_up(broker: BrokerServer) -> None:
    partition = shared_partition(broker)
    append(broker, partition, 2)
    partition.shrink_isr()
    assert partition.state.isr == (1, OTHER), "it has replica.lag.time.max.ms"
    await advance(broker, LAG_MS + 1)
    partition.shrink_isr()
    assert (partition.state.isr, partition.log.high_watermark) == ((1,), 2)
    partition.follower_fetched(OTHER, 1, 0)
    assert partition.state.isr == (1,), "it lacks a record below the high watermark"
    partition.follower_fetched(OTHER, 2, 0)
    assert partition.state.isr == (1, OTHER)


async def test_an_append_after_an_idle_hour_gives_a_follower_the_whole_lag_time(broker: BrokerServer) -> None:
    """An idle follower fetches without naming the partition (KIP-227): it had everything until this append."""
    partition = shared_partition(broker)
    append(broker, partition)
    partition.follower_fetched(OTHER, 1, 0)
    await advance(broker, 3_600_000)
    append(broker, partition)
    partition.shrink_isr()
    assert partition.state.isr == (1, OTHER)
    await advance(broker, LAG_MS + 1)
    partition.shrink_isr()
    assert partition.state.isr == (1,)


async def test_a_follower_that_still_has_deleted_records_does_not_join_the_isr(broker: BrokerServer) -> None:
    """As the leader it would show them again (KIP-107)."""
    partition = shared_partition(broker)
    append(broker, partition, 2)
    await advance(broker, LAG_MS + 1)
    partition.shrink_isr()
    partition.delete_records(1, without_checkpoint)
    partition.follower_fetched(OTHER, 2, 0)
    assert partition.state.isr == (1,)
    partition.follower_fetched(OTHER, 2, 1)
    assert partition.state.isr == (1, OTHER)


async def test_a_follower_is_in_sync_only_with_all_that_the_leader_was_elected_with(clusters: Clusters) -> None:
    """A new leader may hold records above the high watermark that were acknowledged; a replica without them must not be
    elected after it."""
    cluster = await clusters.start(3, SETTINGS)
    topics.create(cluster.brokers[1], "t", replication_factor=3)
    for broker in cluster.brokers.values():
        await broker.replica_manager.fetcher_manager.hold()
    old = cluster.state(T0).leader
    new, behind = sorted({1, 2, 3} - {old})
    for offset in range(2):
        batch = build_batch([Record(0, 0, None, b"value")], base_offset=offset, leader_epoch=0)
        cluster.brokers[new].logs.logs[T0].append_as_follower(bytes(batch), now_ms=0)
    cluster.move_leader(T0, new)
    elections.alter_isr(cluster.controller, T0, cluster.state(T0).leader_epoch, (old, new))
    partition = leader(cluster).replica_manager.partitions[T0]
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 2)
    partition.follower_fetched(behind, 1, 0)
    assert behind not in cluster.state(T0).isr
    partition.follower_fetched(behind, 2, 0)
    assert behind in cluster.state(T0).isr


def leader(cluster: LocalCluster) -> BrokerServer:
    return cluster.brokers[cluster.state(T0).leader]


# --- deletions


async def test_the_low_watermark_is_the_smallest_log_start_of_the_live_replicas(broker: BrokerServer) -> None:
    partition = shared_partition(broker)
    append(broker, partition, 3)
    partition.follower_fetched(OTHER, 3, 0)
    assert partition.delete_records(2, without_checkpoint) == 2
    assert (partition.log.log_start_offset, partition.low_watermark) == (2, 0)
    partition.follower_fetched(OTHER, 3, 2)
    assert partition.low_watermark == 2
    partition.delete_records(HIGH_WATERMARK, without_checkpoint)
    elections.leave(broker.controller, OTHER)
    assert partition.low_watermark == 3


async def test_a_replica_in_sync_counts_for_the_low_watermark_while_the_cluster_stops(broker: BrokerServer) -> None:
    """No broker is live then, and the next start finds the same ones in sync: any of them may lead."""
    partition = shared_partition(broker)
    append(broker, partition, 3)
    partition.follower_fetched(OTHER, 3, 0)
    partition.delete_records(2, without_checkpoint)
    broker.controller.fence(OTHER)
    assert partition.low_watermark == 0


@pytest.mark.parametrize("offset", [-2, 1])
async def test_records_are_deleted_up_to_the_high_watermark_only(broker: BrokerServer, offset: int) -> None:
    partition = shared_partition(broker)
    append(broker, partition, 1)
    with pytest.raises(OffsetOutOfRange):
        partition.delete_records(offset, without_checkpoint)


async def test_records_of_a_topic_that_is_compacted_only_are_not_deleted_by_offset(broker: BrokerServer) -> None:
    partition = shared_partition(broker, cleanup_policy="compact")
    with pytest.raises(PolicyViolation):
        partition.delete_records(0, without_checkpoint)


@pytest.mark.sockets
async def test_a_leader_that_is_cut_off_does_not_delete_as_if_it_were_the_last_replica(clusters: Clusters) -> None:
    cluster = await clusters.start(3, SETTINGS)
    topics.create(cluster.brokers[1], "t", replication_factor=3)
    old = leader(cluster)
    async with Client(",".join(broker.address for broker in cluster.brokers.values())) as client:
        for _ in range(3):
            await client.produce("t", 0, [record(b"value")])
    await until_async(lambda: old.logs.logs[T0].high_watermark == 3)
    await cluster.cut_off(old.node_id)
    cluster._fence(old.node_id)  # its session is over
    for node_id in {1, 2, 3} - {old.node_id}:
        await cluster.kill(node_id)
    partition = old.replica_manager.partitions[T0]
    partition.delete_records(2, without_checkpoint)
    assert partition.low_watermark == 0, "the new leader may have all of it"


# --- refusals


async def test_a_request_with_another_leader_epoch_is_refused(broker: BrokerServer) -> None:
    partition = shared_partition(broker)
    state = partition.state
    broker.controller.change_partitions(
        {(partition.log.topic_id, 0): state._replace(leader_epoch=state.leader_epoch + 1)}
    )
    current = broker.replica_manager.partitions[T0]
    current.check_leader_epoch(state.leader_epoch + 1)
    current.check_leader_epoch(-1)
    with pytest.raises(FencedLeaderEpoch):
        current.check_leader_epoch(state.leader_epoch)
    with pytest.raises(UnknownLeaderEpoch):
        current.check_leader_epoch(state.leader_epoch + 2)


async def test_acks_all_is_refused_while_fewer_replicas_are_in_sync_than_the_topic_demands(
    broker: BrokerServer,
) -> None:
    partition = shared_partition(broker, min_insync_replicas="2")
    partition.check_min_isr()
    elections.leave(broker.controller, OTHER)
    assert partition.is_under_min_isr
    with pytest.raises(NotEnoughReplicas):
        partition.check_min_isr()


async def test_nothing_is_appended_for_a_leader_that_is_none_any_more(broker: BrokerServer) -> None:
    """A request may have looked its partition up before it waited for something else."""
    partition = shared_partition(broker)
    state = partition.state
    changed = state._replace(leader=OTHER, leader_epoch=state.leader_epoch + 1)
    broker.controller.change_partitions({(partition.log.topic_id, 0): changed})
    with pytest.raises(NotLeaderOrFollower):
        append(broker, partition)
    assert partition.log.log_end_offset == 0

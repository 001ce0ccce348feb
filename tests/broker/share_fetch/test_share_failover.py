"""A share group on three brokers (KIP-932): leaders of records and states come and go; what was accepted stays so."""

from __future__ import annotations

import asyncio

import pytest

from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.share_state.persister import SharePartitionKey
from kmini.broker.share_state.share_coordinator import coordinator_key
from kmini.broker.share_state.share_partition_state import Run
from kmini.protocol.topics import SHARE_GROUP_STATE, TopicPartition
from support.broker.clusters import Clusters
from support.broker.share_readers import ACCEPT, RELEASE, ShareReaders
from support.until import until_async

pytestmark = pytest.mark.sockets

RECORDS = TopicPartition("t", 0)
COUNT = 24


def is_whole(cluster: LocalCluster) -> bool:
    """Whether all replicas of the records and of the states are in sync."""
    states = [cluster.state(place) for place in all_places(cluster)]
    return all(state.leader >= 0 and len(state.isr) == 3 for state in states)


def all_places(cluster: LocalCluster) -> list[TopicPartition]:
    controller = next(iter(cluster.brokers.values())).controller
    return [
        TopicPartition(name, number)
        for name in ("t", SHARE_GROUP_STATE)
        for number in range(len(controller.topics[name].partitions))
    ]


async def test_what_was_accepted_stays_so_while_leaders_come_and_go(clusters: Clusters) -> None:
    cluster = await clusters.start(3, share_coordinator_state_topic_num_partitions=2)
    first = cluster.brokers[1]
    topics.create(first, "t", partitions=1, replication_factor=3)
    topics.create_missing(first, SHARE_GROUP_STATE)
    await until_async(lambda: is_whole(cluster))
    key = SharePartitionKey("g", first.controller.topics["t"].id, 0)
    await first.services.persister.initialize(key, 1, 0)
    state_of_key = TopicPartition(
        SHARE_GROUP_STATE, first.coordination.share_state_topic.number_of(coordinator_key(key))
    )
    leader = cluster.brokers[cluster.state(RECORDS).leader]
    ShareReaders(leader).append(*[4] * (COUNT // 4))
    await until_async(lambda: leader.replica_manager.partitions[RECORDS].log.high_watermark == COUNT)
    accepted: set[int] = set()
    for number in range(12):
        place = (RECORDS, state_of_key)[number % 2]
        readers = ShareReaders(cluster.brokers[cluster.state(RECORDS).leader])
        member = f"m{number}"
        got = await readers.fetch(member, max_records=6, max_wait_ms=5_000)
        assert got.error == "NONE"
        for begin, end, _ in got.acquired:
            assert not accepted & {*range(begin, end + 1)}
            middle = (begin + end) // 2
            acks = [(begin, middle, ACCEPT), *([(middle + 1, end, RELEASE)] if middle < end else [])]
            if await readers.acknowledge(member, *acks) == "NONE":
                accepted |= {*range(begin, middle + 1)}
        if len(accepted) == COUNT:
            break
        lost = cluster.state(place).leader
        await cluster.kill(lost)
        await cluster.restart(lost)
        await until_async(lambda: is_whole(cluster))
    assert len(accepted) > COUNT // 2


async def test_no_state_is_deleted_for_a_snapshot_that_followers_do_not_have(clusters: Clusters) -> None:
    clock = MovableClock()
    cluster = await clusters.start(
        3, clock=clock, share_coordinator_state_topic_num_partitions=1, share_coordinator_write_timeout_ms=50
    )
    first = cluster.brokers[1]
    topics.create(first, "t", partitions=1, replication_factor=3)
    topics.create_missing(first, SHARE_GROUP_STATE)
    await until_async(lambda: is_whole(cluster))
    key = SharePartitionKey("g", first.controller.topics["t"].id, 0)
    await first.services.persister.initialize(key, 1, 7)
    done = [Run(8, 9, 2, 1)]
    await first.services.persister.write(
        key, state_epoch=1, leader_epoch=0, start_offset=7, delivery_complete_count=2, runs=done
    )
    place = TopicPartition(SHARE_GROUP_STATE, 0)
    leader = cluster.state(place).leader

    def starts() -> set[int]:
        return {each.log_start_offset for each in cluster.replica_offsets(place).values()}

    followers = [
        broker.replica_manager.fetcher_manager for number, broker in cluster.brokers.items() if number != leader
    ]
    for fetchers in followers:
        await fetchers.hold()
    await clock.advance("10m")
    assert starts() == {0}
    for fetchers in followers:
        fetchers.release()
    await until_async(lambda: len({each.high_watermark for each in cluster.replica_offsets(place).values()}) == 1)
    await clock.advance("10m")
    await until_async(lambda: len(starts()) == 1 and starts() != {0})
    await cluster.kill(leader)
    await until_async(lambda: cluster.state(place).leader not in (-1, leader))
    other = cluster.brokers[cluster.state(place).leader]
    assert [*(await other.services.persister.read(key, 0)).runs] == done


async def test_a_fetch_that_waits_is_answered_at_once_when_another_broker_leads(clusters: Clusters) -> None:
    cluster = await clusters.start(3)
    topics.create(cluster.brokers[1], "t", partitions=1, replication_factor=3)
    topics.create_missing(cluster.brokers[1], SHARE_GROUP_STATE)
    await until_async(lambda: is_whole(cluster))
    former = cluster.brokers[cluster.state(RECORDS).leader]
    await former.services.persister.initialize(SharePartitionKey("g", cluster.controller.topics["t"].id, 0), 1, 0)
    readers = ShareReaders(former)
    readers.append(1)
    assert (await readers.fetch("m", max_wait_ms=60_000)).acquired == [(0, 0, 1)]
    for other in {*cluster.brokers.values()} - {former}:  # their fetches wait there, too
        await other.replica_manager.fetcher_manager.hold()
    await until_async(lambda: len(former.purgatory) == 0)
    waiting = asyncio.ensure_future(readers.fetch("m", max_wait_ms=600_000))
    await until_async(lambda: len(former.purgatory) == 1)
    cluster.move_leader(RECORDS, former.node_id % 3 + 1)
    assert (await waiting).error == "NOT_LEADER_OR_FOLLOWER"

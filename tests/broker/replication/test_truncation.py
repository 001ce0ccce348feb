"""Where a follower truncates a log that does not continue its leader's."""

from __future__ import annotations

import pytest

from kmini.broker.controller import topics
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.replication.truncation import end_of_common_epoch
from kmini.client import Client
from kmini.client.produce import record
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from support.broker.clusters import Clusters
from support.until import until_async

T0 = TopicPartition("t", 0)


@pytest.fixture
async def cluster(clusters: Clusters) -> LocalCluster:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "replica.fetch.wait.max.ms": "100"}
    cluster = await clusters.start(3, settings)
    topics.create(cluster.brokers[1], "t", replication_factor=3)
    return cluster


def client(cluster: LocalCluster) -> Client:
    return Client(",".join(broker.address for broker in cluster.brokers.values()))


async def produce(cluster: LocalCluster, value: bytes) -> None:
    async with Client(cluster.brokers[cluster.state(T0).leader].address) as client:
        await client.produce("t", 0, [record(value)])


@pytest.mark.sockets
async def test_a_log_that_parted_is_cut_back_to_its_leader(clusters: Clusters) -> None:
    cluster = await clusters.start(2, {"replica.fetch.wait.max.ms": 100}, unclean_leader_election_enable="true")
    topics.create(cluster.brokers[1], "t", replication_factor=2)
    first = cluster.state(T0).leader
    second = 3 - first
    await produce(cluster, b"common")
    await cluster.kill(second)
    await produce(cluster, b"lost")
    await produce(cluster, b"lost too")
    await cluster.kill(first)
    await cluster.restart(second)
    assert cluster.state(T0).leader == second
    await produce(cluster, b"kept")
    await cluster.restart(first)
    await until_async(lambda: {*cluster.state(T0).isr} == {1, 2})
    logs = [broker.logs.logs[T0] for broker in cluster.brokers.values()]
    assert [log.log_end_offset for log in logs] == [2, 2]
    assert len({log.read(0, 1 << 20, limit_offset=2) for log in logs}) == 1


# The leader answers with the last epoch that both may have in common, and where that ends in its own log (KIP-595). The
# follower has the epochs 0 from offset 0, 2 from 3, and 4 from 5, and ends at 6.
@pytest.mark.parametrize(
    ("leaders_epoch", "leaders_end", "kept"),
    [
        (4, 5, 5),  # the leader has the epoch, and less of it
        (2, 4, 4),
        (2, 9, 5),  # the leader has more of the epoch: the follower keeps all of its own part
        (3, 5, 5),  # the follower does not know the epoch: its own part of the one before counts
        (1, 2, 2),
        (0, 0, 0),
    ],
)
async def test_a_log_is_cut_back_to_where_the_last_common_epoch_ends_in_both(
    clusters: Clusters, leaders_epoch: int, leaders_end: int, kept: int
) -> None:
    broker = (await clusters.start(1)).brokers[1]
    topics.create(broker, "t")
    log = broker.logs.logs[T0]
    for offset, epoch in enumerate((0, 0, 0, 2, 2, 4)):
        batch = build_batch([Record(0, 0, None, b"value")], base_offset=offset, leader_epoch=epoch)
        log.append_as_follower(bytes(batch), now_ms=0)
    log.truncate_to(end_of_common_epoch(log, leaders_epoch, leaders_end))
    assert log.log_end_offset == kept
    assert log.leader_epochs.entries == tuple(entry for entry in ((0, 0), (2, 3), (4, 5)) if entry[1] < kept)


@pytest.mark.sockets
async def test_a_log_that_begins_anew_within_a_batch_takes_the_batch_whole(cluster: LocalCluster) -> None:
    async with client(cluster) as ours:
        away = min({1, 2, 3} - {cluster.state(T0).leader})
        await cluster.kill(away)
        await ours.produce("t", 0, [record(b"first")])
        await ours.produce("t", 0, [record(b"%d" % number) for number in range(4)])
        assert (await ours.delete_records_before({T0: 3}))[T0].low_watermark == 3
        await cluster.restart(away)
        await until_async(lambda: away in cluster.state(T0).isr)
        assert cluster.replica_offsets(T0)[away] == cluster.replica_offsets(T0)[cluster.state(T0).leader]
        cluster.move_leader(T0, away)
        read = [found.value async for found in ours.consume({T0: 3}, until={T0: 5})]
        assert read == [b"2", b"3"]


@pytest.mark.sockets
async def test_a_replica_whose_few_records_are_all_deleted_takes_the_batch_that_it_ends_in(
    cluster: LocalCluster,
) -> None:
    """Its log diverges from its leader's, and the first different offset cannot be found: the leader has deleted it."""
    away = min({1, 2, 3} - {cluster.state(T0).leader})
    await cluster.brokers[away].replica_manager.fetcher_manager.hold()
    for offset in range(3):
        batch = build_batch([Record(0, 0, None, b"lost")], base_offset=offset, leader_epoch=0)
        cluster.brokers[away].logs.logs[T0].append_as_follower(bytes(batch), now_ms=0)
    await cluster.kill(away)
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"%d" % number) for number in range(5)])
        assert (await ours.delete_records_before({T0: 3}))[T0].low_watermark == 3
    await cluster.restart(away)
    await until_async(lambda: away in cluster.state(T0).isr)
    logs = [broker.logs.logs[T0] for broker in cluster.brokers.values()]
    assert [log.log_start_offset for log in logs] == [3, 3, 3]
    assert len({log.read(3, 1 << 20, limit_offset=5) for log in logs}) == 1


@pytest.mark.sockets
async def test_a_log_is_not_cut_back_for_a_leader_that_is_followed_no_more(cluster: LocalCluster) -> None:
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"value")])
    broker = cluster.brokers[cluster.state(T0).leader]
    await broker.cleaner.truncate(T0, 0, is_wanted=lambda: False)
    assert broker.logs.logs[T0].log_end_offset == 1

"""How a follower's loop begins, goes on and ends, and where it truncates a log that diverges from its leader's."""

from __future__ import annotations

import asyncio

import pytest

from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.local_cluster import LocalCluster
from kmini.client import Client
from kmini.client.connection import Connection
from kmini.client.produce import record
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from support.broker.clusters import Clusters
from support.until import until_async

T0 = TopicPartition("t", 0)


@pytest.fixture
async def cluster(clusters: Clusters) -> LocalCluster:
    """Three brokers on a clock that stands still: a pause does not end by itself."""
    cluster = await clusters.start(3, clock=MovableClock())
    topics.create(cluster.brokers[1], "t", replication_factor=3)
    return cluster


async def produce(cluster: LocalCluster, value: bytes) -> None:
    async with Client(cluster.brokers[cluster.state(T0).leader].address) as client:
        await client.produce("t", 0, [record(value)])


@pytest.mark.parametrize("turns", range(8))
async def test_it_ends_wherever_it_is_when_it_is_stopped(cluster: LocalCluster, turns: int) -> None:
    cluster.move_leader(T0, cluster.state(T0).replicas[1])
    for _ in range(turns):
        await asyncio.sleep(0)
    for broker in cluster.brokers.values():
        await asyncio.wait_for(broker.replica_manager.fetcher_manager.hold(), 30)
        assert not broker.replica_manager.fetcher_manager._fetchers


async def test_it_ends_although_the_end_comes_with_the_connection(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`asyncio.wait_for` of Python 3.11 forgets a cancellation that comes when what it waits for is done."""
    follower = next(broker for node_id, broker in cluster.brokers.items() if node_id != cluster.state(T0).leader)
    (fetcher,) = follower.replica_manager.fetcher_manager._fetchers.values()
    began = asyncio.Event()
    open_connection = Connection.open

    async def forgetful(*arguments: object) -> Connection:
        began.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            pass
        return await open_connection(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "open", forgetful)

    async def has_begun() -> bool:
        """It may have connected before, and pauses after it has lost that connection."""
        if not began.is_set():
            await fetcher.hang_up()
            await cluster.clock.advance(1_500, liveness=True)  # type: ignore[attr-defined]
        return began.is_set()

    await until_async(has_begun)
    await asyncio.wait_for(fetcher.stop(), 30)
    assert fetcher._task.done()


@pytest.mark.sockets
async def test_what_is_followed_no_more_is_forgotten_when_the_leader_answers_about_it(cluster: LocalCluster) -> None:
    """Else its leader answers about it at once, again and again."""
    follower = next(broker for node_id, broker in cluster.brokers.items() if node_id != cluster.state(T0).leader)
    leader = cluster.brokers[cluster.state(T0).leader]
    topics.create(leader, "u", partitions=3, replication_factor=3)
    led = {*leader.replica_manager.partitions}
    assert len(led) == 2
    manager = follower.replica_manager.fetcher_manager
    fetcher = manager._fetchers[leader.node_id]
    await until_async(lambda: fetcher._session.is_open and {*fetcher._asked} == led)
    session = leader.fetch_sessions._sessions[fetcher._session._id]
    followed = fetcher._partitions.pop(T0)
    async with Client(leader.address) as client:
        await client.produce("t", 0, [record(b"value")], acks=1)
    await until_async(lambda: len(session) == 1)
    assert followed.log.log_end_offset == 0
    assert fetcher._session.epoch < 10


async def test_a_change_that_is_none_for_a_follower_leaves_it_alone(cluster: LocalCluster) -> None:
    followers = [broker for node_id, broker in cluster.brokers.items() if node_id != cluster.state(T0).leader]
    staying, leaving = followers
    followed = staying.replica_manager.fetcher_manager.followed[T0]
    await cluster.kill(leaving.node_id)
    assert leaving.node_id not in cluster.state(T0).isr
    assert staying.replica_manager.fetcher_manager.followed[T0] is followed


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
    cluster: LocalCluster, leaders_epoch: int, leaders_end: int, kept: int
) -> None:
    follower = next(broker for node_id, broker in cluster.brokers.items() if node_id != cluster.state(T0).leader)
    manager = follower.replica_manager.fetcher_manager
    (fetcher,) = manager._fetchers.values()
    followed = manager.followed[T0]
    await manager.hold()
    fetcher._partitions[T0] = followed  # it ended, and so lost it
    log = follower.logs.logs[T0]
    for offset, epoch in enumerate((0, 0, 0, 2, 2, 4)):
        batch = build_batch([Record(0, 0, None, b"value")], base_offset=offset, leader_epoch=epoch)
        log.append_as_follower(bytes(batch), now_ms=0)
    await fetcher._cut_back(followed, leaders_epoch, leaders_end)
    assert log.log_end_offset == kept
    assert log.leader_epochs.entries == tuple(entry for entry in ((0, 0), (2, 3), (4, 5)) if entry[1] < kept)

"""How a follower's loop begins, goes on and ends."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping

import pytest

from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.local_cluster import LocalCluster
from kmini.client import Client
from kmini.client.connection import Connection
from kmini.client.produce import record
from kmini.protocol.messages.fetch import FetchResponse
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage import offset_checkpoint_file
from kmini.storage.filesystem import FileSystem
from support.broker.clusters import Clusters
from support.until import until_async

T0 = TopicPartition("t", 0)


@pytest.fixture
async def cluster(clusters: Clusters) -> LocalCluster:
    """Three brokers on a clock that stands still: a pause does not end by itself."""
    cluster = await clusters.start(3, clock=MovableClock())
    topics.create(cluster.brokers[1], "t", replication_factor=3)
    return cluster


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


async def test_a_log_that_cannot_take_the_batch_with_its_start_begins_no_earlier_afterwards(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is emptied for the whole batch (KIP-107). The leader knows already that it begins within the batch."""
    leader = cluster.state(T0).leader
    follower = next(broker for node_id, broker in cluster.brokers.items() if node_id != leader)
    manager = follower.replica_manager.fetcher_manager
    fetcher, followed = manager._fetchers[leader], manager.followed[T0]
    followed.log.truncate_fully_and_start_at(2)
    batch = build_batch([Record(0, 1_000, None, b"%d" % number) for number in range(4)])
    Answer = FetchResponse.Topic.Partition
    answer = Answer(partition_index=0, high_watermark=4, log_start_offset=2, records=bytes(batch))

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(type(followed.log), "append_as_follower", fail)
        with pytest.raises(OSError, match="no space"):
            fetcher._follow(followed, answer, [])
    assert (followed.log.log_start_offset, followed.log.log_end_offset) == (2, 2)
    fetcher._follow(followed, answer, [])
    assert (followed.log.log_start_offset, followed.log.log_end_offset) == (2, 4)


@pytest.mark.sockets
async def test_a_leader_is_not_told_of_a_log_start_that_is_not_on_the_disk_of_its_follower(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else DeleteRecords is answered, and after a kill the follower begins where it did before (KIP-107)."""
    cluster = await clusters.start(2, {"replica.fetch.backoff.ms": "10"})
    topics.create(cluster.brokers[1], "t", replication_factor=2)
    leader = cluster.state(T0).leader
    (follower,) = (broker for node_id, broker in cluster.brokers.items() if node_id != leader)
    write, refused, is_full = offset_checkpoint_file.write_log_start_offsets, 0, True

    def write_unless_full(filesystem: FileSystem, directory: str, offsets: Mapping[TopicPartition, int]) -> None:
        nonlocal refused
        if is_full and directory == follower.logs.directory:
            refused += 1
            raise OSError(errno.ENOSPC, "no space")
        write(filesystem, directory, offsets)

    monkeypatch.setattr(offset_checkpoint_file, "write_log_start_offsets", write_unless_full)
    async with Client(cluster.brokers[leader].address) as client:
        for _ in range(4):
            await client.produce("t", 0, [record(b"value")])
        deleting = asyncio.ensure_future(client.delete_records_before({T0: 3}, timeout_ms=60_000))
        await until_async(lambda: refused >= 3)
        assert follower.logs.logs[T0].log_start_offset == 3
        assert not deleting.done()
        is_full = False
        assert (await deleting)[T0].low_watermark == 3

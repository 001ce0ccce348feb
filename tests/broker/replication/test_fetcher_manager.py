"""Which partitions a broker follows, from which leaders, and from which of them consumers may read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller.topology import NO_LEADER
from kmini.broker.replication.fetcher_manager import FetcherManager
from kmini.protocol.errors import FencedLeaderEpoch
from kmini.storage.log import PartitionLog
from support.broker.lone_broker import OTHER, T0, append, shared_partition, start_alone


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    broker = await start_alone(str(tmp_path))
    yield broker
    await broker.stop()


@pytest.fixture
async def manager(broker: BrokerServer) -> FetcherManager:
    return broker.replica_manager.fetcher_manager


@pytest.fixture
async def log(broker: BrokerServer) -> PartitionLog:
    """A log with a record, so that there is something to delete."""
    partition = shared_partition(broker)
    append(broker, partition)
    return partition.log


async def test_one_fetcher_serves_all_partitions_of_a_leader(manager: FetcherManager, log: PartitionLog) -> None:
    manager.follow(log, OTHER, 1)
    assert [*manager._fetchers] == [OTHER]
    manager.unfollow(T0)
    assert T0 not in manager.followed
    manager.follow(log, OTHER, 2)
    assert [*manager._fetchers] == [OTHER]


async def test_a_partition_without_a_leader_is_followed_and_not_fetched(
    manager: FetcherManager, log: PartitionLog
) -> None:
    manager.follow(log, NO_LEADER, 1)
    assert manager.followed[T0].leader == NO_LEADER
    assert manager._fetchers == {}


@pytest.mark.sockets
async def test_the_same_leader_and_epoch_again_end_a_pause_after_an_error(
    manager: FetcherManager, log: PartitionLog
) -> None:
    manager.follow(log, OTHER, 1)
    followed = manager.followed[T0]
    followed.paused_until_ms = 1 << 62
    manager.follow(log, OTHER, 1)
    assert manager.followed[T0] is followed
    assert followed.paused_until_ms == 0


async def test_a_new_epoch_is_followed_anew_and_refuses_the_old_one(manager: FetcherManager, log: PartitionLog) -> None:
    manager.follow(log, OTHER, 1)
    manager.follow(log, OTHER, 2)
    manager.followed[T0].check_leader_epoch(2)
    with pytest.raises(FencedLeaderEpoch):
        manager.followed[T0].check_leader_epoch(1)


async def test_consumers_read_from_a_replica_that_knows_where_its_log_starts(
    manager: FetcherManager, log: PartitionLog
) -> None:
    """A broker that was away may have missed DeleteRecords (KIP-107)."""
    manager.follow(log, OTHER, 1)
    assert not manager.followed[T0].knows_log_start
    manager.followed[T0].knows_log_start = True
    manager.follow(log, OTHER, 2)
    assert manager.followed[T0].knows_log_start, "it was live all the time"
    manager.forget_log_starts()
    assert not manager.followed[T0].knows_log_start


async def test_a_replica_that_has_led_until_now_knows_where_its_log_starts(
    manager: FetcherManager, log: PartitionLog
) -> None:
    manager.follow(log, OTHER, 1, knows_log_start=True)
    assert manager.followed[T0].knows_log_start


async def test_held_fetchers_go_on_after_release(manager: FetcherManager, log: PartitionLog) -> None:
    manager.follow(log, OTHER, 1)
    await manager.hold()
    assert manager._fetchers == {}
    manager.follow(log, OTHER, 2)
    assert manager._fetchers == {}
    manager.release()
    assert [*manager._fetchers] == [OTHER]

"""Settings about brokers among each other do what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.replication.fetcher import Fetcher
from kmini.broker.settings.broker_config import BROKER_KEYS
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.init_producer_id import InitProducerIdRequest
from kmini.protocol.topics import TopicPartition
from kmini.storage.log import PartitionLog
from support.broker.settings_at_work import AMONG_SEVERAL, BEYOND_ITS_TABLE, T0, Ask, StartCluster, Three
from support.until import until_async

ClusterClaim = Callable[[StartCluster, Ask], Awaitable[None]]


CLUSTER_CLAIMS: dict[str, ClusterClaim] = {}
"""By broker key, of what is about several."""


def cluster_claim(key: str) -> Callable[[ClusterClaim], ClusterClaim]:
    def bind(function: ClusterClaim) -> ClusterClaim:
        CLUSTER_CLAIMS[key] = function
        return function

    return bind


def test_every_setting_among_brokers_is_shown_at_work() -> None:
    assert CLUSTER_CLAIMS.keys() == {*AMONG_SEVERAL} <= {*BEYOND_ITS_TABLE.split()[::2]}
    assert not [key for key in CLUSTER_CLAIMS if BROKER_KEYS[key].no_effect]


@pytest.mark.parametrize("key", AMONG_SEVERAL)
async def test_it_is_in_force_among_several_brokers(start_cluster: StartCluster, ask: Ask, key: str) -> None:
    await CLUSTER_CLAIMS[key](start_cluster, ask)


@cluster_claim("replica.lag.time.max.ms")
async def followers_that_lag_for_so_long_leave_the_isr(start: StartCluster, ask: Ask) -> None:
    three = await start(replica_lag_time_max_ms=60_000)
    late = three.followers[0]
    await three.append()
    await until_async(lambda: three.end(late) == 1)
    await late.replica_manager.fetcher_manager.hold()
    await three.append()
    await three.clock.advance(30_000, liveness=True)
    assert late.node_id in three.cluster.state(T0).isr
    await three.clock.advance(100_000, liveness=True)
    await until_async(lambda: late.node_id not in three.cluster.state(T0).isr)


@cluster_claim("broker.session.timeout.ms")
async def brokers_that_are_not_heard_of_for_so_long_are_dead(start: StartCluster, ask: Ask) -> None:
    three = await start(broker_session_timeout_ms=60_000)
    lost = three.leader
    await three.cluster.cut_off(lost)
    await three.clock.advance(30_000, liveness=True)
    assert three.leader == lost
    await three.clock.advance(40_000, liveness=True)
    await until_async(lambda: three.leader != lost)


@cluster_claim("auto.leader.rebalance.enable")
@cluster_claim("leader.imbalance.check.interval.seconds")
async def leadership_returns_to_the_first_replica_so_often(start: StartCluster, ask: Ask) -> None:
    for is_enabled in ("true", "false"):
        settings = {"auto_leader_rebalance_enable": is_enabled, "leader_imbalance_check_interval_seconds": 600}
        three = await start(**settings)
        first, second, _ = three.cluster.state(T0).replicas
        three.cluster.move_leader(T0, second)
        await three.clock.advance(300_000, liveness=True)
        assert three.leader == second
        await three.clock.advance(400_000, liveness=True)
        assert three.leader == (first if is_enabled == "true" else second)


@cluster_claim("replica.fetch.min.bytes")
async def followers_wait_for_so_much(start: StartCluster, ask: Ask) -> None:
    three = await start(replica_fetch_min_bytes=5_000, replica_fetch_wait_max_ms=600_000)
    leader = three.cluster.brokers[three.leader]
    await until_async(lambda: len(leader.purgatory) == 2)
    await three.append()
    assert len(leader.purgatory) == 2, "the append has completed a fetch"
    await three.clock.advance(1_000, liveness=True)
    assert [three.end(follower) for follower in three.followers] == [0, 0]
    await three.append(b"x" * 5_000)
    await until_async(lambda: [three.end(follower) for follower in three.followers] == [2, 2])


@cluster_claim("replica.fetch.wait.max.ms")
async def followers_wait_for_so_long(start: StartCluster, ask: Ask) -> None:
    three = await start(replica_fetch_min_bytes=5_000, replica_fetch_wait_max_ms=60_000)
    leader = three.cluster.brokers[three.leader]
    await until_async(lambda: len(leader.purgatory) == 2)
    await three.append()
    await three.clock.advance(30_000, liveness=True)
    assert [three.end(follower) for follower in three.followers] == [0, 0]
    await three.clock.advance(40_000, liveness=True)
    await until_async(lambda: [three.end(follower) for follower in three.followers] == [1, 1])


async def batches_a_fetch(three: Three, partitions: int, appends: int) -> list[int]:
    """How many records each answer brought a follower that had stood still."""
    brought: list[int] = []
    follow, take = PartitionLog.append_as_follower, Fetcher._take

    def counting(self: PartitionLog, *arguments: Any, **options: Any) -> Any:
        before = self.log_end_offset
        result = follow(self, *arguments, **options)
        brought[-1] += self.log_end_offset - before
        return result

    def beginning(self: Fetcher, *arguments: Any) -> Any:
        brought.append(0)
        return take(self, *arguments)

    (late, other) = three.followers
    await other.replica_manager.fetcher_manager.hold()
    await late.replica_manager.fetcher_manager.hold()
    for number in range(partitions):
        for _ in range(appends):
            await three.append(number=number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartitionLog, "append_as_follower", counting)
        patch.setattr(Fetcher, "_take", beginning)
        late.replica_manager.fetcher_manager.release()
        logs = [late.logs.logs[TopicPartition("t", number)] for number in range(partitions)]
        await until_async(lambda: [log.log_end_offset for log in logs] == [appends] * partitions)
    return [count for count in brought if count]


@cluster_claim("replica.fetch.max.bytes")
async def followers_fetch_so_much_of_a_partition(start: StartCluster, ask: Ask) -> None:
    assert await batches_a_fetch(await start(), 1, 3) == [3]
    assert await batches_a_fetch(await start(replica_fetch_max_bytes=1), 1, 3) == [1, 1, 1]


@cluster_claim("replica.fetch.response.max.bytes")
async def followers_fetch_so_much_at_once(start: StartCluster, ask: Ask) -> None:
    assert await batches_a_fetch(await start(), 1, 3) == [3]
    assert await batches_a_fetch(await start(replica_fetch_response_max_bytes=1), 1, 3) == [1, 1, 1]


@cluster_claim("replica.fetch.backoff.ms")
async def followers_pause_so_long_after_an_error(start: StartCluster, ask: Ask) -> None:
    three = await start(replica_fetch_backoff_ms=60_000, broker_session_timeout_ms=10_000_000)
    follower, leader = three.followers[0], three.leader
    await three.cluster.cut_off(leader)
    await until_async(lambda: three.fetcher(follower)._is_pausing)
    three.cluster.reconnect(leader)
    await three.append()
    await three.clock.advance(30_000, liveness=True)
    assert three.fetcher(follower)._is_pausing
    await three.clock.advance(40_000, liveness=True)
    await until_async(lambda: three.end(follower) == 1)


@cluster_claim("request.timeout.ms")
async def coordinators_wait_so_long_for_replicas(start: StartCluster, ask: Ask) -> None:
    three = await start(request_timeout_ms=60_000, replica_lag_time_max_ms=10_000_000)
    found = await ask(three.cluster.brokers[1], FindCoordinatorRequest(key="mine", key_type=1), 3)
    coordinator = three.cluster.brokers[found.node_id]
    for broker in three.cluster.brokers.values():
        await broker.replica_manager.fetcher_manager.hold()
    request = InitProducerIdRequest(transactional_id="mine", transaction_timeout_ms=60_000)
    waiting = asyncio.ensure_future(ask(coordinator, request, 4))
    await until_async(lambda: len(coordinator.purgatory) > 0)
    await three.clock.advance(30_000, liveness=True)
    assert not waiting.done()
    await three.clock.advance(40_000, liveness=True)
    assert (await waiting).error_code != 0

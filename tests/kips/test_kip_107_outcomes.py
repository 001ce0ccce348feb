"""KIP-107: what a DeleteRecords request waits for, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kmini import Cluster
from kmini.broker.purgatory import Operation
from kmini.client import Client
from kmini.protocol.errors import (
    NONE,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.delete_records import DeleteRecordsRequest
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.testing import ConnectionClosed
from support.replicated_orders import LONG_MS, ORDERS, Deletion, Replicas
from support.until import PATIENCE, until

pytestmark = pytest.mark.deep

# Step 4: the wait, and its outcomes


def test_it_waits_until_every_live_replica_has_followed(after_kill: Replicas) -> None:
    held, other = after_kill.followers
    after_kill.cluster.hold(held)
    deletion = after_kill.begin_deletion(6)
    until(lambda: after_kill.reported(other) == 6)
    deletion.await_waiting()
    after_kill.cluster.release(held)
    assert deletion.outcome() == (6, NONE)
    assert after_kill.starts() == {1: 6, 2: 6, 3: 6}


def test_a_live_replica_that_is_not_in_sync_is_waited_for_too(replicas: Replicas) -> None:
    lagging = replicas.followers[0]
    replicas.leave_isr(lagging)
    deletion = replicas.begin_deletion(6)
    until(lambda: sorted(replicas.starts().values()) == [0, 6, 6])
    deletion.await_waiting()
    replicas.cluster.release(lagging)
    assert deletion.outcome() == (6, NONE)
    assert replicas.starts()[lagging] == 6


@pytest.mark.parametrize("is_in_sync", [True, False])
def test_a_replica_that_dies_is_waited_for_no_longer(replicas: Replicas, is_in_sync: bool) -> None:
    dying, other = replicas.followers
    if is_in_sync:
        replicas.cluster.hold(dying)
    else:
        replicas.leave_isr(dying)
    deletion = replicas.begin_deletion(6)
    until(lambda: replicas.reported(other) == 6)
    deletion.await_waiting()
    replicas.cluster.kill(dying)
    assert deletion.outcome() == (6, NONE)


@pytest.mark.parametrize("lose", [Cluster.cut_off, Cluster.pause])
def test_a_replica_that_cannot_be_reached_is_live_until_its_session_ends(
    replicas: Replicas, lose: Callable[[Cluster, int], None]
) -> None:
    lost, other = replicas.followers
    lose(replicas.cluster, lost)
    deletion = replicas.begin_deletion(6)
    until(lambda: replicas.reported(other) == 6)
    deletion.await_waiting()
    replicas.cluster.advance_clock("10s", liveness=True)
    assert deletion.outcome() == (6, NONE)
    replicas.cluster.reconnect(lost)
    until(lambda: replicas.starts()[lost] == 6)


def test_the_low_watermark_is_the_smallest_log_start_offset_of_the_live_replicas(after_kill: Replicas) -> None:
    assert after_kill.delete(3) == (3, NONE)
    dead = after_kill.followers[0]
    after_kill.cluster.kill(dead)
    assert after_kill.delete(6) == (6, NONE)
    after_kill.cluster.restart(dead)
    after_kill.await_replicas()
    assert after_kill.delete(0) == (6, NONE)


def test_a_request_that_times_out_tells_the_low_watermark_and_its_effect_stays(after_kill: Replicas) -> None:
    assert after_kill.delete(3) == (3, NONE)
    held, other = after_kill.followers
    after_kill.cluster.hold(held)
    assert after_kill.delete(6, timeout_ms=300) == (3, RequestTimedOut.code)
    assert after_kill.starts()[after_kill.leader] == 6
    until(lambda: after_kill.starts()[other] == 6)
    assert after_kill.starts()[held] == 3
    after_kill.cluster.release(held)
    until(lambda: after_kill.starts()[held] == 6)
    assert after_kill.earliest() == 6


def test_the_answer_is_not_leader_when_leadership_moves_while_it_waits(after_kill: Replicas) -> None:
    held, other = after_kill.followers
    after_kill.cluster.hold(held)
    deletion = after_kill.begin_deletion(6)
    deletion.await_waiting()
    after_kill.cluster.move_leader("orders", to=other)
    assert deletion.outcome() == (-1, NotLeaderOrFollower.code)


def test_the_answer_is_not_leader_even_if_leadership_comes_back(replicas: Replicas) -> None:
    leader, held = replicas.leader, replicas.followers[0]
    replicas.cluster.hold(held)
    deletion = replicas.begin_deletion(6)
    deletion.await_waiting()
    replicas.cluster.move_leader("orders", to=replicas.followers[1])
    replicas.cluster.move_leader("orders", to=leader)
    assert deletion.outcome() == (-1, NotLeaderOrFollower.code)


def test_a_leader_that_stops_says_that_it_leads_no_more_and_one_that_is_killed_nothing(replicas: Replicas) -> None:
    replicas.cluster.hold(replicas.followers[0])
    deletion = replicas.begin_deletion(6)
    deletion.await_waiting()
    replicas.cluster.stop_broker(replicas.leader)
    assert deletion.outcome() == (-1, NotLeaderOrFollower.code)
    held = replicas.followers[0] if replicas.followers else replicas.leader
    replicas.cluster.hold(held)
    deletion = replicas.begin_deletion(7)
    deletion.await_waiting()
    replicas.cluster.kill(replicas.leader)
    with pytest.raises(ConnectionClosed):
        deletion.outcome()


def test_a_follower_that_is_asked_says_that_it_does_not_lead(after_kill: Replicas) -> None:
    for follower in after_kill.followers:
        assert after_kill.delete(6, broker=follower) == (-1, NotLeaderOrFollower.code)
    assert after_kill.starts() == {1: 0, 2: 0, 3: 0}


def test_each_partition_of_a_request_has_its_own_outcome(after_kill: Replicas) -> None:
    cluster, leader = after_kill.cluster, after_kill.leader
    cluster.create_topic("single", partitions=3, replication_factor=1)
    led = next(number for number in range(3) if cluster.leader("single", number) == leader)
    cluster.hold(after_kill.followers[0])
    wanted = {
        ORDERS: 6,
        TopicPartition("single", led): 0,
        TopicPartition("single", (led + 1) % 3): 0,
        TopicPartition("single", 7): 0,
    }
    assert Deletion(after_kill, wanted, 300, leader).outcomes() == {
        ORDERS: (0, RequestTimedOut.code),
        TopicPartition("single", led): (0, NONE),
        TopicPartition("single", (led + 1) % 3): (-1, NotLeaderOrFollower.code),
        TopicPartition("single", 7): (-1, UnknownTopicOrPartition.code),
    }


def test_a_partition_whose_replicas_have_followed_has_its_outcome_while_others_are_waited_for(
    replicas: Replicas,
) -> None:
    cluster, leader = replicas.cluster, replicas.leader
    cluster.create_topic("pairs", partitions=3, replication_factor=2)
    pair = next(TopicPartition("pairs", number) for number in range(3) if cluster.leader("pairs", number) == leader)
    _, other = cluster.replicas(*pair)
    (held,) = {*replicas.followers} - {other}
    assert Deletion(replicas, {pair: -1}, LONG_MS, leader).outcome() == (0, NONE)
    cluster.hold(held)
    deletion = Deletion(replicas, {ORDERS: 6, pair: -1}, LONG_MS, leader)
    until(lambda: replicas.reported(other) == 6)
    deletion.await_waiting()
    cluster.move_leader(*pair, to=other)
    cluster.release(held)
    assert deletion.outcomes() == {ORDERS: (6, NONE), pair: (0, NONE)}


# Step 9: the client


class Never(Operation):
    keys = ()

    def is_complete(self) -> bool:
        return False


async def test_a_leader_that_does_not_answer_leaves_its_partitions_and_no_others_with_a_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster() as cluster:
        await cluster.create_topic("orders", 3, replication_factor=1)
        silent = await cluster.leader("orders", 0)
        async with Client(cluster.bootstrap_servers) as client:
            for number in range(3):
                await client.produce("orders", number, [Record(0, time.time_ns() // 1_000_000, None, b"v", ())])
            handlers = cluster._operations.core.brokers[silent].server.handlers  # those of all brokers
            handler = handlers[DeleteRecordsRequest.api_key]

            async def be_silent(request: Any, context: Any) -> Any:
                if context.services.node_id == silent:
                    await context.wait(Never(), timeout_ms=LONG_MS)
                return await handler.function(request, context)

            monkeypatch.setitem(handlers, DeleteRecordsRequest.api_key, handler.answered_by(be_silent))
            wanted = {("orders", number): 1 for number in range(3)}
            results = await client.delete_records_before(wanted, timeout_ms=1_000 * PATIENCE)
        assert results[("orders", 0)].low_watermark == -1
        assert isinstance(results[("orders", 0)].error, RequestTimedOut)
        assert {number: results[("orders", number)] for number in (1, 2)} == {1: (1, None), 2: (1, None)}

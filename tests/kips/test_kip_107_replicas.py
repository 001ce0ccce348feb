"""KIP-107 on three brokers: a test for each sentence of the proposal that asks something of replicas.

What one broker can keep is in test_kip_107_delete_records.py. Nothing here is simulated but followers where a test
says so: it then sends the fetches of one that is held.
"""

from __future__ import annotations

from typing import Any

import pytest

from kmini import Cluster
from kmini.broker.handlers.kept_fetch import KeptFetch
from kmini.broker.replication.delayed_fetch import DelayedFetch
from kmini.client import Client
from kmini.protocol.errors import (
    NONE,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PreferredLeaderNotAvailable,
    RequestTimedOut,
)
from kmini.protocol.messages.delete_records import DeleteRecordsRequest
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from support.replicated_orders import LONG_MS, ORDERS, Replicas
from support.until import until

pytestmark = pytest.mark.deep

# Interaction between user application and brokers, steps 1 and 2


async def test_a_timestamp_becomes_an_offset_at_each_leader_and_then_a_deletion() -> None:
    async with Cluster() as cluster:
        await cluster.create_topic("orders", 3, replication_factor=3)
        partitions = [TopicPartition("orders", number) for number in range(3)]
        assert {await cluster.leader(*partition) for partition in partitions} == {1, 2, 3}
        async with Client(cluster.bootstrap_servers) as client:
            for partition in partitions:
                for number in range(4 + partition.partition):
                    record = Record(0, 1_000_000 - number - partition.partition, None, b"v", ())
                    await client.produce("orders", partition.partition, [record._replace(timestamp=1_000_000 + number)])
            found = await client.list_offsets(dict.fromkeys(partitions, 1_000_002))
            results = await client.delete_records_before({one: found[one].offset for one in partitions})
        assert results == dict.fromkeys(partitions, (2, None))


async def test_one_request_goes_to_each_leader_and_names_what_it_leads_and_how_long_it_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster() as cluster:
        await cluster.create_topic("orders", 6, replication_factor=3)
        leaders = {number: await cluster.leader("orders", number) for number in range(6)}
        got: list[tuple[int, set[int], int]] = []
        handlers = cluster._operations.core.brokers[1].server.handlers  # those of all brokers
        handler = handlers[DeleteRecordsRequest.api_key]

        async def note(request: Any, context: Any) -> Any:
            (topic,) = request.topics
            asked = {one.partition_index for one in topic.partitions}
            got.append((context.services.node_id, asked, request.timeout_ms))
            return await handler.function(request, context)

        monkeypatch.setitem(handlers, DeleteRecordsRequest.api_key, handler.answered_by(note))
        async with Client(cluster.bootstrap_servers) as client:
            await client.delete_records_before({("orders", number): 0 for number in range(6)}, timeout_ms=20_000)
        led = {broker: {number for number in leaders if leaders[number] == broker} for broker in (1, 2, 3)}
        assert {broker: partitions for broker, partitions, _ in got} == led
        assert len(got) == 3
        assert all(0 < timeout_ms <= 20_000 for _, _, timeout_ms in got)


# Step 3: at the leader


def test_minus_one_is_the_high_watermark_and_not_the_end_of_the_leaders_log(replicas: Replicas) -> None:
    for follower in replicas.followers:
        replicas.cluster.hold(follower)
    replicas.produce(b"on the leader only", acks=1)
    deletion = replicas.begin_deletion(-1)
    deletion.await_waiting()
    for follower in replicas.followers:
        replicas.cluster.release(follower)
    assert deletion.outcome() == (10, NONE)
    assert replicas.starts() == {1: 10, 2: 10, 3: 10}


def test_an_offset_above_the_high_watermark_is_out_of_range_though_the_leader_has_it(after_kill: Replicas) -> None:
    for follower in after_kill.followers:
        after_kill.cluster.hold(follower)
    end = after_kill.produce(b"on the leader only", acks=1) + 1
    assert after_kill.delete(end) == (-1, OffsetOutOfRange.code)
    assert after_kill.starts() == {1: 0, 2: 0, 3: 0}


def test_the_leader_begins_at_once_and_deletes_its_segments(after_kill: Replicas) -> None:
    first, second = after_kill.followers
    after_kill.cluster.hold(first)
    after_kill.cluster.hold(second)
    deletion = after_kill.begin_deletion(6)
    deletion.await_waiting()
    assert after_kill.starts() == {after_kill.leader: 6, first: 0, second: 0}
    assert after_kill.segments(after_kill.leader) == [6, 7, 8, 9]
    assert after_kill.segments(first) == [*range(10)]


def test_the_log_start_offset_of_no_replica_goes_back(after_kill: Replicas) -> None:
    assert after_kill.delete(6) == (6, NONE)
    assert after_kill.delete(2) == (6, NONE)
    assert after_kill.starts() == {1: 6, 2: 6, 3: 6}


# Step 5: the leader tells its followers


def test_the_leader_tells_its_log_start_offset_in_every_answer_to_a_follower(replicas: Replicas) -> None:
    held = replicas.followers[0]
    replicas.cluster.hold(held)
    replicas.begin_deletion(6).await_waiting()
    answer = replicas.fetch(10, replica_id=held, log_start_offset=0)
    assert (answer.error_code, answer.log_start_offset) == (NONE, 6)


def test_a_followers_fetch_that_waits_is_answered_when_the_log_start_offset_moves(replicas: Replicas) -> None:
    """One that is simulated. A consumer's goes on to wait for records."""
    follower = replicas.followers[0]
    replicas.cluster.hold(follower)
    wire, consumer = replicas.wire(replicas.leader), replicas.wire(replicas.leader)
    sent = replicas.begin_fetch(wire, 10, replica_id=follower, log_start_offset=0, max_wait_ms=LONG_MS)
    asked = replicas.begin_fetch(consumer, 10, log_start_offset=0, max_wait_ms=LONG_MS)
    until(lambda: replicas.waiting(replicas.leader, DelayedFetch, KeptFetch) >= 3)  # and the other follower's
    replicas.begin_deletion(6).await_waiting()
    answer = replicas.fetched(wire, sent)
    assert (answer.error_code, answer.log_start_offset, bytes(answer.records)) == (NONE, 6, b"")
    replicas.cluster.release(follower)
    replicas.produce(b"next")
    assert [record.value for record in decode_all(replicas.fetched(consumer, asked).records)] == [b"next"]


# Step 6: the follower


def test_a_follower_deletes_its_segments_too(after_kill: Replicas) -> None:
    assert after_kill.delete(6) == (6, NONE)
    for broker in (1, 2, 3):
        assert after_kill.segments(broker) == [6, 7, 8, 9]


def test_a_follower_whose_log_starts_later_than_the_leaders_keeps_its_own(after_kill: Replicas) -> None:
    old, (new, other) = after_kill.leader, after_kill.followers
    after_kill.cluster.hold(new)
    after_kill.cluster.hold(other)
    assert after_kill.delete(6, timeout_ms=0) == (0, RequestTimedOut.code)
    after_kill.cluster.move_leader("orders", to=new)
    after_kill.cluster.release(new)
    after_kill.cluster.release(other)
    assert after_kill.delete(2) == (2, NONE), "what the replica with the least says"
    assert after_kill.starts() == {old: 6, new: 2, other: 2}
    after_kill.produce(b"it follows all the same")
    assert after_kill.segments(old) == [6, 7, 8, 9, 10]
    after_kill.cluster.move_leader("orders", to=old)
    until(lambda: after_kill.starts() == {1: 6, 2: 6, 3: 6})


# Step 7: the follower reports


def test_a_follower_reports_in_its_next_fetch_what_is_in_its_checkpoint_by_then(
    after_kill: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = after_kill.core(after_kill.leader).server.handlers
    handler = handlers[FetchRequest.api_key]
    reported: dict[int, int | None] = {}

    async def note(request: Any, context: Any) -> Any:
        for topic in request.topics:
            for partition in topic.partitions:
                if topic.topic_id == context.services.controller.topic("orders").id and partition.log_start_offset >= 6:
                    follower = request.replica_state.replica_id
                    reported.setdefault(follower, after_kill.checkpoint(follower))
        return await handler.function(request, context)

    monkeypatch.setitem(handlers, FetchRequest.api_key, handler.answered_by(note))
    assert after_kill.delete(6) == (6, NONE)
    assert reported == dict.fromkeys(after_kill.followers, 6)


def test_between_the_two_rolling_bounces_followers_report_nothing_and_deletions_time_out(after_kill: Replicas) -> None:
    old = after_kill.followers[0]
    after_kill.cluster.limit_fetch_version(old, 4)
    after_kill.produce(b"records are followed as ever")
    assert after_kill.delete(6, timeout_ms=300) == (-1, RequestTimedOut.code)
    after_kill.cluster.limit_fetch_version(old, None)
    assert after_kill.delete(6) == (6, NONE)


# Step 8: the leader completes the request on that report


def test_it_is_complete_with_the_fetch_that_reports_it_and_not_with_time(replicas: Replicas) -> None:
    """The follower that is waited for is simulated."""
    held, other = replicas.followers
    replicas.cluster.hold(held)
    deletion = replicas.begin_deletion(6)
    until(lambda: replicas.reported(other) == 6)
    deletion.await_waiting()
    replicas.cluster.advance_clock(LONG_MS // 2, liveness=True)
    for log_start_offset in (0, 5):
        replicas.fetch(10, replica_id=held, log_start_offset=log_start_offset)
        assert deletion.is_waiting()
    replicas.fetch(10, replica_id=held, log_start_offset=6)
    assert not deletion.is_waiting()
    assert deletion.outcome() == (6, NONE)


def test_what_consumers_and_strangers_say_of_the_log_start_offset_is_ignored(replicas: Replicas) -> None:
    held, other = replicas.followers
    replicas.cluster.hold(held)
    deletion = replicas.begin_deletion(6)
    until(lambda: replicas.reported(other) == 6)
    deletion.await_waiting()
    assert replicas.fetch(10, log_start_offset=10).error_code == NONE
    assert replicas.fetch(10, replica_id=9, log_start_offset=10).error_code == NotLeaderOrFollower.code
    assert deletion.is_waiting()
    assert replicas.earliest() == 6


# Routine operation in the broker


def test_only_records_from_the_log_start_offset_on_are_sent_whichever_replica_leads(after_kill: Replicas) -> None:
    assert after_kill.delete(6) == (6, NONE)
    for broker in (1, 2, 3):
        if broker != after_kill.leader:
            after_kill.cluster.move_leader("orders", to=broker)
        assert after_kill.fetch(5).error_code == OffsetOutOfRange.code
        assert after_kill.read_all() == [6, 7, 8, 9]


def test_when_retention_deletes_a_segment_every_replica_starts_where_the_leader_does(replicas: Replicas) -> None:
    replicas.cluster.advance_clock("8d")
    until(lambda: replicas.starts() == {1: 10, 2: 10, 3: 10})
    assert replicas.earliest() == 10


def test_every_broker_checkpoints_it_periodically(replicas: Replicas) -> None:
    replicas.cluster.advance_clock("8d")
    until(lambda: replicas.starts() == {1: 10, 2: 10, 3: 10})
    replicas.cluster.advance_clock("2m")
    assert [replicas.checkpoint(broker) for broker in (1, 2, 3)] == [10, 10, 10]


def test_what_was_answered_survives_the_kill_of_all_brokers(after_kill: Replicas) -> None:
    assert after_kill.delete(6) == (6, NONE)
    for broker in (1, 2, 3):
        after_kill.cluster.kill(broker)
    for broker in (1, 2, 3):
        after_kill.cluster.restart(broker)
    after_kill.await_replicas()
    assert after_kill.starts() == {1: 6, 2: 6, 3: 6}
    assert after_kill.earliest() == 6


# A replica that comes back


def test_a_replica_that_comes_back_has_followed_before_it_is_in_sync_and_may_lead(after_kill: Replicas) -> None:
    dead = after_kill.followers[0]
    after_kill.cluster.kill(dead)
    assert after_kill.delete(6) == (6, NONE)
    seen: list[int] = []

    async def note_if_in_sync() -> bool:
        core = after_kill.cluster._operations.core
        if dead in core.state(ORDERS).isr:
            seen.append(core.replica_offsets(ORDERS)[dead].log_start_offset)
        return bool(seen)

    after_kill.cluster.restart(dead)
    until(lambda: after_kill.cluster._thread.run(note_if_in_sync()))
    assert seen == [6]
    after_kill.cluster.move_leader("orders", to=dead)
    assert after_kill.earliest() == 6
    assert after_kill.fetch(5).error_code == OffsetOutOfRange.code


def test_a_replica_whose_records_were_all_deleted_meanwhile_begins_where_the_leader_does(after_kill: Replicas) -> None:
    dead, other = after_kill.followers
    after_kill.cluster.kill(dead)
    after_kill.cluster.move_leader("orders", to=other)  # so that the leader has forgotten the epoch of its records
    after_kill.produce(b"not there")
    until(lambda: after_kill.delete(-1) == (11, NONE))  # a new leader learns the high watermark from its followers
    after_kill.cluster.restart(dead)
    after_kill.await_replicas()
    assert after_kill.starts() == {1: 11, 2: 11, 3: 11}
    assert after_kill.produce(b"next") == 11
    for broker in (1, 2, 3):
        assert after_kill.segments(broker) == [11]


def test_a_replica_that_has_every_record_and_not_the_deletion_is_not_in_sync(replicas: Replicas) -> None:
    """One that is simulated: a real one has followed with the next fetch."""
    follower = replicas.followers[0]
    replicas.leave_isr(follower)
    assert replicas.delete(6, timeout_ms=0)[1] == RequestTimedOut.code
    replicas.fetch(11, replica_id=follower, log_start_offset=0)
    assert follower not in replicas.cluster.isr("orders")
    with pytest.raises(PreferredLeaderNotAvailable):
        replicas.cluster.move_leader("orders", to=follower)
    replicas.fetch(11, replica_id=follower, log_start_offset=6)
    assert follower in replicas.cluster.isr("orders")


# ListOffsetRequest


def test_the_earliest_offset_is_the_log_start_offset_whichever_replica_leads(after_kill: Replicas) -> None:
    assert after_kill.delete(4) == (4, NONE)
    for broker in (1, 2, 3):
        if broker != after_kill.leader:
            after_kill.cluster.move_leader("orders", to=broker)
        assert after_kill.earliest() == 4
        assert after_kill.earliest(replica_id=after_kill.followers[0]) == 4

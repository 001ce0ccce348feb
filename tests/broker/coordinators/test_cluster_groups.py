"""Groups in a cluster: members and readers learn of a change when the in-sync replicas have it; a failover keeps it.

Two or three brokers over one partition of `__consumer_offsets`; a test may hold the followers back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.errors import error_name
from kmini.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from support.broker.cluster_coordinators import (
    NONE,
    OFFSETS,
    Coordinators,
    code,
    commit,
    commit_of,
    joining,
    syncing,
)
from support.until import until_async

pytestmark = pytest.mark.sockets

Start = Callable[..., Any]


async def test_a_new_group_is_shown_and_its_generation_answered_when_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    await world.hold()
    joined = await world.appended(joining(), 3)
    await world.clock.advance(100, liveness=True)  # the initial rebalance is over
    assert await world.described() == ("Dead", 0)
    assert await world.listed() == []
    assert not joined.done()
    world.release()
    assert (await joined).generation_id == 1
    assert await world.described() == ("CompletingRebalance", 1)
    assert await world.listed() == ["g"]


async def test_a_new_group_that_times_out_shows_without_members_once_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    await world.hold()
    joined = await world.appended(joining(), 3)
    await world.time_out()
    assert error_name((await joined).error_code) == "COORDINATOR_NOT_AVAILABLE"
    assert await world.listed() == []
    world.release()
    log = world.leader.replica_manager.partitions[OFFSETS].log
    await until_async(lambda: log.high_watermark == log.log_end_offset)
    assert await world.described() == ("Empty", 0)
    assert await world.listed() == ["g"]


async def test_an_assignment_is_answered_and_shown_when_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    joined = await world.ask(joining(), 3)
    await world.hold()
    synced = await world.appended(syncing(joined.member_id, joined.generation_id), 3)
    assert not synced.done()
    assert (await world.described())[0] == "CompletingRebalance"
    world.release()
    assert (await synced).assignment == b"all"
    await world.cluster.kill(world.leader.node_id)
    assert await world.described() == ("Stable", 1)
    (group,) = (await world.ask(DescribeGroupsRequest(groups=["g"]), 5)).groups
    assert group.members[0].member_assignment == b"all"


async def test_an_assignment_that_times_out_reaches_no_member(start: Start) -> None:
    world: Coordinators = await start()
    joined = await world.ask(joining(), 3)
    await world.hold()
    synced = await world.appended(syncing(joined.member_id, joined.generation_id), 3)
    await world.time_out()
    answer = await synced
    assert (error_name(answer.error_code), answer.assignment) == ("COORDINATOR_NOT_AVAILABLE", b"")
    assert (await world.described())[0] == "PreparingRebalance"


async def test_an_assignment_whose_coordinator_moves_reaches_no_member(start: Start) -> None:
    world: Coordinators = await start()
    joined = await world.ask(joining(), 3)
    await world.hold()
    synced = await world.appended(syncing(joined.member_id, joined.generation_id), 3)
    world.cluster.move_leader(OFFSETS, world.followers[0].node_id)
    assert error_name((await synced).error_code) == "NOT_COORDINATOR"


async def test_a_new_id_of_a_static_member_is_answered_and_shown_when_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    joined = await world.ask(joining(instance_id="i"), 5)
    synced = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id="i")
    assert (await world.ask(synced, 3)).error_code == 0
    await world.hold()
    again = await world.appended(joining(instance_id="i"), 5)
    assert not again.done()
    assert await world.described_members() == [joined.member_id]
    world.release()
    following = (await again).member_id
    assert following != joined.member_id
    assert await world.described_members() == [following]


async def test_a_member_has_left_when_the_replicas_have_that(start: Start) -> None:
    world: Coordinators = await start()
    member_id = await world.stable_member()
    await world.hold()
    left = await world.appended(LeaveGroupRequest(group_id="g", member_id=member_id), 2)
    assert not left.done()
    await world.time_out()
    assert error_name((await left).error_code) == "COORDINATOR_NOT_AVAILABLE"


async def test_a_deleted_group_is_shown_until_the_replicas_have_its_tombstone(start: Start) -> None:
    world: Coordinators = await start()
    await world.ask(commit(1))
    await world.hold()
    answer = await world.appended(DeleteGroupsRequest(groups_names=["g"]))
    assert await world.listed() == ["g"]
    assert await world.described() == ("Empty", 0)
    assert await world.committed() == 1
    await world.time_out()
    assert code(await answer) == "COORDINATOR_NOT_AVAILABLE"
    assert await world.listed() == ["g"]
    world.release()
    log = world.leader.replica_manager.partitions[OFFSETS].log
    await until_async(lambda: log.high_watermark == log.log_end_offset)
    assert await world.listed() == []
    assert await world.committed() == -1
    assert world.leader.groups.groups == {}


async def test_a_new_coordinator_answers_nothing_that_may_be_lost_again(start: Start) -> None:
    """It has a commit that one replica lacks, and cannot know whether a client was told of it."""
    world: Coordinators = await start(3)
    member_id = await world.stable_member()
    first, behind = world.leader, world.followers[1]
    log = world.followers[0].logs.logs[OFFSETS]
    await behind.replica_manager.fetcher_manager.hold()
    answer = await world.appended(commit_of(member_id, 2))
    await until_async(lambda: log.log_end_offset == first.replica_manager.partitions[OFFSETS].log.log_end_offset)
    await world.followers[0].replica_manager.fetcher_manager.hold()
    world.cluster.move_leader(OFFSETS, world.followers[0].node_id)
    assert code(await answer) == "NOT_COORDINATOR"
    loading = "COORDINATOR_LOAD_IN_PROGRESS"
    assert await world.committed() == loading
    assert await world.committed(stable=True) == loading
    assert await world.described() == (loading, 0)
    assert await world.listed() == [loading]
    assert code(await world.ask(commit_of(member_id, 3))) == loading
    assert error_name((await world.ask(joining(member_id), 3)).error_code) == loading
    assert error_name((await world.ask(syncing(member_id, 1), 3)).error_code) == loading
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert error_name((await world.ask(heartbeat, 3)).error_code) == NONE, "as in Kafka: there is nothing to tell it"
    assert code(await world.ask(DeleteGroupsRequest(groups_names=["g"]))) == loading
    world.release()
    await world.settled()
    assert await world.committed() == 2
    assert await world.described() == ("Stable", 1)

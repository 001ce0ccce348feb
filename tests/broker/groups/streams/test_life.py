"""The life of streams groups beside that of other kinds: the initial delay, groups of other kinds, administration."""

from __future__ import annotations

import pytest

from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.protocol.errors import GroupIdNotFound, NonEmptyGroup, error_name
from kmini.protocol.messages.heartbeat import HeartbeatRequest
from kmini.protocol.messages.join_group import JoinGroupRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from support.broker.asking import ask_handler
from support.broker.streams_lab import INITIAL_DELAY_MS, StreamsLab


async def join_classic(lab: StreamsLab) -> str:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )
    return error_name((await ask_handler(lab.broker, request, 3)).error_code)


async def commit_from_outside(lab: StreamsLab) -> None:
    Topic = OffsetCommitRequest.Topic
    partition = Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
    await ask_handler(
        lab.broker, OffsetCommitRequest(group_id="g", topics=[Topic(name="t", partitions=[partition])]), 8
    )


async def test_the_delay_of_a_group_is_its_own(lab: StreamsLab) -> None:
    await lab.set_group_config("streams.initial.rebalance.delay.ms", "10")
    await lab.join("m")
    await lab.pass_time(10)
    assert lab.epochs == (2, 2)


async def test_the_delay_ends_with_the_leadership_of_the_broker(lab: StreamsLab) -> None:
    await lab.join("m")
    group = lab.group
    lab.groups.streams.life.unload(group)
    assert not lab.groups.streams.life.is_delayed(group)


async def test_after_a_restart_a_heartbeat_computes_the_first_target(lab: StreamsLab) -> None:
    await lab.join("m")
    await lab.restart()
    await lab.pass_time(INITIAL_DELAY_MS)
    assert lab.epochs == (2, 1)
    assert (await lab.beat("m", 1)).active == {"0": [0, 1, 2, 3]}


async def test_a_streams_group_takes_the_place_of_an_empty_classic_one_with_its_offsets(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await commit_from_outside(lab)
    assert isinstance(lab.groups.groups["g"], ClassicGroup)
    assert (await lab.join("m")).error == "NONE"
    assert lab.group.offsets.by_topic["t"][0].offset == 7
    before = lab.in_memory()
    await lab.restart()
    assert lab.in_memory() == before
    assert lab.group.offsets.by_topic["t"][0].offset == 7


async def test_a_classic_group_with_members_is_no_streams_group(quick_lab: StreamsLab) -> None:
    assert await join_classic(quick_lab) == "NONE"
    assert (await quick_lab.join("m")).error == "GROUP_ID_NOT_FOUND"


async def test_a_classic_member_joins_an_empty_streams_group_only(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m")
    assert await join_classic(lab) == "INCONSISTENT_GROUP_PROTOCOL"
    beat = HeartbeatRequest(group_id="g", generation_id=2, member_id="m")
    assert error_name((await ask_handler(lab.broker, beat, 3)).error_code) == "UNKNOWN_MEMBER_ID"
    await lab.leave("m")
    assert await join_classic(lab) == "NONE"
    assert isinstance(lab.groups.groups["g"], ClassicGroup)
    await lab.restart()
    assert isinstance(lab.groups.groups["g"], ClassicGroup)


async def test_a_group_with_members_is_not_deleted_and_an_empty_one_is(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m")
    with pytest.raises(NonEmptyGroup):
        await lab.groups.delete("g")
    await lab.leave("m")
    end = lab.end
    await lab.groups.delete("g")
    assert "g" not in lab.groups.groups
    assert [kind for kind, _ in lab.types(end)] == [-20, -17, -23]
    await lab.restart()
    with pytest.raises(GroupIdNotFound):
        lab.groups.find("g")


async def test_a_member_is_expelled_and_a_rebalance_begun_by_hand(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m1")
    await lab.join("m2")
    await lab.settle("m1", "m2")
    await lab.groups.rebalance("g", "by hand")
    assert lab.epochs == (4, 3)
    await lab.groups.expel("g", "m1", "by hand")
    assert [*lab.group.memberships] == ["m2"]
    assert (await lab.beat("m2", lab.group.current("m2").epoch)).active == {"0": [0, 1, 2, 3]}

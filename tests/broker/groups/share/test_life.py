"""The life of share groups beside that of other kinds: deletion, expiry, requests of other protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.protocol.errors import CoordinatorNotAvailable, NonEmptyGroup, NotEnoughReplicas, error_name
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kmini.protocol.messages.describe_groups import DescribeGroupsRequest
from kmini.protocol.messages.heartbeat import HeartbeatRequest
from kmini.protocol.messages.join_group import JoinGroupRequest
from kmini.protocol.messages.list_groups import ListGroupsRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.offset_delete import OffsetDeleteRequest
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from support.broker.asking import ask_handler
from support.broker.share_lab import ShareLab

MakeLab = Callable[..., Awaitable[ShareLab]]


async def read_and_left(lab: ShareLab) -> None:
    await lab.join("m")
    await lab.settle("m")
    await lab.leave("m")


# --- deletion


async def test_a_deleted_group_is_gone_with_its_states(share_lab: ShareLab) -> None:
    lab = share_lab
    await read_and_left(lab)
    end = lab.end
    await lab.groups.delete("g")
    assert lab.types(end) == [(15, ""), (-12, ""), (-15, ""), (-11, "")]
    assert "g" not in lab.groups.groups
    assert lab.states.states == {}
    await lab.restart()
    assert "g" not in lab.groups.groups


async def test_a_group_whose_states_could_not_be_deleted_stays(share_lab: ShareLab) -> None:
    lab = share_lab
    await read_and_left(lab)
    lab.states.error = NotEnoughReplicas("one of two")
    with pytest.raises(NotEnoughReplicas):
        await lab.groups.delete("g")
    assert lab.far() == {"initializing": {}, "initialized": {}, "deleting": {"t": None}}
    lab.states.error = None
    await lab.groups.delete("g")
    assert lab.states.states == {}
    assert "g" not in lab.groups.groups


async def test_a_group_with_members_is_not_deleted(share_lab: ShareLab) -> None:
    await share_lab.join("m")
    with pytest.raises(NonEmptyGroup):
        await share_lab.groups.delete("g")


async def test_without_a_share_coordinator_no_state_is_initialized(share_lab: ShareLab) -> None:
    def none() -> None:
        raise CoordinatorNotAvailable("none")

    share_lab.groups.share.states.persister = none  # type: ignore[assignment]
    await share_lab.join("m")
    await share_lab.groups.writes_done()
    assert share_lab.far()["initialized"] == {}


async def test_an_empty_group_does_not_expire(make_share_lab: MakeLab) -> None:
    lab = await make_share_lab(offsets_retention_minutes=1)
    await read_and_left(lab)
    await lab.clock.advance(3_600_000, liveness=True)
    assert lab.groups.next_expiry_ms() is None
    await lab.groups.expire_offsets()
    assert lab.state == "Empty"


# --- other protocols


async def code(lab: ShareLab, request: object, version: int) -> str:
    return error_name((await ask_handler(lab.broker, request, version)).error_code)  # type: ignore[arg-type]


def joining() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )


async def test_members_of_other_protocols_do_not_join(share_lab: ShareLab) -> None:
    lab = share_lab
    await lab.join("m")
    for is_empty in (False, True):
        if is_empty:
            await lab.leave("m")
        assert await code(lab, joining(), 3) == "INCONSISTENT_GROUP_PROTOCOL"
        consumer = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert await code(lab, consumer, 1) == "GROUP_ID_NOT_FOUND"
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert await code(lab, heartbeat, 3) == "UNKNOWN_MEMBER_ID"


async def test_a_member_does_not_join_a_group_of_another_kind(share_lab: ShareLab) -> None:
    await ask_handler(share_lab.broker, joining(), 3)
    assert (await share_lab.join("m")).error == "GROUP_ID_NOT_FOUND"


async def test_a_share_group_has_no_committed_offsets(share_lab: ShareLab) -> None:
    lab = share_lab
    await lab.join("m")
    Topic = OffsetCommitRequest.Topic
    partition = Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
    commit = OffsetCommitRequest(group_id="g", topics=[Topic(name="t", partitions=[partition])])
    for version in (8, 9):
        (topic,) = (await ask_handler(lab.broker, commit, version)).topics
        assert error_name(topic.partitions[0].error_code) == "GROUP_ID_NOT_FOUND"
    fetch = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequest.Topic(name="t", partition_indexes=[0])])
    (fetched,) = (await ask_handler(lab.broker, fetch, 7)).topics
    assert (fetched.partitions[0].committed_offset, fetched.partitions[0].error_code) == (-1, 0)
    assert await code(lab, OffsetDeleteRequest(group_id="g", topics=[]), 0) == "GROUP_ID_NOT_FOUND"


async def test_a_share_group_is_listed_and_is_no_classic_group(share_lab: ShareLab) -> None:
    await share_lab.join("m")
    request = ListGroupsRequest(states_filter=["stable"], types_filter=["Share"])
    (listed,) = (await ask_handler(share_lab.broker, request, 5)).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "share",
        "Stable",
        "share",
    )
    (described,) = (await ask_handler(share_lab.broker, DescribeGroupsRequest(groups=["g"]), 6)).groups
    assert (described.group_state, error_name(described.error_code)) == ("Dead", "GROUP_ID_NOT_FOUND")


async def test_an_administrator_removes_a_member_and_raises_the_epoch(share_lab: ShareLab) -> None:
    await share_lab.join("m")
    await share_lab.groups.rebalance("g", "a test")
    assert share_lab.group.epoch == 3
    await share_lab.groups.expel("g", "m", "a test")
    assert (share_lab.state, share_lab.group.departures[-1].member_id) == ("Empty", "m")

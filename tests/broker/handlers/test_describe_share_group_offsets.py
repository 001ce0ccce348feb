"""DescribeShareGroupOffsets (KIP-932): start offsets and lag, and what is hidden."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.broker.share_state.persister import SharePartitionKey, Summary
from kmini.protocol.errors import NotEnoughReplicas, error_name
from kmini.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kmini.protocol.uuids import ZERO_UUID
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_handler
from support.broker.share_lab import ShareLab

Group = DescribeShareGroupOffsetsRequest.Group
Topic = Group.Topic

EXAMPLE = DescribeShareGroupOffsetsRequest(
    groups=[Group(group_id="readers", topics=[Topic(topic_name="orders", partitions=[0])])]
)

MakeLab = Callable[..., Awaitable[ShareLab]]


def asking(*topics: tuple[str, list[int]], group: str = "g", everything: bool = False) -> Any:
    asked = None if everything else [Topic(topic_name=name, partitions=numbers) for name, numbers in topics]
    return DescribeShareGroupOffsetsRequest(groups=[Group(group_id=group, topics=asked)])


async def described(lab: ShareLab, request: Any, version: int = 1) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Start offset, leader epoch and lag by topic and partition."""
    (group,) = (await ask_handler(lab.broker, request, version)).groups
    assert error_name(group.error_code) == "NONE", group.error_message
    return {
        (topic.topic_name, one.partition_index): (one.start_offset, one.leader_epoch, one.lag)
        for topic in group.topics
        for one in topic.partitions
    }


def set_state(lab: ShareLab, number: int, start: int, complete: int, leader_epoch: int = 4) -> None:
    lab.states.states[SharePartitionKey("g", lab.id_of("t"), number)] = Summary(2, leader_epoch, start, complete)


async def test_the_lag_is_what_is_left_to_deliver(share_lab: ShareLab) -> None:
    set_state(share_lab, 0, 0, 0)
    set_state(share_lab, 1, -1, -1)
    set_state(share_lab, 2, 0, -1)
    request = asking(("t", [0, 1, 2]))
    found = {("t", 0): (0, 4, 0), ("t", 1): (-1, 4, -1), ("t", 2): (0, 4, -1)}
    assert await described(share_lab, request) == found
    assert {lag for *_, lag in (await described(share_lab, request, 0)).values()} == {-1}
    place = share_lab.broker.replica_manager
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(place, "high_watermark", lambda topic_partition: 10)
        set_state(share_lab, 0, 3, 2)
        assert (await described(share_lab, request))["t", 0] == (3, 4, 5)


async def test_what_a_group_has_not_begun_to_read_has_no_offset_and_no_error(share_lab: ShareLab) -> None:
    request = asking(("t", [0, 9]), ("no-such", [0]), group="other")
    assert await described(share_lab, request) == {
        ("t", 0): (-1, -1, -1),
        ("t", 9): (-1, -1, -1),
        ("no-such", 0): (-1, 0, -1),
    }
    (group,) = (await ask_handler(share_lab.broker, request, 1)).groups
    assert [topic.topic_id for topic in group.topics] == [share_lab.id_of("t"), ZERO_UUID]


async def test_without_topics_all_that_the_group_has_begun_to_read_is_described(share_lab: ShareLab) -> None:
    assert await described(share_lab, asking(everything=True)) == {}
    await share_lab.join("m")
    await share_lab.groups.writes_done()
    assert [*await described(share_lab, asking(everything=True))] == [("t", number) for number in range(4)]
    assert await described(share_lab, asking()) == {}


async def test_a_partition_whose_state_cannot_be_read_has_no_offset(share_lab: ShareLab) -> None:
    share_lab.states.error = NotEnoughReplicas("one of two")
    assert await described(share_lab, asking(("t", [0]))) == {("t", 0): (-1, 0, -1)}


async def test_a_partition_without_a_leader_has_no_known_end(
    share_lab: ShareLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_state(share_lab, 0, 0, 0)
    monkeypatch.setattr(share_lab.broker.replica_manager, "high_watermark", lambda topic_partition: None)
    (group,) = (await ask_handler(share_lab.broker, asking(("t", [0])), 1)).groups
    assert error_name(group.topics[0].partitions[0].error_code) == "LEADER_NOT_AVAILABLE"


async def test_where_share_groups_are_off_each_group_is_of_an_unsupported_version(share_lab: ShareLab) -> None:
    share_lab.broker.controller.set_feature_levels({"share.version": 0})
    (group,) = (await ask_handler(share_lab.broker, asking(("t", [0])), 1)).groups
    assert error_name(group.error_code) == "UNSUPPORTED_VERSION"


async def test_a_client_sees_the_groups_and_topics_that_it_may_describe(make_share_lab: MakeLab) -> None:
    lab = await make_share_lab(authorizer_class_name=STANDARD, super_users="User:ANONYMOUS")
    await lab.join("m")
    await lab.groups.writes_done()

    async def seen(request: Any) -> tuple[str, list[str]]:
        (group,) = (await ask_as_user(lab.broker, "alice", request)).groups
        codes = [error_name(one.error_code) for topic in group.topics for one in topic.partitions]
        return error_name(group.error_code), codes

    assert await seen(asking(("t", [0]))) == ("GROUP_AUTHORIZATION_FAILED", [])
    lab.broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.GROUP, "g")])
    assert await seen(asking(("t", [0]))) == ("NONE", ["TOPIC_AUTHORIZATION_FAILED"])
    assert await seen(asking(everything=True)) == ("NONE", [])
    lab.broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "t")])
    assert await seen(asking(everything=True)) == ("NONE", ["NONE"] * 4)

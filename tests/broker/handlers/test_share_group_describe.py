"""ShareGroupDescribe (KIP-932): states, epochs, members and partitions, and its permissions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.security.resources import GROUP_OPERATIONS, AclOperation, ResourceType
from kmini.protocol.errors import error_name
from kmini.protocol.messages.metadata import NOT_ASKED_FOR
from kmini.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_handler
from support.broker.share_lab import ShareLab

EXAMPLE = ShareGroupDescribeRequest(group_ids=["readers"])

MakeLab = Callable[..., Awaitable[ShareLab]]


async def test_a_group_is_described_with_all_that_is_known_of_its_members(share_lab: ShareLab) -> None:
    await share_lab.join("m1", rack_id="r")
    await share_lab.settle("m1")
    await share_lab.join("m2", "t", "gone")
    group = await share_lab.describe()
    assert (error_name(group.error_code), group.error_message) == ("NONE", None)
    assert (group.group_id, group.group_state, group.assignor_name) == ("g", "Stable", "simple")
    assert (group.group_epoch, group.assignment_epoch) == (4, 4)
    assert group.authorized_operations == NOT_ASKED_FOR
    first, second = group.members
    assert (first.member_id, first.rack_id, first.member_epoch) == ("m1", "r", 3)
    assert (first.client_id, first.client_host, first.subscribed_topic_names) == ("test", "/192.0.2.7", ["t"])
    (topic,) = first.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (share_lab.id_of("t"), "t", [0, 1, 2, 3])
    assert second.subscribed_topic_names == ["gone", "t"]
    assert [len(topic.partitions) for topic in second.assignment.topic_partitions] == [2]


async def test_an_empty_group_has_its_epochs(share_lab: ShareLab) -> None:
    await share_lab.join("m")
    await share_lab.leave("m")
    group = await share_lab.describe()
    assert (group.group_state, group.group_epoch, group.members) == ("Empty", 3, [])


@pytest.mark.parametrize(("name", "error"), [("", "INVALID_GROUP_ID"), ("other", "GROUP_ID_NOT_FOUND")])
async def test_what_is_no_share_group_is_not_described(share_lab: ShareLab, name: str, error: str) -> None:
    group = await share_lab.describe(name)
    assert (error_name(group.error_code), group.group_state) == (error, "")


async def test_what_may_be_done_to_a_group_is_told_if_it_is_asked_for(share_lab: ShareLab) -> None:
    await share_lab.join("m")
    request = ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    (group,) = (await ask_handler(share_lab.broker, request, 1)).groups
    assert group.authorized_operations == GROUP_OPERATIONS


async def test_where_share_groups_are_off_each_group_is_of_an_unsupported_version(share_lab: ShareLab) -> None:
    share_lab.broker.controller.set_feature_levels({"share.version": 0})
    assert error_name((await share_lab.describe()).error_code) == "UNSUPPORTED_VERSION"


async def test_a_client_needs_the_group_and_the_topics_of_its_members(make_share_lab: MakeLab) -> None:
    lab = await make_share_lab(authorizer_class_name=STANDARD, super_users="User:ANONYMOUS")
    await lab.join("m")
    await lab.settle("m")
    request = ShareGroupDescribeRequest(group_ids=["g"])
    (group,) = (await ask_as_user(lab.broker, "alice", request)).groups
    assert error_name(group.error_code) == "GROUP_AUTHORIZATION_FAILED"
    lab.broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.GROUP, "g")])
    request.group_ids = ["g"]
    (group,) = (await ask_as_user(lab.broker, "alice", request)).groups
    assert (error_name(group.error_code), group.members) == ("TOPIC_AUTHORIZATION_FAILED", [])
    lab.broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "t")])
    (group,) = (await ask_as_user(lab.broker, "alice", request)).groups
    assert [member.member_id for member in group.members] == ["m"]

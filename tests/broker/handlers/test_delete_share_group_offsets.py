"""DeleteShareGroupOffsets (KIP-932): topics that groups without members forget."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import NotEnoughReplicas, error_name
from kmini.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_handler
from support.broker.share_lab import ShareLab

Topic = DeleteShareGroupOffsetsRequest.Topic

EXAMPLE = DeleteShareGroupOffsetsRequest(group_id="readers", topics=[Topic(topic_name="orders")])

MakeLab = Callable[..., Awaitable[ShareLab]]


async def delete(lab: ShareLab, *names: str, group: str = "g", user: str | None = None) -> tuple[str, dict[str, str]]:
    request = DeleteShareGroupOffsetsRequest(group_id=group, topics=[Topic(topic_name=name) for name in names])
    answer: Any = await (ask_as_user(lab.broker, user, request) if user else ask_handler(lab.broker, request, 0))
    return error_name(answer.error_code), {topic.topic_name: error_name(topic.error_code) for topic in answer.responses}


@pytest.fixture
async def lab(share_lab: ShareLab) -> ShareLab:
    """A group without members that has read the topics "t" and "u"."""
    share_lab.add_topics("u", "other", partitions=1)
    await share_lab.join("m", "t", "u")
    await share_lab.groups.writes_done()
    await share_lab.leave("m")
    return share_lab


async def test_a_topic_is_forgotten_with_its_states(lab: ShareLab) -> None:
    end = lab.end
    assert await delete(lab, "t", "other", "no-such") == (
        "NONE",
        {"t": "NONE", "other": "UNKNOWN_TOPIC_OR_PARTITION", "no-such": "UNKNOWN_TOPIC_OR_PARTITION"},
    )
    assert lab.types(end) == [(15, ""), (15, "")]
    assert lab.far() == {"initializing": {}, "initialized": {"u": [0]}, "deleting": {}}
    assert lab.stored_states() == {("u", 0): -1}


async def test_a_topic_whose_states_could_not_be_deleted_is_deleted_with_the_next_request(lab: ShareLab) -> None:
    lab.states.error = NotEnoughReplicas("one of two")
    assert await delete(lab, "t") == ("NONE", {"t": "NOT_ENOUGH_REPLICAS"})
    assert lab.far()["deleting"] == {"t": None}
    lab.states.error = None
    assert await delete(lab, "t") == ("NONE", {"t": "NONE"})
    assert lab.far()["deleting"] == {}
    assert lab.stored_states() == {("u", 0): -1}


async def test_a_topic_that_is_being_deleted_can_be_read_again(lab: ShareLab) -> None:
    lab.states.error = NotEnoughReplicas("one of two")
    await delete(lab, "t")
    lab.states.error = None
    await lab.join("m")
    await lab.groups.writes_done()
    assert lab.far() == {"initializing": {}, "initialized": {"t": [0, 1, 2, 3], "u": [0]}, "deleting": {}}


async def test_only_groups_without_members_forget(lab: ShareLab) -> None:
    await lab.join("m")
    assert await delete(lab, "t") == ("NON_EMPTY_GROUP", {})
    assert await delete(lab, "t", group="none") == ("GROUP_ID_NOT_FOUND", {})
    assert await delete(lab, "t", group="") == ("INVALID_GROUP_ID", {})


async def test_where_share_groups_are_off_the_request_is_of_an_unsupported_version(lab: ShareLab) -> None:
    lab.broker.controller.set_feature_levels({"share.version": 0})
    assert await delete(lab, "t") == ("UNSUPPORTED_VERSION", {})


async def test_a_client_needs_the_group_and_each_topic(make_share_lab: MakeLab) -> None:
    lab = await make_share_lab(authorizer_class_name=STANDARD, super_users="User:ANONYMOUS")
    await lab.join("m")
    await lab.groups.writes_done()
    await lab.leave("m")
    assert await delete(lab, "t", user="alice") == ("GROUP_AUTHORIZATION_FAILED", {})
    lab.broker.controller.create_acls([acl(AclOperation.DELETE, ResourceType.GROUP, "g")])
    assert await delete(lab, "t", user="alice") == ("NONE", {"t": "TOPIC_AUTHORIZATION_FAILED"})
    lab.broker.controller.create_acls([acl(AclOperation.READ, ResourceType.TOPIC, "t")])
    assert await delete(lab, "t", user="alice") == ("NONE", {"t": "NONE"})

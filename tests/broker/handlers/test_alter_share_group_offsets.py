"""AlterShareGroupOffsets (KIP-932): start offsets of groups without members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import NotEnoughReplicas, error_name
from kmini.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_handler
from support.broker.share_lab import ShareLab

Topic = AlterShareGroupOffsetsRequest.Topic

EXAMPLE = AlterShareGroupOffsetsRequest(
    group_id="readers",
    topics=[Topic(topic_name="orders", partitions=[Topic.Partition(partition_index=0, start_offset=0)])],
)

MakeLab = Callable[..., Awaitable[ShareLab]]


def altering(offsets: Mapping[str, Mapping[int, int]], group: str = "g") -> AlterShareGroupOffsetsRequest:
    topics = [
        Topic(
            topic_name=name,
            partitions=[
                Topic.Partition(partition_index=number, start_offset=offset) for number, offset in each.items()
            ],
        )
        for name, each in offsets.items()
    ]
    return AlterShareGroupOffsetsRequest(group_id=group, topics=topics)


async def alter(
    lab: ShareLab, offsets: Mapping[str, Mapping[int, int]], group: str = "g", user: str | None = None
) -> tuple[str, dict[tuple[str, int], str]]:
    request = altering(offsets, group)
    answer: Any = await (ask_as_user(lab.broker, user, request) if user else ask_handler(lab.broker, request, 0))
    return error_name(answer.error_code), {
        (topic.topic_name, one.partition_index): error_name(one.error_code)
        for topic in answer.responses
        for one in topic.partitions
    }


async def test_a_group_that_does_not_exist_is_made(share_lab: ShareLab) -> None:
    lab = share_lab
    assert await alter(lab, {"t": {0: 7, 2: 0}}) == ("NONE", {("t", 0): "NONE", ("t", 2): "NONE"})
    assert lab.types() == [(15, ""), (15, "")]
    assert lab.far() == {"initializing": {}, "initialized": {"t": [0, 2]}, "deleting": {}}
    assert lab.stored_states() == {("t", 0): 7, ("t", 2): 0}
    assert (lab.state, lab.group.epoch) == ("Empty", 1)
    before = lab.in_memory()
    await lab.restart()
    assert lab.in_memory() == before


async def test_a_member_that_joins_later_reads_on_from_there(share_lab: ShareLab) -> None:
    await alter(share_lab, {"t": {0: 7}})
    await share_lab.join("m")
    assert (await share_lab.settle("m"))["m"] == {"t": [0, 1, 2, 3]}
    assert share_lab.stored_states() == {("t", 0): 7, ("t", 1): -1, ("t", 2): -1, ("t", 3): -1}


async def test_unknown_topics_and_partitions_are_refused_one_by_one(share_lab: ShareLab) -> None:
    assert await alter(share_lab, {"t": {1: 3, 4: 3, -1: 3}, "no-such": {0: 0}}) == (
        "NONE",
        {
            ("t", 1): "NONE",
            ("t", 4): "UNKNOWN_TOPIC_OR_PARTITION",
            ("t", -1): "UNKNOWN_TOPIC_OR_PARTITION",
            ("no-such", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        },
    )
    assert share_lab.stored_states() == {("t", 1): 3}


async def test_a_group_with_members_stays_where_it_is(share_lab: ShareLab) -> None:
    await share_lab.join("m")
    assert await alter(share_lab, {"t": {0: 7}}) == ("NON_EMPTY_GROUP", {})
    assert await alter(share_lab, {"t": {0: 7}}, group="") == ("INVALID_GROUP_ID", {})


async def test_what_goes_wrong_with_a_state_is_told_of_its_partition(share_lab: ShareLab) -> None:
    share_lab.states.error = NotEnoughReplicas("one of two")
    assert await alter(share_lab, {"t": {0: 7}}) == ("NONE", {("t", 0): "NOT_ENOUGH_REPLICAS"})
    assert share_lab.far()["initializing"] == {"t": [0]}  # as in Kafka


async def test_where_share_groups_are_off_the_request_is_of_an_unsupported_version(share_lab: ShareLab) -> None:
    share_lab.broker.controller.set_feature_levels({"share.version": 0})
    assert await alter(share_lab, {"t": {0: 7}}) == ("UNSUPPORTED_VERSION", {})


async def test_a_client_needs_the_group_and_each_topic(make_share_lab: MakeLab) -> None:
    lab = await make_share_lab(authorizer_class_name=STANDARD, super_users="User:ANONYMOUS")
    lab.add_topics("u")
    offsets = {"t": {0: 1}, "u": {0: 1}}
    assert await alter(lab, offsets, user="alice") == ("GROUP_AUTHORIZATION_FAILED", {})
    lab.broker.controller.create_acls([acl(AclOperation.READ, ResourceType.GROUP, "g")])
    lab.broker.controller.create_acls([acl(AclOperation.READ, ResourceType.TOPIC, "u")])
    outcome = {("t", 0): "TOPIC_AUTHORIZATION_FAILED", ("u", 0): "NONE"}
    assert await alter(lab, offsets, user="alice") == ("NONE", outcome)

"""Groups as the client describes them. Share groups and streams groups are in the tests of the command line."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.protocol.consumer_protocol import ConsumerProtocolAssignment
from kmini.protocol.errors import GroupAuthorizationFailed, GroupIdNotFound, UnsupportedVersion
from kmini.protocol.messages import ApiVersionsRequest, DescribeGroupsRequest, DescribeGroupsResponse
from kmini.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    TopicPartitions,
)
from kmini.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kmini.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

ClassicGroup = DescribeGroupsResponse.Group
ConsumerGroup = ConsumerGroupDescribeResponse.Group


@pytest.fixture
def broker(cluster, coordinate) -> Any:
    """The coordinator of the group."""
    coordinate(1)
    return cluster[1]


def answer_classic(broker: Any, **group: Any) -> None:
    broker.answers[DescribeGroupsRequest] = lambda request: DescribeGroupsResponse(
        groups=[ClassicGroup(group_id="g", **group)]
    )


def answer_consumer(broker: Any, **group: Any) -> None:
    broker.answers[ConsumerGroupDescribeRequest] = lambda request: ConsumerGroupDescribeResponse(
        groups=[ConsumerGroup(group_id="g", **group)]
    )


def answer_others(broker: Any, **group: Any) -> None:
    for request, response in (
        (ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        (StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
    ):
        answer = response(groups=[response.Group(group_id="g", **group)])
        broker.answers[request] = lambda _, answer=answer: answer


NOT_CLASSIC = [{"group_state": "Dead"}, {"group_state": "Dead", "error_code": GroupIdNotFound.code}]


@pytest.mark.parametrize("told", NOT_CLASSIC, ids=["dead", "not-found"])
@pytest.mark.parametrize("error", [GroupIdNotFound, UnsupportedVersion])
async def test_a_group_of_no_type_is_not_there(broker, client, told, error) -> None:
    answer_classic(broker, **told)
    answer_consumer(broker, error_code=error.code)
    answer_others(broker, error_code=error.code)
    with pytest.raises(GroupIdNotFound):
        await client.describe_group("g")


async def test_a_broker_from_before_the_consumer_protocol_is_not_asked_for_it(broker, client, serves) -> None:
    older = {f"{kind}GroupDescribe": (0, -1) for kind in ("Consumer", "Share", "Streams")}
    broker.answers[ApiVersionsRequest] = lambda _: serves(**older)
    answer_classic(broker, group_state="Dead")
    with pytest.raises(GroupIdNotFound):
        await client.describe_group("g")
    assert broker.asked(ConsumerGroupDescribeRequest) == []


async def test_a_consumer_group_that_may_not_be_seen_is_no_missing_one(broker, client) -> None:
    answer_classic(broker, group_state="Dead")
    answer_consumer(broker, error_code=GroupAuthorizationFailed.code)
    with pytest.raises(GroupAuthorizationFailed):
        await client.describe_group("g")


async def test_members_of_a_classic_group_come_with_their_assignments(broker, client) -> None:
    Topics = ConsumerProtocolAssignment.TopicPartitions
    assignment = ConsumerProtocolAssignment(assigned_partitions=[Topics(topic="t", partitions=[2, 0])])
    encoded = b"\0\1" + b"".join(assignment.encode(1))
    members = [
        ClassicGroup.Member(member_id=str(number), client_id="c", client_host="/::1", member_assignment=bytes_)
        for number, bytes_ in enumerate([encoded, b"", b"what is this"])
    ]
    answer_classic(broker, group_state="Stable", protocol_type="consumer", members=members, protocol_data="range")
    described = await client.describe_group("g")
    assert (described.type, described.protocol, described.epoch) == ("classic", "range", None)
    assert [member.partitions for member in described.members] == [(("t", 0), ("t", 2)), (), ()]
    assert described.members[0].client_host == "::1"
    assert (described.members[0].target, described.members[0].topics) == (None, None)


async def test_members_of_a_consumer_group_come_with_epochs_and_targets(broker, client) -> None:
    def places(*numbers: int) -> Assignment:
        return Assignment(topic_partitions=[TopicPartitions(topic_id=b"t" * 16, topic_name="t", partitions=[*numbers])])

    answer_classic(broker, group_state="Dead")
    members = [
        ConsumerGroup.Member(
            member_id=name,
            instance_id=instance,
            member_epoch=epoch,
            client_id="c",
            client_host="/::1",
            subscribed_topic_names=["u", "t"],
            subscribed_topic_regex=regex,
            assignment=places(1, 0),
            target_assignment=places(0),
            member_type=member_type,
        )
        for name, instance, epoch, regex, member_type in (("a", None, 3, "t.*", 1), ("b", "first", 4, None, 0))
    ]
    answer_consumer(
        broker, group_state="Reconciling", group_epoch=5, assignment_epoch=4, assignor_name="uniform", members=members
    )
    described = await client.describe_group("g")
    assert (described.type, described.state, described.is_idle) == ("consumer", "Reconciling", False)
    assert (described.protocol_type, described.protocol) == ("consumer", "uniform")
    assert (described.epoch, described.assignment_epoch) == (5, 4)
    a, b = described.members
    assert (a.partitions, a.target, a.epoch) == ((("t", 0), ("t", 1)), (("t", 0),), 3)
    assert (a.type, a.topics, a.topic_regex, a.client_host) == ("consumer", ("t", "u"), "t.*", "::1")
    assert (b.type, b.group_instance_id, b.topic_regex) == ("classic", "first", "")

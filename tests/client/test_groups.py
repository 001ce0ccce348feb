"""Groups in the client: the coordinator is found, cached and looked up again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kmini.client import CommittedOffset, GroupListing
from kmini.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    NotCoordinator,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages import (
    ApiVersionsRequest,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

Group = DescribeGroupsResponse.Group


def describes(state: str = "Stable", **more) -> Callable[[DescribeGroupsRequest], DescribeGroupsResponse]:
    return lambda request: DescribeGroupsResponse(
        groups=[Group(group_id=name, group_state=state, protocol_type="consumer", **more) for name in request.groups]
    )


def refuses(error: type[Exception]) -> Callable[[DescribeGroupsRequest], DescribeGroupsResponse]:
    return describes("", error_code=error.code)


async def test_a_coordinator_is_looked_up_once(cluster, client, coordinate) -> None:
    named = coordinate(2)
    cluster[2].answers[DescribeGroupsRequest] = describes()
    for _ in range(3):
        assert (await client.describe_group("g")).coordinator == (2, cluster[2].address)
    assert named == [2]


async def test_the_answer_of_an_old_broker_names_the_coordinator(cluster, client, coordinate, serves) -> None:
    for broker in cluster.brokers.values():
        broker.answers[ApiVersionsRequest] = lambda _: serves(FindCoordinator=(0, 0))
    coordinate(3)
    cluster[3].answers[DescribeGroupsRequest] = describes()
    assert (await client.describe_group("g")).state == "Stable"


async def test_a_missing_coordinator_is_looked_up_again(cluster, client, coordinate) -> None:
    named = coordinate(-1, -1, 2)
    cluster[2].answers[DescribeGroupsRequest] = describes()
    await client.describe_group("g")
    assert named == [-1, -1, 2]


@pytest.mark.parametrize("error", [NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress])
async def test_after_not_coordinator_the_coordinator_is_looked_up_again(cluster, client, coordinate, error) -> None:
    coordinate(1, 3)
    cluster[1].answers[DescribeGroupsRequest] = refuses(error)
    cluster[3].answers[DescribeGroupsRequest] = describes()
    assert (await client.describe_group("g")).coordinator.node_id == 3


async def test_a_coordinator_that_is_gone_is_looked_for_again(cluster, client, coordinate) -> None:
    coordinate(1, 2)
    cluster[2].answers[DescribeGroupsRequest] = describes()
    await cluster[1].stop()
    assert (await client.describe_group("g")).coordinator.node_id == 2


async def test_other_errors_are_the_callers(cluster, client, coordinate) -> None:
    coordinate(1)
    cluster[1].answers[DescribeGroupsRequest] = refuses(GroupAuthorizationFailed)
    with pytest.raises(GroupAuthorizationFailed):
        await client.describe_group("g")
    assert len(cluster[1].asked(DescribeGroupsRequest)) == 1


async def test_groups_of_all_brokers_are_listed_once_and_in_order(cluster, client) -> None:
    Listed = ListGroupsResponse.Group
    for node_id, names in {1: ["b", "c"], 2: [], 3: ["a", "c"]}.items():
        groups = [
            Listed(group_id=n, protocol_type="consumer", group_state="Empty", group_type="classic") for n in names
        ]
        cluster[node_id].answers[ListGroupsRequest] = lambda _, groups=groups: ListGroupsResponse(groups=groups)
    listed = await client.list_groups(states=["Empty"], types=["classic"])
    assert listed == [GroupListing(name, "consumer", "Empty", "classic") for name in "abc"]
    (request,) = cluster[2].asked(ListGroupsRequest)
    assert (request.states_filter, request.types_filter) == (["Empty"], ["classic"])


async def test_a_broker_that_still_loads_is_asked_again(cluster, client) -> None:
    codes = [CoordinatorLoadInProgress.code, 0]
    for broker in cluster.brokers.values():
        broker.answers[ListGroupsRequest] = lambda _: ListGroupsResponse()
    cluster[2].answers[ListGroupsRequest] = lambda _: ListGroupsResponse(error_code=codes.pop(0))
    assert await client.list_groups() == []
    assert len(cluster[2].asked(ListGroupsRequest)) == 2


async def test_each_group_that_is_to_be_deleted_has_its_own_outcome(cluster, client, coordinate) -> None:
    codes = {"busy": NonEmptyGroup.code, "gone": GroupIdNotFound.code}
    coordinate(1)
    Result = DeleteGroupsResponse.Result
    cluster[1].answers[DeleteGroupsRequest] = lambda request: DeleteGroupsResponse(
        results=[Result(group_id=name, error_code=codes.get(name, 0)) for name in request.groups_names]
    )
    outcomes = await client.delete_groups(["idle", "busy", "gone", "idle"])
    assert list(outcomes) == ["idle", "busy", "gone"]
    assert outcomes["idle"] is None
    assert isinstance(outcomes["busy"], NonEmptyGroup)
    assert isinstance(outcomes["gone"], GroupIdNotFound)


def fetched_offsets(request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Partition 0 of t stands at 5, nothing is committed for 1; in the form of every version."""
    Old, New = OffsetFetchResponse.Topic, OffsetFetchResponse.Group.Topic
    offsets = {0: (5, "note"), 1: (-1, "")}

    def topic(kind: type[Old] | type[New]) -> Old | New:
        partitions = [
            kind.Partition(partition_index=index, committed_offset=offset, metadata=note, committed_leader_epoch=2)
            for index, (offset, note) in offsets.items()
        ]
        return kind(name="t", partitions=partitions)

    groups = [OffsetFetchResponse.Group(group_id=group.group_id, topics=[topic(New)]) for group in request.groups]
    return OffsetFetchResponse(topics=[topic(Old)], groups=groups)


@pytest.mark.parametrize("highest", [7, 8, 10])
async def test_offsets_are_asked_for_by_name(cluster, client, coordinate, serves, highest) -> None:
    coordinate(1)
    cluster[1].answers[ApiVersionsRequest] = lambda _: serves(OffsetFetch=(1, highest))
    cluster[1].answers[OffsetFetchRequest] = fetched_offsets
    assert await client.committed_offsets("g") == {("t", 0): CommittedOffset(5, "note", 2)}
    (request,) = cluster[1].asked(OffsetFetchRequest)
    assert (request.groups[0].topics if highest > 7 else request.topics) is None
    assert cluster[1].versions[-1] == min(highest, 9)


def commits(**codes: int) -> Callable[[OffsetCommitRequest], OffsetCommitResponse]:
    Topic = OffsetCommitResponse.Topic
    return lambda request: OffsetCommitResponse(
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    Topic.Partition(partition_index=p.partition_index, error_code=codes.get(topic.name, 0))
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def test_offsets_are_committed_from_outside_of_the_group(cluster, client, coordinate) -> None:
    coordinate(1)
    cluster[1].answers[OffsetCommitRequest] = commits(nowhere=UnknownTopicOrPartition.code)
    offsets = {("t", 0): 7, ("t", 1): CommittedOffset(8, "note", 3), ("nowhere", 0): 1}
    outcomes = await client.commit_offsets("g", offsets)
    assert outcomes[("t", 0)] is None
    assert isinstance(outcomes[("nowhere", 0)], UnknownTopicOrPartition)
    (request,) = cluster[1].asked(OffsetCommitRequest)
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
    assert [(p.committed_offset, p.committed_metadata) for p in request.topics[0].partitions] == [(7, ""), (8, "note")]
    assert cluster[1].versions[-1] == 9


@pytest.mark.parametrize("error", [CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator])
async def test_a_commit_follows_the_coordinator(cluster, client, coordinate, error) -> None:
    coordinate(1, 2)
    cluster[1].answers[OffsetCommitRequest] = commits(t=error.code)
    cluster[2].answers[OffsetCommitRequest] = commits()
    assert await client.commit_offsets("g", {("t", 0): 7}) == {("t", 0): None}


async def test_a_group_with_members_takes_no_offsets_from_outside(cluster, client, coordinate) -> None:
    coordinate(1)
    cluster[1].answers[OffsetCommitRequest] = commits(t=UnknownMemberId.code)
    outcomes = await client.commit_offsets("g", {("t", 0): 7})
    assert isinstance(outcomes[("t", 0)], UnknownMemberId)


async def test_offsets_are_deleted_by_partition_unless_the_whole_group_is_refused(cluster, client, coordinate) -> None:
    coordinate(1)
    Topic = OffsetDeleteResponse.Topic
    codes = {0: 0, 1: GroupSubscribedToTopic.code}
    partitions = [Topic.Partition(partition_index=index, error_code=code) for index, code in codes.items()]
    cluster[1].answers[OffsetDeleteRequest] = lambda _: OffsetDeleteResponse(
        topics=[Topic(name="t", partitions=partitions)]
    )
    outcomes = await client.delete_offsets("g", [("t", 0), ("t", 1)])
    assert outcomes[("t", 0)] is None
    assert isinstance(outcomes[("t", 1)], GroupSubscribedToTopic)
    cluster[1].answers[OffsetDeleteRequest] = lambda _: OffsetDeleteResponse(error_code=GroupIdNotFound.code)
    with pytest.raises(GroupIdNotFound):
        await client.delete_offsets("g", [("t", 0)])

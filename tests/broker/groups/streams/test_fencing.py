"""Commits and fetches of offsets in a streams group: each row of Kafka's checks (StreamsGroup)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from kmini.broker.groups.group import Committer, Place
from kmini.broker.groups.modern.fencing import check_commit, check_fetch
from kmini.broker.groups.streams.streams_group import StreamsGroup
from kmini.broker.groups.streams.task_members import CurrentTasks, TaskMembership, TaskState
from kmini.broker.groups.streams.topology import InternalTopic, Subtopology, topology_from
from kmini.protocol.errors import KafkaError, error_name
from kmini.protocol.messages.list_groups import ListGroupsRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.offset_delete import OffsetDeleteRequest
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from support.broker.asking import ask_handler
from support.broker.streams_lab import StreamsLab

IN_TRANSACTION = None


@pytest.fixture
def group() -> StreamsGroup:
    """The member "m" at epoch 7: of subtopology 0, which reads "t" and the repartition topic "r", it has the tasks 0
    and 1 since epochs 3 and 7, and gives up task 2 that it has since 5."""
    group = StreamsGroup("g")
    group.topology = topology_from(0, [Subtopology("0", ("t",), (), (), (), (InternalTopic("r"),), ())])
    group.put_membership("m", TaskMembership("m", None, None, "", "", 0, 0, "p", None, ()))
    group.put_current(
        "m",
        CurrentTasks(7, 6, TaskState.UNREVOKED_TASKS, {"0": {0: 3, 1: 7}}, revoking_active={"0": {2: 5}}),
    )
    return group


def committed(
    group: StreamsGroup,
    member_id: str,
    epoch: int,
    *places: tuple[str, int],
    version: int | None = 9,
    instance_id: str | None = None,
) -> str:
    """The error of a commit."""
    try:
        check_commit(
            group,
            Committer(member_id, instance_id, epoch, version),
            lambda: [Place(topic, b"", number) for topic, number in places],
        )
    except KafkaError as error:
        return error.kafka_name
    return "NONE"


def test_a_group_without_members_takes_commits_from_outside() -> None:
    group = StreamsGroup("g")
    assert committed(group, "", -1) == committed(group, "", -1, version=2) == "NONE"
    assert committed(group, "m", 3) == "UNKNOWN_MEMBER_ID"


def test_in_a_group_with_members_only_these_commit(group: StreamsGroup) -> None:
    assert committed(group, "", -1) == committed(group, "x", 7) == "UNKNOWN_MEMBER_ID"
    assert committed(group, "", -1, version=IN_TRANSACTION) == "NONE"  # it tells nothing, and nothing is checked
    assert committed(group, "", -1, version=IN_TRANSACTION, instance_id="i") == "UNKNOWN_MEMBER_ID"


def test_members_commit_with_version_9_or_later(group: StreamsGroup) -> None:
    assert committed(group, "m", 7, ("t", 0), version=8) == "UNSUPPORTED_VERSION"
    assert committed(group, "m", 7, ("t", 3)) == "NONE"  # at its epoch also what it does not read


@pytest.mark.parametrize(
    ("epoch", "places", "is_accepted"),
    [
        (3, [("t", 0)], True),
        (3, [("r", 0)], True),
        (2, [("t", 0)], False),
        (6, [("t", 0), ("t", 1)], False),
        (5, [("t", 2)], True),
        (4, [("t", 2)], False),
        (6, [("t", 3)], False),
        (6, [("other", 0)], False),
        (6, [], True),
        (8, [("t", 0)], False),
    ],
)
def test_an_older_epoch_commits_what_the_tasks_of_the_member_read_then_and_still(
    group: StreamsGroup, epoch: int, places: Collection[tuple[str, int]], is_accepted: bool
) -> None:
    assert committed(group, "m", epoch, *places) == ("NONE" if is_accepted else "STALE_MEMBER_EPOCH")
    in_transaction = committed(group, "m", epoch, *places, version=IN_TRANSACTION)
    assert in_transaction == ("NONE" if is_accepted else "ILLEGAL_GENERATION")


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, "NONE"),
        ("", -1, "UNKNOWN_MEMBER_ID"),
        ("x", 7, "UNKNOWN_MEMBER_ID"),
        (None, 7, "UNKNOWN_MEMBER_ID"),
        ("m", 7, "NONE"),
        ("m", 6, "STALE_MEMBER_EPOCH"),
        ("m", 8, "STALE_MEMBER_EPOCH"),
    ],
)
def test_a_fetch_needs_exactly_the_epoch_of_its_member(
    group: StreamsGroup, member_id: str | None, epoch: int, error: str
) -> None:
    refusals = []
    try:
        check_fetch(group, member_id, epoch)
    except KafkaError as refusal:
        refusals.append(refusal.kafka_name)
    assert refusals == ([] if error == "NONE" else [error])


# --- through the handlers


async def commit(lab: StreamsLab, epoch: int, topic: str = "t", partition: int = 0) -> str:
    Topic = OffsetCommitRequest.Topic
    places = [Topic.Partition(partition_index=partition, committed_offset=5, committed_metadata="")]
    request = OffsetCommitRequest(
        group_id="g",
        member_id="m",
        generation_id_or_member_epoch=epoch,
        topics=[Topic(name=topic, partitions=places)],
    )
    (answered,) = (await ask_handler(lab.broker, request, 9)).topics
    return error_name(answered.partitions[0].error_code)


async def fetched(lab: StreamsLab, epoch: int) -> Any:
    Group = OffsetFetchRequest.Group
    asked = Group(group_id="g", member_id="m", member_epoch=epoch, topics=None)
    (answered,) = (await ask_handler(lab.broker, OffsetFetchRequest(groups=[asked], require_stable=False), 9)).groups
    return answered


async def test_members_commit_and_read_offsets_with_their_epoch(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m")
    assert await commit(lab, 2) == "NONE"
    assert await commit(lab, 1) == "STALE_MEMBER_EPOCH"
    found = await fetched(lab, 2)
    assert [(topic.name, topic.partitions[0].committed_offset) for topic in found.topics] == [("t", 5)]
    assert error_name((await fetched(lab, 1)).error_code) == "STALE_MEMBER_EPOCH"


async def test_offsets_of_topics_that_the_topology_reads_are_not_deleted(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    lab.add_topics("other")
    await lab.join("m")
    for topic in ("t", "other"):
        assert await commit(lab, 2, topic) == "NONE"
    Topic = OffsetDeleteRequest.Topic
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[Topic(name=name, partitions=[Topic.Partition(partition_index=0)]) for name in ("t", "other")],
    )
    answer = await ask_handler(lab.broker, request)
    assert {topic.name: error_name(topic.partitions[0].error_code) for topic in answer.topics} == {
        "t": "GROUP_SUBSCRIBED_TO_TOPIC",
        "other": "NONE",
    }


async def test_the_group_is_listed_by_its_type_and_state(quick_lab: StreamsLab) -> None:
    await quick_lab.join("m")
    for filters, is_listed in (({"types_filter": ["Streams"]}, True), ({"types_filter": ["consumer"]}, False)):
        answer = await ask_handler(quick_lab.broker, ListGroupsRequest(states_filter=["stable"], **filters))
        listed = [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in answer.groups]
        assert listed == ([("g", "streams", "Stable", "streams")] if is_listed else [])

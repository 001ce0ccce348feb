"""Commits and fetches of offsets in a group of KIP-848: each row of Kafka's checks (ConsumerGroup)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.consumer.members import ClassicMetadata, CurrentAssignment, Membership, MemberState
from kmini.broker.groups.group import Committer, Place
from kmini.broker.groups.modern.fencing import check_commit, check_fetch
from kmini.protocol.errors import KafkaError
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from support.broker.asking import ask_handler
from support.broker.consumer_lab import ConsumerLab

A, B = b"a" * 16, b"b" * 16
IN_TRANSACTION = None


@pytest.fixture
def group() -> ConsumerGroup:
    """The member "m" at epoch 7, which has partitions of A since epochs 3 and 7, and gives one up that it has since 5;
    and the classic member "c" at the same epoch."""
    group = ConsumerGroup("g", "uniform")
    for member_id, classic in (("m", None), ("c", ClassicMetadata(1000, ()))):
        group.put_membership(member_id, Membership(member_id, None, None, "", "", 0, classic=classic))
        current = CurrentAssignment(7, 6, MemberState.UNREVOKED_PARTITIONS, {A: {0: 3, 1: 7}}, {A: {2: 5}})
        group.put_current(member_id, current)
    return group


def committed(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    *places: tuple[bytes, int],
    version: int | None = 9,
    instance_id: str | None = None,
) -> str:
    """The error of a commit."""
    try:
        check_commit(
            group, Committer(member_id, instance_id, epoch, version), lambda: [Place("t", *place) for place in places]
        )
    except KafkaError as error:
        return error.kafka_name
    return "NONE"


def test_a_group_without_members_takes_commits_from_outside() -> None:
    group = ConsumerGroup("g", "uniform")
    assert committed(group, "", -1) == "NONE"
    assert committed(group, "", -1, version=2) == "NONE"
    assert committed(group, "m", 3) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(("member_id", "epoch"), [("", -1), ("x", -1), ("x", 7), ("", 7)])
def test_a_group_with_members_takes_commits_of_members_only(group: ConsumerGroup, member_id: str, epoch: int) -> None:
    assert committed(group, member_id, epoch) == "UNKNOWN_MEMBER_ID"


def test_the_present_epoch_commits_also_what_the_member_does_not_have(group: ConsumerGroup) -> None:
    assert committed(group, "m", 7, (A, 9), (B, 0)) == "NONE"


@pytest.mark.parametrize(
    ("epoch", "places", "is_accepted"),
    [
        (8, [(A, 0)], False),
        (6, [(A, 0)], True),
        (3, [(A, 0)], True),
        (2, [(A, 0)], False),
        (6, [(A, 1)], False),
        (5, [(A, 2)], True),
        (4, [(A, 2)], False),
        (6, [(A, 0), (A, 2)], True),
        (6, [(A, 0), (A, 1)], False),
        (6, [(A, 9)], False),
        (6, [(B, 0)], False),
        (6, [], True),
    ],
)
def test_an_older_epoch_commits_what_the_member_had_then_and_has_still(
    group: ConsumerGroup, epoch: int, places: Collection[tuple[bytes, int]], is_accepted: bool
) -> None:
    assert committed(group, "m", epoch, *places) == ("NONE" if is_accepted else "STALE_MEMBER_EPOCH")
    assert committed(group, "c", epoch, *places, version=8) == ("NONE" if is_accepted else "ILLEGAL_GENERATION")
    in_transaction = committed(group, "m", epoch, *places, version=IN_TRANSACTION)
    assert in_transaction == ("NONE" if is_accepted else "ILLEGAL_GENERATION")


def test_a_member_of_the_consumer_protocol_commits_from_version_9_on(group: ConsumerGroup) -> None:
    assert committed(group, "m", 7, version=8) == "UNSUPPORTED_VERSION"
    assert committed(group, "c", 7, version=8) == "NONE"
    assert committed(group, "x", 7, version=8) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    ("member_id", "epoch", "instance_id", "expected"),
    [
        ("", -1, None, "NONE"),
        ("", -1, "i", "UNKNOWN_MEMBER_ID"),
        ("x", -1, None, "UNKNOWN_MEMBER_ID"),
        ("", 3, None, "UNKNOWN_MEMBER_ID"),
        ("m", -1, None, "ILLEGAL_GENERATION"),
        ("m", 7, None, "NONE"),
    ],
)
def test_a_transaction_that_names_no_member_is_not_checked(
    group: ConsumerGroup, member_id: str, epoch: int, instance_id: str | None, expected: str
) -> None:
    found = committed(group, member_id, epoch, (A, 1), version=IN_TRANSACTION, instance_id=instance_id)
    assert found == expected


def test_the_instance_id_of_a_commit_is_not_looked_at(group: ConsumerGroup) -> None:
    assert committed(group, "m", 7, instance_id="of another") == "NONE"


@pytest.mark.parametrize(
    ("member_id", "epoch", "expected"),
    [
        (None, -1, "NONE"),
        (None, 7, "UNKNOWN_MEMBER_ID"),
        ("", -1, "UNKNOWN_MEMBER_ID"),
        ("x", 7, "UNKNOWN_MEMBER_ID"),
        ("m", 7, "NONE"),
        ("m", 6, "STALE_MEMBER_EPOCH"),
        ("m", 8, "STALE_MEMBER_EPOCH"),
        ("m", -1, "STALE_MEMBER_EPOCH"),
        ("c", 6, "ILLEGAL_GENERATION"),
        ("c", 7, "NONE"),
    ],
)
def test_a_fetch_needs_the_exact_epoch_or_no_member_at_all(
    group: ConsumerGroup, member_id: str | None, epoch: int, expected: str
) -> None:
    try:
        check_fetch(group, member_id, epoch)
        found = "NONE"
    except KafkaError as error:
        found = error.kafka_name
    assert found == expected


# --- through the handlers


def committing(lab: ConsumerLab, epoch: int, *partitions: int, version: int = 9, member_id: str = "m") -> Any:
    Topic = OffsetCommitRequest.Topic
    topic = Topic(
        name="orders",
        topic_id=lab.id_of("orders"),
        partitions=[
            Topic.Partition(partition_index=number, committed_offset=0, committed_metadata="") for number in partitions
        ],
    )
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, topics=[topic]
    )
    return ask_handler(lab.broker, request, version)


async def codes_of(lab: ConsumerLab, epoch: int, *partitions: int, version: int = 9) -> list[int]:
    (topic,) = (await committing(lab, epoch, *partitions, version=version)).topics
    return [each.error_code for each in topic.partitions]


@pytest.mark.parametrize("version", [9, 10])
async def test_one_partition_that_fails_fails_the_whole_commit(consumer_lab: ConsumerLab, version: int) -> None:
    """As in Apache Kafka: nothing is stored then. A commit in version 10 names topics by their ids."""
    await consumer_lab.join("m", "orders")
    await consumer_lab.join("n", "orders")
    await consumer_lab.settle("m", "n")
    await consumer_lab.leave("n")
    await consumer_lab.settle("m")
    assert consumer_lab.group.current("m").epoch == 4
    kept = [number for number, epoch in consumer_lab.group.current("m").assigned[consumer_lab.id_of("orders")].items()]
    epochs = consumer_lab.group.current("m").assigned[consumer_lab.id_of("orders")]
    old = [number for number in kept if epochs[number] == 2]
    new = [number for number in kept if epochs[number] == 4]
    assert (len(old), len(new)) == (2, 2)
    assert await codes_of(consumer_lab, 3, *old, version=version) == [0, 0]
    stored = len(consumer_lab.group.offsets)
    assert await codes_of(consumer_lab, 3, *old, *new, version=version) == [113] * 4
    assert len(consumer_lab.group.offsets) == stored
    assert await codes_of(consumer_lab, 4, *old, *new, version=version) == [0] * 4


@pytest.mark.parametrize(("member_id", "epoch", "code"), [("m", 2, 0), ("m", 1, 113), ("x", 2, 25), (None, -1, 0)])
async def test_a_fetch_checks_the_member(
    consumer_lab: ConsumerLab, member_id: str | None, epoch: int, code: int
) -> None:
    await consumer_lab.join("m", "orders")
    Group = OffsetFetchRequest.Group
    asked = Group(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
    (group,) = (await ask_handler(consumer_lab.broker, OffsetFetchRequest(groups=[asked]), 9)).groups
    assert group.error_code == code

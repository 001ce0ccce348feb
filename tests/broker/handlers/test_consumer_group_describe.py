"""ConsumerGroupDescribe (KIP-848): states, epochs, members and assignments, and its permissions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.classic.member import Joining
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import error_name
from kmini.protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.metadata import NOT_ASKED_FOR
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_handler
from support.broker.consumer_lab import ConsumerLab

EXAMPLE = ConsumerGroupDescribeRequest(group_ids=["readers"])

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


def places(assignment: Assignment) -> dict[str, list[int]]:
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


@pytest.mark.parametrize("version", [0, 1])
async def test_a_group_is_described_with_all_that_is_known_of_its_members(
    consumer_lab: ConsumerLab, version: int
) -> None:
    await consumer_lab.join("m", "orders", instance_id="i", rack_id="r", server_assignor="range")
    group = await consumer_lab.describe(version=version)
    assert (error_name(group.error_code), group.error_message) == ("NONE", None)
    assert (group.group_id, group.group_state, group.group_epoch, group.assignment_epoch) == ("g", "Stable", 2, 2)
    assert group.assignor_name == "range"
    assert group.authorized_operations == NOT_ASKED_FOR
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert (member.client_id, member.client_host) == ("test", "/192.0.2.7")
    assert member.subscribed_topic_names == ["orders"]
    assert member.subscribed_topic_regex == ""  # as in Kafka, not null
    assert places(member.assignment) == places(member.target_assignment) == {"orders": [0, 1, 2, 3]}
    assert member.assignment.topic_partitions[0].topic_id == consumer_lab.id_of("orders")
    assert member.member_type == (1 if version else -1)


async def test_a_member_has_what_it_has_not_given_up(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("m", "orders")
    await consumer_lab.beat("m", 2, names=[])
    (member,) = (await consumer_lab.describe()).members
    assert consumer_lab.assigned_to("m") == {}
    assert places(member.assignment) == {"orders": [0, 1, 2, 3]}
    consumer_lab.add_topics("others")
    await consumer_lab.beat("m", 2, names=["others"])
    await consumer_lab.pass_time(1_000)
    await consumer_lab.beat("m", 2)
    (member,) = (await consumer_lab.describe()).members
    assert places(member.assignment) == {"orders": [0, 1, 2, 3]}
    assert places(member.target_assignment) == {"others": [0, 1, 2, 3]}


async def test_topics_that_are_gone_are_left_out(consumer_lab: ConsumerLab) -> None:
    consumer_lab.add_topics("others", partitions=1)
    await consumer_lab.join("m", "orders", "others")
    consumer_lab.delete_topic("orders")
    (member,) = (await consumer_lab.describe()).members
    assert places(member.assignment) == places(member.target_assignment) == {"others": [0]}
    assert member.subscribed_topic_names == ["orders", "others"]


async def test_the_assignor_is_the_default_where_no_member_names_one(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("m", "orders")
    assert (await consumer_lab.describe()).assignor_name == "uniform"


async def test_every_state_has_its_name(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("a", "orders")
    assert (await consumer_lab.describe()).group_state == "Stable"
    await consumer_lab.join("b", "orders")
    assert (await consumer_lab.describe()).group_state == "Assigning"
    await consumer_lab.pass_time(1_000)
    await consumer_lab.beat("a", 2)
    assert (await consumer_lab.describe()).group_state == "Reconciling"
    await consumer_lab.leave("a")
    await consumer_lab.leave("b")
    described = await consumer_lab.describe()
    assert (described.group_state, described.members, described.group_epoch) == ("Empty", [], 5)


@pytest.mark.parametrize("kind", ["absent", "classic", "simple", ""])
async def test_what_is_no_consumer_group_is_not_found(consumer_lab: ConsumerLab, kind: str) -> None:
    if kind == "classic":
        joining = Joining("", None, "", "/", 10_000, 10_000, "consumer", {"range": b""}, takes_member_id=False)
        consumer_lab.groups.join(kind, joining)
    if kind == "simple":
        Topic = OffsetCommitRequest.Topic
        partition = Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
        commit = OffsetCommitRequest(group_id=kind, topics=[Topic(name="orders", partitions=[partition])])
        await ask_handler(consumer_lab.broker, commit, 8)
    described = await consumer_lab.describe(kind)
    assert error_name(described.error_code) == ("GROUP_ID_NOT_FOUND" if kind else "INVALID_GROUP_ID")
    assert described.error_message
    assert (described.group_id, described.group_state, described.members) == (kind, "", [])


async def test_a_group_that_is_named_twice_is_described_once(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("m", "orders")
    names = ["g", "absent", "g"]
    answer = await ask_handler(consumer_lab.broker, ConsumerGroupDescribeRequest(group_ids=names))
    assert [group.group_id for group in answer.groups] == ["g", "absent"]


async def test_authorized_operations_are_told_of_groups_that_exist(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("m", "orders")
    request = ConsumerGroupDescribeRequest(group_ids=["g", "absent"], include_authorized_operations=True)
    known, absent = (await ask_handler(consumer_lab.broker, request)).groups
    for operation in (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE):
        assert known.authorized_operations & 1 << operation
    assert absent.authorized_operations == NOT_ASKED_FOR


async def test_where_the_protocol_is_off_each_group_is_of_an_unsupported_version(start_broker: StartBroker) -> None:
    broker = await start_broker(authorizer_class_name=STANDARD, group_coordinator_rebalance_protocols="classic")
    answer = await ask_as_user(broker, "alice", ConsumerGroupDescribeRequest(group_ids=["a", ""]))
    assert [(group.group_id, error_name(group.error_code)) for group in answer.groups] == [
        ("a", "UNSUPPORTED_VERSION"),
        ("", "UNSUPPORTED_VERSION"),
    ]


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    answer = await ask(await start_broker(), EXAMPLE)
    assert [error_name(group.error_code) for group in answer.groups] == ["NOT_COORDINATOR"]


# --- permissions


@pytest.fixture
async def guarded(start_broker: StartBroker, ask: Ask) -> BrokerServer:
    """A broker with the group "readers", whose member has "orders" and "secret"."""
    broker = await start_broker(
        authorizer_class_name=STANDARD, super_users="User:admin", offsets_topic_num_partitions=1
    )
    for name in ("orders", "secret"):
        topics.create(broker, name, partitions=1)
    await ask(broker, FindCoordinatorRequest(key="readers", key_type=0), 3)
    joining = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders", "secret"],
    )
    assert error_name((await ask_as_user(broker, "admin", joining)).error_code) == "NONE"
    return broker


async def described_to(broker: BrokerServer, user: str, *, operations: bool = False) -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=["readers"], include_authorized_operations=operations)
    (group,) = (await ask_as_user(broker, user, request)).groups
    return group


async def test_a_client_needs_the_group_and_all_topics_of_its_members(guarded: BrokerServer) -> None:
    group = await described_to(guarded, "alice")
    assert (error_name(group.error_code), group.group_state) == ("GROUP_AUTHORIZATION_FAILED", "")
    guarded.controller.create_acls(
        [
            acl(AclOperation.DESCRIBE, ResourceType.GROUP, "readers"),
            acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "orders"),
        ]
    )
    group = await described_to(guarded, "alice")
    assert (error_name(group.error_code), group.members) == ("TOPIC_AUTHORIZATION_FAILED", [])
    guarded.controller.create_acls([acl(AclOperation.READ, ResourceType.TOPIC, "secret")])
    group = await described_to(guarded, "alice")
    assert (error_name(group.error_code), len(group.members)) == ("NONE", 1)


async def test_authorized_operations_are_those_of_the_client(guarded: BrokerServer) -> None:
    rights = [acl(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in ("orders", "secret")]
    guarded.controller.create_acls([acl(AclOperation.DELETE, ResourceType.GROUP, "readers"), *rights])
    group = await described_to(guarded, "alice", operations=True)
    assert group.authorized_operations == 1 << AclOperation.DELETE | 1 << AclOperation.DESCRIBE
    assert (await described_to(guarded, "alice")).authorized_operations == NOT_ASKED_FOR

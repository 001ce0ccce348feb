"""StreamsGroupDescribe (KIP-1071): states, epochs, topologies, members and tasks, and its permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import error_name
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.metadata import NOT_ASKED_FOR
from kmini.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kmini.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, StreamsGroupHeartbeatRequest
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_handler
from support.broker.streams_lab import COUNTS_T, StreamsLab, as_dict, subtopology, topology

EXAMPLE = StreamsGroupDescribeRequest(group_ids=["readers"])

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


async def test_a_group_is_described_with_all_that_is_known_of_its_members(quick_streams_lab: StreamsLab) -> None:
    lab = quick_streams_lab
    await lab.join(
        "m1",
        rack_id="r",
        client_tags=[KeyValue(key="zone", value="b")],
        user_endpoint=Endpoint(host="h", port=9),
    )
    await lab.join("m2")
    await lab.beat("m1", 2)
    group = await lab.describe()
    assert (error_name(group.error_code), group.error_message) == ("NONE", None)
    assert (group.group_id, group.group_state, group.group_epoch, group.assignment_epoch) == ("g", "Reconciling", 3, 3)
    assert group.authorized_operations == NOT_ASKED_FOR
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("m1", None, "r", 2)
    assert (first.client_id, first.client_host) == ("test", "/192.0.2.7")
    assert (first.topology_epoch, first.process_id, first.is_classic) == (0, "p-m1", False)
    assert (first.user_endpoint.host, first.user_endpoint.port) == ("h", 9)
    assert [(tag.key, tag.value) for tag in first.client_tags] == [("zone", "b")]
    assert as_dict(first.assignment.active_tasks) == {"0": [0, 1]}  # without what it is to give up, as in Kafka
    assert as_dict(first.target_assignment.active_tasks) == {"0": [0, 1]}
    assert (second.rack_id, second.user_endpoint, second.client_tags) == (None, None, [])
    assert as_dict(second.assignment.active_tasks) == {}
    assert as_dict(second.target_assignment.active_tasks) == {"0": [2, 3]}


async def test_internal_topics_have_their_partitions_once_the_topology_is_ready(quick_streams_lab: StreamsLab) -> None:
    lab = quick_streams_lab
    sent = topology(
        subtopology("1", through={"r": 0}, keeps=["c"], configs={"cleanup.policy": "compact"}),
        subtopology("0", "t", writes=["r"]),
        epoch=4,
    )
    await lab.join("m", sent)

    def sizes(described: Any) -> list[tuple[str, str, int]]:
        return [
            (each.subtopology_id, topic.name, topic.partitions)
            for each in described.topology.subtopologies
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
        ]

    described = await lab.describe()
    assert (described.group_state, described.topology.epoch) == ("NotReady", 4)
    assert sizes(described) == [("1", "r", 0), ("1", "c", 0)]
    await lab.beat("m", 2)
    described = await lab.describe()
    assert described.group_state == "Stable"
    assert sizes(described) == [("1", "r", 4), ("1", "c", 4)]
    first, second = described.topology.subtopologies
    assert (first.subtopology_id, first.source_topics, first.repartition_sink_topics) == ("0", ["t"], ["r"])
    (changelog,) = second.state_changelog_topics
    assert [(config.key, config.value) for config in changelog.topic_configs] == [("cleanup.policy", "compact")]


async def test_readers_are_shown_what_is_replicated(quick_streams_lab: StreamsLab) -> None:
    lab = quick_streams_lab
    await lab.join("m1")
    with lab.late_replicas():
        joining = asyncio.ensure_future(lab.join("m2"))
        await lab.wait_for_purgatory()
        described = await lab.describe()
        assert ([member.member_id for member in described.members], described.group_epoch) == (["m1"], 2)
    await joining
    assert len((await lab.describe()).members) == 2


@pytest.mark.parametrize("kind", ["absent", "", "consumer"])
async def test_a_group_of_another_kind_is_not_found(quick_streams_lab: StreamsLab, kind: str) -> None:
    lab = quick_streams_lab
    if kind == "consumer":
        joining = ConsumerGroupHeartbeatRequest(
            group_id=kind,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert error_name((await ask_handler(lab.broker, joining)).error_code) == "NONE"
    described = await lab.describe(kind)
    assert error_name(described.error_code) == ("GROUP_ID_NOT_FOUND" if kind else "INVALID_GROUP_ID")
    assert described.error_message
    assert (described.group_id, described.group_state, described.members, described.topology) == (kind, "", [], None)


async def test_a_group_that_is_named_twice_is_described_once(quick_streams_lab: StreamsLab) -> None:
    await quick_streams_lab.join("m")
    request = StreamsGroupDescribeRequest(group_ids=["g", "absent", "g"], include_authorized_operations=True)
    known, absent = (await ask_handler(quick_streams_lab.broker, request)).groups
    assert (known.group_id, absent.group_id) == ("g", "absent")
    for operation in (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE):
        assert known.authorized_operations & 1 << operation
    assert absent.authorized_operations == NOT_ASKED_FOR


async def test_where_streams_groups_are_off_each_group_is_of_an_unsupported_version(start_broker: StartBroker) -> None:
    broker = await start_broker(authorizer_class_name=STANDARD, group_coordinator_rebalance_protocols="classic")
    answer = await ask_as_user(broker, "alice", StreamsGroupDescribeRequest(group_ids=["a", ""]))
    assert [(group.group_id, error_name(group.error_code)) for group in answer.groups] == [
        ("a", "UNSUPPORTED_VERSION"),
        ("", "UNSUPPORTED_VERSION"),
    ]


async def test_a_client_needs_the_group_and_all_topics_of_its_topology(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(
        authorizer_class_name=STANDARD, super_users="User:admin", offsets_topic_num_partitions=1
    )
    topics.create(broker, "t", partitions=1)
    await ask(broker, FindCoordinatorRequest(key="readers", key_type=0), 3)
    joining = StreamsGroupHeartbeatRequest(
        group_id="readers",
        member_id="m",
        member_epoch=0,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000,
        topology=COUNTS_T,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    assert error_name((await ask_as_user(broker, "admin", joining)).error_code) == "NONE"

    async def described(*, operations: bool = False) -> Any:
        request = StreamsGroupDescribeRequest(group_ids=["readers"], include_authorized_operations=operations)
        (group,) = (await ask_as_user(broker, "alice", request)).groups
        return group

    assert error_name((await described()).error_code) == "GROUP_AUTHORIZATION_FAILED"
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.GROUP, "readers")])
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "t")])
    hidden = await described()
    assert (error_name(hidden.error_code), hidden.members, hidden.topology) == ("TOPIC_AUTHORIZATION_FAILED", [], None)
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "counts")])
    shown = await described(operations=True)
    assert (error_name(shown.error_code), len(shown.members)) == ("NONE", 1)
    assert shown.authorized_operations == 1 << AclOperation.DESCRIBE

"""DescribeGroups, ListGroups and DeleteGroups, in every version; and what metrics tell of groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.broker.controller import topics
from kmini.broker.groups.member import Joining
from kmini.broker.metrics import metrics_text
from kmini.protocol.errors import error_name
from kmini.protocol.messages.delete_groups import DeleteGroupsRequest
from kmini.protocol.messages.describe_groups import DescribeGroupsRequest
from kmini.protocol.messages.join_group import JoinGroupRequest
from kmini.protocol.messages.list_groups import ListGroupsRequest
from kmini.protocol.messages.metadata import NOT_ASKED_FOR
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from kmini.protocol.messages.sync_group import SyncGroupRequest
from kmini.protocol.topics import CONSUMER_OFFSETS

StartBroker = Callable[..., Awaitable[Broker]]
Ask = Callable[..., Awaitable[Any]]

DESCRIBE, DELETE, READ = 8, 6, 3


@pytest.fixture
async def broker(start_broker: StartBroker, ask: Ask) -> Broker:
    """With the groups "stable", "joined", "empty" and "simple"."""
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    topics.create(broker, "orders", partitions=1)
    for group, instance in (("stable", "one"), ("joined", None)):
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"wishes")],
        )
        member = await ask(broker, request, 5 if instance else 3)
    stable = broker.groups.groups["stable"]
    (member_id,) = stable.members
    share = SyncGroupRequest.Assignment(member_id=member_id, assignment=b"share")
    sync = SyncGroupRequest(
        group_id="stable",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[share],
    )
    await ask(broker, sync)
    assert member.error_code == 0
    broker.groups.join("empty", Joining("", None, "", "/", 10_000, 10_000, "consumer", {"range": b""}))
    Topic = OffsetCommitRequest.Topic
    for group in ("empty", "simple"):
        partition = Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
        commit = OffsetCommitRequest(group_id=group, topics=[Topic(name="orders", partitions=[partition])])
        answer = await ask(broker, commit, 8)
        assert answer.topics[0].partitions[0].error_code == 0
    return broker


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described_in_every_version(broker: Broker, ask: Ask, version: int) -> None:
    names = ["stable", "joined", "empty", "simple", "absent", "stable"]
    answer = await ask(broker, DescribeGroupsRequest(groups=names, include_authorized_operations=version >= 3), version)
    described = {group.group_id: group for group in answer.groups}
    assert [*described] == names[:5]
    assert [group.group_state for group in answer.groups] == ["Stable", "CompletingRebalance", "Empty", "Empty", "Dead"]
    stable, joined, absent = described["stable"], described["joined"], described["absent"]
    assert (stable.protocol_type, stable.protocol_data) == ("consumer", "range")
    (member,) = stable.members
    assert (member.client_id, member.client_host) == ("test", "/192.0.2.7")
    assert (member.member_metadata, member.member_assignment) == (b"wishes", b"share")
    assert member.group_instance_id == ("one" if version >= 4 else None)
    assert (joined.protocol_type, joined.protocol_data) == ("consumer", "")
    assert [member.member_metadata for member in joined.members] == [b""]
    assert described["simple"].protocol_type == ""
    assert error_name(absent.error_code) == ("GROUP_ID_NOT_FOUND" if version >= 6 else "NONE")
    if version >= 3:
        assert stable.authorized_operations & (1 << DESCRIBE | 1 << DELETE | 1 << READ)
        assert (absent.authorized_operations == NOT_ASKED_FOR) == (version >= 6)
        unasked = await ask(broker, DescribeGroupsRequest(groups=["stable"]), version)
        assert unasked.groups[0].authorized_operations == NOT_ASKED_FOR


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_in_every_version(broker: Broker, ask: Ask, version: int) -> None:
    answer = await ask(broker, ListGroupsRequest(), version)
    listed = {group.group_id: group for group in answer.groups}
    assert {name: group.protocol_type for name, group in listed.items()} == {
        "stable": "consumer",
        "joined": "consumer",
        "empty": "",
        "simple": "",
    }
    assert listed["stable"].group_state == ("Stable" if version >= 4 else "")
    assert listed["stable"].group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize(
    ("states", "types", "names"),
    [
        (["Stable"], [], ["stable"]),
        (["sTABLE ", "empty"], [], ["empty", "simple", "stable"]),
        (["nonsense"], [], []),
        ([], ["Classic"], ["empty", "joined", "simple", "stable"]),
        ([], ["consumer"], []),
        ([], ["nonsense"], []),
        (["CompletingRebalance"], ["consumer", "classic"], ["joined"]),
    ],
)
async def test_groups_are_listed_by_state_and_type(
    broker: Broker, ask: Ask, states: list[str], types: list[str], names: list[str]
) -> None:
    answer = await ask(broker, ListGroupsRequest(states_filter=states, types_filter=types))
    assert sorted(group.group_id for group in answer.groups) == names


@pytest.mark.parametrize("version", range(3))
async def test_groups_without_members_are_deleted_with_their_offsets(
    broker: Broker, start_broker: StartBroker, ask: Ask, version: int
) -> None:
    names = ["stable", "empty", "absent", "simple", "empty"]
    answer = await ask(broker, DeleteGroupsRequest(groups_names=names), version)
    assert {result.group_id: error_name(result.error_code) for result in answer.results} == {
        "stable": "NON_EMPTY_GROUP",
        "empty": "NONE",
        "absent": "GROUP_ID_NOT_FOUND",
        "simple": "NONE",
    }
    await broker.stop()
    again = await start_broker()
    listed = await ask(again, ListGroupsRequest())
    assert sorted(group.group_id for group in listed.groups) == ["joined", "stable"]
    fetched = await ask(again, OffsetFetchRequest(group_id="simple", topics=None), 7)
    assert fetched.topics == []


async def test_where_there_are_no_groups_nothing_is_coordinated(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    described = await ask(broker, DescribeGroupsRequest(groups=["g"]))
    assert error_name(described.groups[0].error_code) == "NOT_COORDINATOR"
    deleted = await ask(broker, DeleteGroupsRequest(groups_names=["g"]))
    assert error_name(deleted.results[0].error_code) == "NOT_COORDINATOR"
    assert (await ask(broker, ListGroupsRequest())).groups == []


async def test_metrics_count_groups_by_state_and_rebalances(broker: Broker) -> None:
    lines = metrics_text(broker).splitlines()
    manager = "kafka_coordinator_group_groupmetadatamanager"
    for line in (
        f"{manager}_numgroups 4.0",
        f"{manager}_numgroupsstable 1.0",
        f"{manager}_numgroupscompletingrebalance 1.0",
        f"{manager}_numgroupspreparingrebalance 0.0",
        f"{manager}_numgroupsempty 2.0",
        f"{manager}_numoffsets 2.0",
        "kafka_server_group_coordinator_metrics_group_completed_rebalance_count 1.0",
    ):
        assert line in lines

"""StreamsGroupHeartbeat (KIP-1071): its fields (`broker/groups/streams/heartbeat_fields.py`), topologies, internal
topics, endpoints, permissions and failures. Statuses are in `tests/broker/groups/streams/test_member_steps.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.streams.tasks import Duties
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import error_name
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TaskOffset,
)
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user
from support.broker.streams_lab import COUNTS_T, StreamsLab, subtopology, topology

EXAMPLE = StreamsGroupHeartbeatRequest(
    group_id="readers",
    member_id="m",
    member_epoch=0,
    endpoint_information_epoch=-1,
    rebalance_timeout_ms=60_000,
    topology=topology(subtopology("0", "orders")),
    active_tasks=[],
    standby_tasks=[],
    warmup_tasks=[],
    process_id="p",
    client_tags=[],
)

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


def partitions_of(lab: StreamsLab, name: str) -> int:
    return len(lab.broker.controller.topics[name].partitions)


# --- fields


async def test_what_a_client_tells_of_itself_is_kept(quick_streams_lab: StreamsLab) -> None:
    lab = quick_streams_lab
    tags = [KeyValue(key="zone", value="b"), KeyValue(key="cluster", value="c")]
    await lab.join("m", rack_id="r", client_tags=tags, user_endpoint=Endpoint(host="h", port=65_535))
    member = lab.group.memberships["m"]
    assert (member.client_id, member.client_host, member.rack_id) == ("test", "/192.0.2.7", "r")
    assert member.client_tags == (("cluster", "c"), ("zone", "b"))
    assert member.user_endpoint == ("h", 65_535)
    assert (member.process_id, member.topology_epoch, member.rebalance_timeout_ms) == ("p-m", 0, 60_000)
    await lab.beat("m", 2)
    assert lab.group.memberships["m"] == member


JOIN: dict[str, Any] = {"owned": Duties(), "topology": COUNTS_T, "rebalance_timeout_ms": 1, "process_id": "p"}


@pytest.mark.parametrize(
    ("epoch", "fields"),
    [
        pytest.param(0, {**JOIN, "rebalance_timeout_ms": -1}, id="no rebalance time-out"),
        pytest.param(0, {**JOIN, "owned": None}, id="no tasks"),
        pytest.param(0, {**JOIN, "owned": Duties({"0": [1]})}, id="tasks"),
        pytest.param(0, {**JOIN, "topology": None}, id="no topology"),
        pytest.param(0, {**JOIN, "instance_id": "i"}, id="an instance id"),
        pytest.param(0, {**JOIN, "rack_id": " "}, id="a blank rack"),
        pytest.param(0, {**JOIN, "warmup_tasks": [TaskIds(subtopology_id="0", partitions=[])]}, id="warm-up tasks"),
        pytest.param(0, {**JOIN, "topology": topology(subtopology("0", "t", regex=["t.*"]))}, id="an expression"),
        pytest.param(0, {**JOIN, "task_offsets": []}, id="task offsets"),
        pytest.param(
            0, {**JOIN, "task_end_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=0)]}, id="end offsets"
        ),
        pytest.param(0, {**JOIN, "client_tags": [KeyValue(key="a", value="b")] * 2}, id="a tag twice"),
        pytest.param(1, {"topology": COUNTS_T}, id="a topology later"),
        pytest.param(1, {"active_tasks": []}, id="one of three lists"),
        pytest.param(-2, {}, id="leaving for a while"),
        pytest.param(-3, {}, id="no such epoch"),
    ],
)
async def test_fields_that_cannot_be_are_an_invalid_request(
    quick_streams_lab: StreamsLab, epoch: int, fields: dict[str, Any]
) -> None:
    answer = await quick_streams_lab.beat("m", epoch, **fields)
    assert answer.error == "INVALID_REQUEST"
    assert answer.message
    assert (answer.active, answer.statuses, answer.endpoints) == (None, [], None)
    assert "g" not in quick_streams_lab.groups.groups


@pytest.mark.parametrize("member_id", ["", "  ", "m" * 40_000])
async def test_a_member_id_is_neither_blank_nor_longer_than_a_record_allows(
    quick_streams_lab: StreamsLab, member_id: str
) -> None:
    assert (await quick_streams_lab.join(member_id)).error == "INVALID_REQUEST"


# --- topologies


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(topology(subtopology("0", "__consumer_offsets")), id="a topic of Kafka's own"),
        pytest.param(topology(subtopology("0", "t", keeps=["not a name"])), id="no name of a topic"),
        pytest.param(
            topology(subtopology("0", "t", keeps=["c"], changelog_partitions=3)), id="a changelog with a size"
        ),
        pytest.param(topology(subtopology("0", "t", through={"r": 0})), id="a repartition topic that nothing writes"),
        pytest.param(topology(subtopology("0", "t"), subtopology("0", "t")), id="an id twice"),
        pytest.param(topology(subtopology("0", "t"), epoch=-1), id="a negative epoch"),
    ],
)
async def test_a_topology_that_cannot_be_is_refused(quick_streams_lab: StreamsLab, sent: Any) -> None:
    assert (await quick_streams_lab.join("m", sent)).error == "STREAMS_INVALID_TOPOLOGY"
    assert "g" not in quick_streams_lab.groups.groups


# --- internal topics


async def test_internal_topics_are_made_as_asked_before_the_answer_goes_out(quick_streams_lab: StreamsLab) -> None:
    lab = quick_streams_lab
    sent = topology(
        subtopology("0", "t", writes=["r"]),
        subtopology("1", through={"r": 0}, keeps=["c"], configs={"cleanup.policy": "compact", "segment.ms": "7000"}),
    )
    answer = await lab.join("m", sent)
    assert (answer.statuses, answer.active) == (["MISSING_INTERNAL_TOPICS"], {})
    assert (partitions_of(lab, "r"), partitions_of(lab, "c")) == (4, 4)
    assert lab.broker.controller.topics["c"].configs == {"cleanup.policy": "compact", "segment.ms": "7000"}
    answer = await lab.beat("m", 2)
    assert (answer.statuses, answer.active) == ([], {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]})


async def test_internal_topics_that_cannot_be_made_are_told_and_tried_again_two_heartbeats_later(
    quick_streams_lab: StreamsLab,
) -> None:
    lab = quick_streams_lab
    sent = topology(subtopology("0", "t", keeps=[f"c{number}" for number in range(5)], replicas=3))
    answer = await lab.join("m", sent)
    assert answer.statuses == ["MISSING_INTERNAL_TOPICS"]
    assert "c0 (" in answer.details[0]
    assert "and 2 more" in answer.details[0]
    tried = lab.groups.streams.internal_topics._failures["c0"].until_ms
    await lab.pass_time(599)
    await lab.beat("m", 2)
    assert lab.groups.streams.internal_topics._failures["c0"].until_ms == tried
    await lab.pass_time(1)
    await lab.beat("m", 2)
    assert lab.groups.streams.internal_topics._failures["c0"].until_ms > tried


# --- endpoints


async def test_endpoints_are_told_to_members_that_do_not_know_them(quick_streams_lab: StreamsLab) -> None:
    lab = quick_streams_lab
    first = await lab.join("m1", user_endpoint=Endpoint(host="one", port=1))
    assert (first.endpoint_epoch, first.endpoints) == (0, {"one": {"t": [0, 1, 2, 3]}})
    assert (await lab.beat("m1", 2, endpoint_information_epoch=0)).endpoints is None
    second = await lab.join("m2", user_endpoint=Endpoint(host="two", port=2))
    assert (second.endpoint_epoch, second.endpoints) == (1, {"one": {"t": [0, 1, 2, 3]}, "two": {}})
    told = await lab.beat("m1", 2, endpoint_information_epoch=0)
    assert (told.endpoint_epoch, told.endpoints) == (2, {"one": {"t": [0, 1]}, "two": {}})
    silent = await lab.join("m3")
    assert (silent.endpoint_epoch, silent.endpoints) == (2, {"one": {"t": [0, 1]}, "two": {}})


# --- switches, permissions, failures


@pytest.mark.parametrize(
    "settings", [{"group_coordinator_rebalance_protocols": "classic,consumer"}, None], ids=["protocols", "feature"]
)
async def test_where_streams_groups_are_off_every_request_is_of_an_unsupported_version(
    start_broker: StartBroker, settings: dict[str, str] | None
) -> None:
    broker = await start_broker(authorizer_class_name=STANDARD, **settings or {})
    if settings is None:
        broker.controller.set_feature_levels({"streams.version": 0})
    assert error_name((await ask_as_user(broker, "alice", EXAMPLE)).error_code) == "UNSUPPORTED_VERSION"


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    assert error_name((await ask(await start_broker(), EXAMPLE)).error_code) == "NOT_COORDINATOR"


@pytest.fixture
async def guarded(start_broker: StartBroker, ask: Ask) -> BrokerServer:
    broker = await start_broker(authorizer_class_name=STANDARD, super_users="User:admin")
    topics.create(broker, "orders", partitions=1)
    await ask(broker, FindCoordinatorRequest(key="readers", key_type=0), 3)
    return broker


COUNTS_ORDERS = topology(subtopology("0", "orders", keeps=["c", "d"]))


async def joined_by(broker: BrokerServer, user: str) -> Any:
    request = StreamsGroupHeartbeatRequest(
        group_id="readers",
        member_id="m",
        member_epoch=0,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000,
        topology=COUNTS_ORDERS,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    return await ask_as_user(broker, user, request)


async def test_a_client_needs_the_group_and_every_topic_of_its_topology(guarded: BrokerServer) -> None:
    assert error_name((await joined_by(guarded, "alice")).error_code) == "GROUP_AUTHORIZATION_FAILED"
    guarded.controller.create_acls([acl(AclOperation.READ, ResourceType.GROUP, "readers")])
    for name in ("orders", "c", "d"):
        assert error_name((await joined_by(guarded, "alice")).error_code) == "TOPIC_AUTHORIZATION_FAILED"
        guarded.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, name)])
    assert error_name((await joined_by(guarded, "alice")).error_code) == "NONE"


@pytest.mark.parametrize("resource", [ResourceType.CLUSTER, ResourceType.TOPIC])
async def test_internal_topics_are_made_for_a_client_that_may_create_all_of_them(
    guarded: BrokerServer, resource: ResourceType
) -> None:
    guarded.controller.create_acls([acl(AclOperation.READ, ResourceType.GROUP, "readers")])
    names = ("orders", "c", "d")
    guarded.controller.create_acls(acl(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names)
    guarded.controller.create_acls([acl(AclOperation.CREATE, ResourceType.TOPIC, "d")])
    (delayed, missing) = (await joined_by(guarded, "alice")).status
    assert delayed.status_code == 5
    assert "CREATE the topics c " in missing.status_detail
    assert {*guarded.controller.topics} & {"c", "d"} == set()
    granted = "kafka-cluster" if resource is ResourceType.CLUSTER else "c"
    guarded.controller.create_acls([acl(AclOperation.CREATE, resource, granted)])
    await joined_by(guarded, "alice")
    assert {*guarded.controller.topics} >= {"c", "d"}


async def test_an_error_of_the_broker_is_answered_and_the_group_goes_on(
    quick_streams_lab: StreamsLab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await quick_streams_lab.join("m")

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(quick_streams_lab.groups.streams, "heartbeat", fail)
        assert (await quick_streams_lab.beat("m", 2)).error == "UNKNOWN_SERVER_ERROR"
    assert "a heartbeat of group 'g'" in caplog.text
    assert (await quick_streams_lab.beat("m", 2)).error == "NONE"

"""ConsumerGroupHeartbeat (KIP-848): its fields in every version, its permissions, and failures."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.consumer.heartbeats import Heartbeats
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import MessageTooLarge, error_name
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_handler
from support.broker.consumer_lab import ConsumerLab

EXAMPLE = ConsumerGroupHeartbeatRequest(
    group_id="readers",
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=60_000,
    subscribed_topic_names=["orders"],
    topic_partitions=[],
)

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]
NewLab = Callable[..., Awaitable[ConsumerLab]]


@pytest.mark.parametrize("version", [0, 1])
async def test_the_first_member_of_a_group_gets_epoch_2_and_all_partitions(
    consumer_lab: ConsumerLab, version: int
) -> None:
    answer = await consumer_lab.join("m", "orders", version=version)
    assert answer == ("NONE", "m", 2, {"orders": [0, 1, 2, 3]}, 300, None)
    assert (consumer_lab.epochs, consumer_lab.state) == ((2, 2), "Stable")


async def test_version_0_makes_a_member_id_and_version_1_requires_one(consumer_lab: ConsumerLab) -> None:
    made = await consumer_lab.join("", "orders", version=0)
    assert made.error == "NONE"
    assert made.member_id is not None
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", made.member_id)
    refused = await consumer_lab.join("", "orders", version=1)
    assert (refused.error, refused.member_id) == ("INVALID_REQUEST", None)
    assert [*consumer_lab.group.memberships] == [made.member_id]


async def test_an_error_is_answered_without_member_epoch_interval_and_assignment(consumer_lab: ConsumerLab) -> None:
    answer = await consumer_lab.beat("m", 3)
    assert answer[:5] == ("GROUP_ID_NOT_FOUND", None, 0, None, 0)
    assert answer.message


@pytest.mark.parametrize("epoch", [-1, -2])
async def test_leaving_is_answered_with_the_epoch_that_was_sent(consumer_lab: ConsumerLab, epoch: int) -> None:
    await consumer_lab.join("m", "orders", instance_id="i")
    answer = await consumer_lab.leave("m", epoch, instance_id="i")
    assert answer == ("NONE", "m", epoch, None, 0, None)


async def test_what_a_client_tells_of_itself_is_kept(consumer_lab: ConsumerLab) -> None:
    fields = {"instance_id": "i", "rack_id": "r", "server_assignor": "range", "rebalance_timeout_ms": 1234}
    await consumer_lab.join("m", "orders", "others", regex="or.*", **fields)
    member = consumer_lab.group.memberships["m"]
    assert (member.instance_id, member.rack_id, member.assignor, member.rebalance_timeout_ms) == (
        "i",
        "r",
        "range",
        1234,
    )
    assert (member.topic_names, member.topic_regex) == (("orders", "others"), "or.*")
    assert (member.client_id, member.client_host) == ("test", "/192.0.2.7")


async def test_partitions_of_a_topic_that_is_named_twice_are_reported_together(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("a", "orders")
    await consumer_lab.join("b", "orders")
    await consumer_lab.pass_time(1_000)
    assert (await consumer_lab.beat("a", 2)).assigned == {"orders": [0, 1]}
    topic_id = consumer_lab.id_of("orders")
    twice = [TopicPartitions(topic_id=topic_id, partitions=[number]) for number in (0, 3)]
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2, topic_partitions=twice)
    assert (await ask_handler(consumer_lab.broker, request)).member_epoch == 2  # it still owns partition 3
    twice[1].partitions = [1]
    assert (await ask_handler(consumer_lab.broker, request)).member_epoch == 3


@pytest.mark.parametrize(
    "settings", [{"group_coordinator_rebalance_protocols": "classic"}, None], ids=["protocols", "group.version"]
)
async def test_where_the_protocol_is_off_every_request_is_of_an_unsupported_version(
    start_broker: StartBroker, ask: Ask, settings: dict[str, str] | None
) -> None:
    """Before the group, its name and its permissions are looked at."""
    broker = await start_broker(authorizer_class_name=STANDARD, **settings or {})
    if settings is None:
        broker.controller.set_feature_levels({"group.version": 0})
    for group in ("readers", ""):
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=5)
        assert error_name((await ask_as_user(broker, "alice", request)).error_code) == "UNSUPPORTED_VERSION"


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    assert error_name((await ask(broker, EXAMPLE)).error_code) == "NOT_COORDINATOR"


async def test_an_error_of_the_broker_is_answered_and_the_group_goes_on(
    consumer_lab: ConsumerLab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await consumer_lab.join("m", "orders")

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(Heartbeats, "heartbeat", fail)
        assert (await consumer_lab.beat("m", 2)).error == "UNKNOWN_SERVER_ERROR"
    assert "a heartbeat of group 'g'" in caplog.text
    assert (await consumer_lab.beat("m", 2)).error == "NONE"


async def test_a_batch_that_is_too_large_is_a_server_error_that_changes_nothing(consumer_lab: ConsumerLab) -> None:
    consumer_lab.refuse_appends(MessageTooLarge("a batch has no room for it"))
    assert (await consumer_lab.join("m", "orders")).error == "UNKNOWN_SERVER_ERROR"
    assert "g" not in consumer_lab.groups.groups


# --- permissions


@pytest.fixture
async def guarded(start_broker: StartBroker, ask: Ask) -> BrokerServer:
    broker = await start_broker(
        authorizer_class_name=STANDARD, super_users="User:admin", offsets_topic_num_partitions=1
    )
    for name in ("orders", "ordinary", "secret"):
        topics.create(broker, name, partitions=1)
    await ask(broker, FindCoordinatorRequest(key="readers", key_type=0), 3)
    return broker


def joining(*names: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=[*names],
        **fields,
    )


READ_GROUP = acl(AclOperation.READ, ResourceType.GROUP, "readers")
DESCRIBE_ORDERS = acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "orders")


@pytest.mark.parametrize(
    ("rules", "names", "error"),
    [
        ([DESCRIBE_ORDERS], ["orders"], "GROUP_AUTHORIZATION_FAILED"),
        ([acl(AclOperation.DESCRIBE, ResourceType.GROUP, "readers")], [], "GROUP_AUTHORIZATION_FAILED"),
        ([READ_GROUP], ["orders"], "TOPIC_AUTHORIZATION_FAILED"),
        ([READ_GROUP, DESCRIBE_ORDERS], ["orders", "secret"], "TOPIC_AUTHORIZATION_FAILED"),
        ([READ_GROUP, DESCRIBE_ORDERS], ["orders", "no-such"], "TOPIC_AUTHORIZATION_FAILED"),
        ([READ_GROUP, DESCRIBE_ORDERS], ["orders"], "NONE"),
        ([READ_GROUP, acl(AclOperation.READ, ResourceType.TOPIC, "orders")], ["orders"], "NONE"),
        ([READ_GROUP], [], "NONE"),
    ],
)
async def test_a_client_needs_the_group_and_every_topic_that_it_names(
    guarded: BrokerServer, rules: list[Any], names: list[str], error: str
) -> None:
    guarded.controller.create_acls(rules)
    answer = await ask_as_user(guarded, "alice", joining(*names))
    assert error_name(answer.error_code) == error
    assert ("readers" in guarded.groups.groups) == (error == "NONE")


async def test_permissions_come_before_the_checks_of_the_fields(guarded: BrokerServer) -> None:
    wrong = ConsumerGroupHeartbeatRequest(group_id="readers", member_id="", member_epoch=-9)
    assert error_name((await ask_as_user(guarded, "alice", wrong)).error_code) == "GROUP_AUTHORIZATION_FAILED"
    guarded.controller.create_acls([READ_GROUP])
    assert error_name((await ask_as_user(guarded, "alice", wrong)).error_code) == "INVALID_REQUEST"


async def test_an_expression_stands_for_the_topics_that_the_client_may_describe(guarded: BrokerServer) -> None:
    guarded.controller.create_acls([READ_GROUP, DESCRIBE_ORDERS])
    request = joining(subscribed_topic_regex="ord.*")
    assert error_name((await ask_as_user(guarded, "alice", request)).error_code) == "NONE"
    await guarded.groups.writes_done()
    group: Any = guarded.groups.groups["readers"]
    assert group.expressions["ord.*"].topics == {"orders"}

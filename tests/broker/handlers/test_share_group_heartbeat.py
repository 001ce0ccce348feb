"""ShareGroupHeartbeat (KIP-932): its switch, permissions, failures; `tests/broker/groups/share/` has what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import error_name
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user
from support.broker.share_lab import ShareLab

EXAMPLE = ShareGroupHeartbeatRequest(
    group_id="readers", member_id="m", member_epoch=0, subscribed_topic_names=["orders"]
)

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


async def test_what_a_client_tells_of_itself_is_kept(share_lab: ShareLab) -> None:
    await share_lab.join("m", rack_id="r")
    member = share_lab.group.memberships["m"]
    assert (member.client_id, member.client_host, member.rack_id) == ("test", "/192.0.2.7", "r")


async def test_where_share_groups_are_off_every_request_is_of_an_unsupported_version(start_broker: StartBroker) -> None:
    broker = await start_broker(authorizer_class_name=STANDARD)
    broker.controller.set_feature_levels({"share.version": 0})
    assert error_name((await ask_as_user(broker, "alice", EXAMPLE)).error_code) == "UNSUPPORTED_VERSION"


async def test_a_client_needs_the_group_and_every_topic_that_it_names(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(authorizer_class_name=STANDARD)
    topics.create(broker, "orders", partitions=1)
    await ask(broker, FindCoordinatorRequest(key="readers", key_type=0), 3)
    nameless = ShareGroupHeartbeatRequest(
        group_id="readers", member_id="", member_epoch=0, subscribed_topic_names=["orders"]
    )
    assert error_name((await ask_as_user(broker, "alice", EXAMPLE)).error_code) == "GROUP_AUTHORIZATION_FAILED"
    broker.controller.create_acls([acl(AclOperation.READ, ResourceType.GROUP, "readers")])
    assert error_name((await ask_as_user(broker, "alice", nameless)).error_code) == "INVALID_REQUEST"
    assert error_name((await ask_as_user(broker, "alice", EXAMPLE)).error_code) == "TOPIC_AUTHORIZATION_FAILED"
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "orders")])
    assert error_name((await ask_as_user(broker, "alice", EXAMPLE)).error_code) == "NONE"


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    assert error_name((await ask(await start_broker(), EXAMPLE)).error_code) == "NOT_COORDINATOR"


async def test_an_error_of_the_broker_is_answered_and_the_group_goes_on(
    share_lab: ShareLab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await share_lab.join("m")

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(share_lab.groups.share.members, "heartbeat", fail)
        assert (await share_lab.beat("m", 2)).error == "UNKNOWN_SERVER_ERROR"
    assert "a heartbeat of group 'g'" in caplog.text
    assert (await share_lab.beat("m", 2)).error == "NONE"

"""AlterConfigs, IncrementalAlterConfigs and DescribeConfigs about groups (KIP-848): resource type 32."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import config_changes, topics
from kmini.broker.settings.group_config import GroupConfig
from kmini.protocol.errors import NONE, InvalidConfig, InvalidRequest, PolicyViolation, UnsupportedVersion
from kmini.protocol.messages.alter_configs import AlterConfigsRequest
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kmini.protocol.messages.describe_configs import (
    DEFAULT_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    GROUP,
    GROUP_CONFIG,
    STATIC_BROKER_CONFIG,
    DescribeConfigsRequest,
)
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT
from support.broker.clusters import Clusters
from support.broker.config_requests import Change, alter, change, places

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


async def test_a_groups_setting_is_in_force_at_once_and_until_it_is_deleted(broker: BrokerServer, ask: Ask) -> None:
    assert await alter(ask, broker, change(GROUP, "g", (HEARTBEAT, SET, "500"), (SESSION, SET, "50000"))) == [NONE]
    in_force = broker.services.group_configs.of("g")
    assert (in_force.consumer_heartbeat_interval_ms, in_force.consumer_session_timeout_ms) == (500, 50_000)
    assert broker.services.group_configs.of("another").consumer_heartbeat_interval_ms == 300
    assert await alter(ask, broker, change(GROUP, "g", (HEARTBEAT, DELETE, None))) == [NONE]
    assert broker.controller.group_configs == {"g": {SESSION: "50000"}}
    assert broker.services.group_configs.of("g").consumer_heartbeat_interval_ms == 300


async def test_settings_of_groups_survive_a_restart(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    await alter(ask, broker, change(GROUP, "g", (HEARTBEAT, SET, "500")))
    await broker.stop()
    broker = await start_broker()
    assert broker.services.group_configs.of("g").consumer_heartbeat_interval_ms == 500


async def test_every_broker_of_a_cluster_has_them(clusters: Clusters, ask: Ask) -> None:
    cluster = await clusters.start(2)
    first, second = cluster.brokers.values()
    assert await alter(ask, first, change(GROUP, "g", (HEARTBEAT, SET, "500"))) == [NONE]
    assert second.services.group_configs.of("g").consumer_heartbeat_interval_ms == 500
    assert (await places(ask, second, GROUP, "g", HEARTBEAT))[0] == (HEARTBEAT, "500", GROUP_CONFIG)


async def test_alter_configs_replaces_all_settings_of_a_group(broker: BrokerServer, ask: Ask) -> None:
    await alter(ask, broker, change(GROUP, "g", (HEARTBEAT, SET, "500"), (SESSION, SET, "50000")))
    resource = AlterConfigsRequest.Resource(
        resource_type=GROUP, resource_name="g", configs=[AlterConfigsRequest.Config(name=ASSIGNMENT, value="7")]
    )
    (told,) = (await ask(broker, AlterConfigsRequest(resources=[resource]), 2)).responses
    assert told.error_code == NONE
    assert broker.controller.group_configs == {"g": {ASSIGNMENT: "7"}}


@pytest.mark.parametrize(
    ("name", "changes", "error"),
    [
        ("", [(HEARTBEAT, SET, "500")], InvalidRequest),
        ("", [("nope", SET, "500")], InvalidRequest),
        ("", [(HEARTBEAT, APPEND, "500")], InvalidConfig),
        ("", [], InvalidRequest),
        ("g", [(HEARTBEAT, SET, None)], InvalidRequest),
        ("g", [(HEARTBEAT, SET, "500"), (HEARTBEAT, SET, "600")], InvalidRequest),
        ("g", [("nope", SET, "1")], InvalidConfig),
        ("g", [("nope", APPEND, "1")], InvalidConfig),
        ("g", [(HEARTBEAT, SUBTRACT, "1")], InvalidConfig),
        ("g", [(HEARTBEAT, 7, "500")], InvalidRequest),
        ("g", [(HEARTBEAT, SET, "")], InvalidConfig),
        ("g", [(HEARTBEAT, SET, "x")], InvalidConfig),
        ("g", [(HEARTBEAT, SET, "299")], InvalidConfig),
        ("g", [(HEARTBEAT, SET, "15001")], InvalidConfig),
        ("g", [(HEARTBEAT, SET, "99999999999")], InvalidConfig),
        ("g", [(HEARTBEAT, SET, "500"), (SESSION, SET, "1")], InvalidConfig),
    ],
)
async def test_what_cannot_be_is_refused_whole(
    broker: BrokerServer, ask: Ask, name: str, changes: list[Change], error: Any
) -> None:
    assert await alter(ask, broker, change(GROUP, name, *changes)) == [error.code]
    assert broker.controller.group_configs == {}


async def test_only_to_see_changes_nothing(broker: BrokerServer, ask: Ask) -> None:
    assert await alter(ask, broker, change(GROUP, "g", (HEARTBEAT, SET, "500")), validate_only=True) == [NONE]
    assert broker.controller.group_configs == {}


async def test_an_unknown_setting_can_be_deleted_and_nothing_be_changed(broker: BrokerServer, ask: Ask) -> None:
    assert await alter(ask, broker, change(GROUP, "g", ("nope", DELETE, None))) == [NONE]
    assert await alter(ask, broker, change(GROUP, "g")) == [NONE]
    assert broker.controller.group_configs == {}


async def test_so_many_groups_may_have_settings(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_changes, "MAX_GROUPS", 1)
    first, second = (change(GROUP, name, (HEARTBEAT, SET, "500")) for name in "gh")
    assert await alter(ask, broker, first, second) == [NONE, PolicyViolation.code]
    assert await alter(ask, broker, change(GROUP, "g", (HEARTBEAT, SET, "600"))) == [NONE]


# --- at work


def heartbeat(member_id: str = "member", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, **fields)


def joining(member_id: str = "member") -> ConsumerGroupHeartbeatRequest:
    return heartbeat(
        member_id, member_epoch=0, rebalance_timeout_ms=5_000, subscribed_topic_names=["t"], topic_partitions=[]
    )


async def coordinated(broker: BrokerServer, ask: Ask) -> None:
    """Have the broker coordinate the group."""
    await ask(broker, FindCoordinatorRequest(key="g", key_type=0), 3)
    await broker.coordination.loading.idle()


async def test_members_are_told_the_heartbeat_interval_of_their_group(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    await coordinated(broker, ask)
    answer = await ask(broker, joining(), 1)
    assert (answer.error_code, answer.heartbeat_interval_ms) == (NONE, 300)
    await alter(ask, broker, change(GROUP, "g", (HEARTBEAT, SET, "700")))
    answer = await ask(broker, heartbeat(member_epoch=answer.member_epoch), 1)
    assert (answer.error_code, answer.heartbeat_interval_ms) == (NONE, 700)


async def test_without_the_feature_or_the_protocol_no_member_may_join(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(group_coordinator_rebalance_protocols="classic")
    assert (await ask(broker, joining(), 1)).error_code == UnsupportedVersion.code
    await broker.stop()
    broker = await start_broker()
    await coordinated(broker, ask)
    broker.controller.set_feature_levels({"group.version": 0})
    assert (await ask(broker, joining(), 1)).error_code == UnsupportedVersion.code
    broker.controller.set_feature_levels({"group.version": 1})
    assert (await ask(broker, joining(), 1)).error_code == NONE


# --- described


async def described(ask: Ask, broker: BrokerServer, name: str, version: int = 4) -> Any:
    resource = DescribeConfigsRequest.Resource(resource_type=GROUP, resource_name=name)
    request = DescribeConfigsRequest(resources=[resource], include_documentation=True)
    (result,) = (await ask(broker, request, version)).results
    return result


@pytest.mark.parametrize("version", range(5))
async def test_a_group_that_does_not_exist_has_the_defaults(broker: BrokerServer, ask: Ask, version: int) -> None:
    result = await described(ask, broker, "nowhere", version)
    told = {config.name: config.value for config in result.configs}
    assert told == {name: line.text(line.default) for name, line in GroupConfig.KEYS.items()}
    assert not any(config.read_only or config.is_sensitive for config in result.configs)
    if version >= 3:
        assert {config.config_type for config in result.configs} == {1, 2, 3}
        assert all(config.documentation for config in result.configs)


async def test_a_group_without_a_name_is_refused(broker: BrokerServer, ask: Ask) -> None:
    result = await described(ask, broker, "")
    assert (result.error_code, result.configs) == (InvalidRequest.code, [])


async def test_the_places_of_a_groups_setting_end_with_those_of_the_broker(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(group_consumer_assignment_interval_ms=900)
    of_broker = "group.consumer.assignment.interval.ms"
    rest = [(of_broker, "900", STATIC_BROKER_CONFIG), (of_broker, "1000", DEFAULT_CONFIG)]
    assert await places(ask, broker, GROUP, "g", ASSIGNMENT) == [(ASSIGNMENT, "900", STATIC_BROKER_CONFIG), *rest]
    await alter(ask, broker, change(4, "", (of_broker, SET, "800")))
    rest.insert(0, (of_broker, "800", DYNAMIC_DEFAULT_BROKER_CONFIG))
    await alter(ask, broker, change(GROUP, "g", (ASSIGNMENT, SET, " 70 ")))
    assert await places(ask, broker, GROUP, "g", ASSIGNMENT) == [
        (ASSIGNMENT, "70", GROUP_CONFIG),
        (ASSIGNMENT, "70", GROUP_CONFIG),
        *rest,
    ]


async def test_a_setting_without_one_of_the_broker_has_its_default_as_the_only_place(
    broker: BrokerServer, ask: Ask
) -> None:
    name = "share.isolation.level"
    default = (name, "read_uncommitted", DEFAULT_CONFIG)
    assert await places(ask, broker, GROUP, "g", name) == [default, default]
    await alter(ask, broker, change(GROUP, "g", (name, SET, "read_committed")))
    own = (name, "read_committed", GROUP_CONFIG)
    assert await places(ask, broker, GROUP, "g", name) == [own, own, default]

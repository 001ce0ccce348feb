"""ListConfigResources: what has settings, by type."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import NONE, UnsupportedVersion
from kmini.protocol.messages.describe_configs import BROKER, BROKER_LOGGER, GROUP, TOPIC
from kmini.protocol.messages.list_config_resources import CLIENT_METRICS, ListConfigResourcesRequest

EXAMPLE = ListConfigResourcesRequest()

Ask = Callable[..., Awaitable[Any]]

EVERYTHING = {(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1"), (BROKER_LOGGER, "1"), (GROUP, "g")}


@pytest.mark.parametrize(
    ("types", "listed"),
    [
        ([], EVERYTHING),
        ([TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP], EVERYTHING),
        ([TOPIC], {(TOPIC, "a"), (TOPIC, "b")}),
        ([TOPIC, TOPIC, BROKER], {(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1")}),
        ([BROKER_LOGGER], {(BROKER_LOGGER, "1")}),
        ([CLIENT_METRICS, GROUP], {(GROUP, "g")}),
        ([CLIENT_METRICS], set()),
    ],
)
async def test_resources_are_listed_by_type(
    broker: BrokerServer, ask: Ask, types: list[int], listed: set[tuple[int, str]]
) -> None:
    topics.create(broker, "a")
    topics.create(broker, "b")
    broker.controller.set_group_configs("g", {"consumer.heartbeat.interval.ms": "500"})
    broker.controller.set_group_configs("without any", {})
    response = await ask(broker, ListConfigResourcesRequest(resource_types=types))
    found = [(resource.resource_type, resource.resource_name) for resource in response.config_resources]
    assert response.error_code == NONE
    assert set(found) == listed
    assert len(found) == len(listed)


async def test_the_first_version_knows_client_metrics_only(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a")
    response = await ask(broker, ListConfigResourcesRequest(), 0)
    assert (response.error_code, response.config_resources) == (NONE, [])


@pytest.mark.parametrize("types", [[0], [TOPIC, 99], [-1]])
async def test_a_type_that_there_is_not_is_not_supported(broker: BrokerServer, ask: Ask, types: list[int]) -> None:
    response = await ask(broker, ListConfigResourcesRequest(resource_types=types))
    assert (response.error_code, response.config_resources) == (UnsupportedVersion.code, [])

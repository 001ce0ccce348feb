"""DescribeCluster: the brokers, at addresses that the client can reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import NONE, KafkaError, MismatchedEndpointType, UnsupportedEndpointType
from kmini.protocol.messages.describe_cluster import BROKERS, CONTROLLERS, NOT_ASKED_FOR, DescribeClusterRequest

Ask = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize("version", range(3))
async def test_the_broker_is_where_the_client_arrived(broker: BrokerServer, ask: Ask, version: int) -> None:
    answer = await ask(broker, DescribeClusterRequest(include_fenced_brokers=version >= 2), version)
    assert answer.error_code == NONE
    assert answer.cluster_id == broker.controller.cluster_id
    assert [(b.broker_id, b.host, b.port, b.is_fenced) for b in answer.brokers] == [
        (1, "client-side.example", 19092, False)
    ]
    assert (answer.controller_id, answer.endpoint_type) == (1, BROKERS)
    assert answer.cluster_authorized_operations == NOT_ASKED_FOR


async def test_everything_is_allowed_where_there_is_no_authorizer(broker: BrokerServer, ask: Ask) -> None:
    answer = await ask(broker, DescribeClusterRequest(include_cluster_authorized_operations=True))
    operations = {bit for bit in range(31) if answer.cluster_authorized_operations >> bit & 1}
    assert operations == {5, 7, 8, 9, 10, 11, 12}


@pytest.mark.parametrize(
    ("endpoint_type", "error"), [(CONTROLLERS, MismatchedEndpointType), (3, UnsupportedEndpointType)]
)
async def test_only_brokers_are_here(
    broker: BrokerServer, ask: Ask, endpoint_type: int, error: type[KafkaError]
) -> None:
    answer = await ask(broker, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (answer.error_code, answer.brokers, answer.controller_id) == (error.code, [], -1)

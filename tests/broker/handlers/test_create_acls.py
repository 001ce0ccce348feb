"""CreateAcls, without an authorizer."""

from __future__ import annotations

import pytest

from kmini.broker.api.request_context import CloseConnection
from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import SecurityDisabled
from kmini.protocol.messages.create_acls import CreateAclsRequest

EXAMPLE = CreateAclsRequest(
    creations=[
        CreateAclsRequest.Creation(
            resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
        )
    ]
)


TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3


def creation(count: int, **changed: int) -> CreateAclsRequest:
    codes = {"resource_type": TOPIC, "resource_pattern_type": LITERAL, "operation": READ, "permission_type": ALLOW}
    rule = CreateAclsRequest.Creation(resource_name="t", principal="User:a", host="*", **{**codes, **changed})
    return CreateAclsRequest(creations=[rule] * count)


@pytest.mark.parametrize("version", range(4))
async def test_every_version_says_that_security_is_disabled(broker: BrokerServer, ask, version: int) -> None:
    answer = await ask(broker, creation(2), version)
    assert [result.error_code for result in answer.results] == [SecurityDisabled.code] * 2


async def test_a_request_without_rules_is_not_refused(broker: BrokerServer, ask) -> None:
    assert (await ask(broker, creation(0))).results == []


@pytest.mark.parametrize("unknown", ["resource_type", "operation"])
async def test_an_element_that_the_client_does_not_know_closes_the_connection(
    broker: BrokerServer, ask, unknown: str
) -> None:
    with pytest.raises(CloseConnection):
        await ask(broker, creation(1, **{unknown: 0}))

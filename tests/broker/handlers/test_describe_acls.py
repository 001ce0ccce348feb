"""DescribeAcls, without an authorizer."""

from __future__ import annotations

import pytest

from kmini.broker.api.request_context import CloseConnection
from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import SecurityDisabled
from kmini.protocol.messages.describe_acls import DescribeAclsRequest

EXAMPLE = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


ANY, LITERAL = 1, 3


def description(**changed: int) -> DescribeAclsRequest:
    codes = {"resource_type_filter": ANY, "pattern_type_filter": LITERAL, "operation": ANY, "permission_type": ANY}
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return DescribeAclsRequest(**names, **{**codes, **changed})


@pytest.mark.parametrize("version", range(4))
async def test_every_version_says_that_security_is_disabled(broker: BrokerServer, ask, version: int) -> None:
    answer = await ask(broker, description(), version)
    assert (answer.error_code, answer.resources) == (SecurityDisabled.code, [])
    assert "authorizer" in answer.error_message


@pytest.mark.parametrize("unknown", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
async def test_an_element_that_the_client_does_not_know_closes_the_connection(
    broker: BrokerServer, ask, unknown: str
) -> None:
    with pytest.raises(CloseConnection):
        await ask(broker, description(**{unknown: 0}))

"""DescribeAcls, CreateAcls and DeleteAcls, without an authorizer."""

from __future__ import annotations

import pytest

from kmini.broker.api.request_context import CloseConnection
from kmini.broker.broker import Broker
from kmini.protocol.errors import SecurityDisabled
from kmini.protocol.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

ANY, ALLOW, TOPIC, LITERAL, READ = 1, 3, 2, 3, 3


def description(**changed: int) -> DescribeAclsRequest:
    codes = {"resource_type_filter": ANY, "pattern_type_filter": LITERAL, "operation": ANY, "permission_type": ANY}
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return DescribeAclsRequest(**names, **{**codes, **changed})


def creation(count: int, **changed: int) -> CreateAclsRequest:
    codes = {"resource_type": TOPIC, "resource_pattern_type": LITERAL, "operation": READ, "permission_type": ALLOW}
    rule = CreateAclsRequest.Creation(resource_name="t", principal="User:a", host="*", **{**codes, **changed})
    return CreateAclsRequest(creations=[rule] * count)


def deletion(count: int, **changed: int) -> DeleteAclsRequest:
    codes = {"resource_type_filter": ANY, "pattern_type_filter": LITERAL, "operation": ANY, "permission_type": ANY}
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**names, **{**codes, **changed})] * count)


@pytest.mark.parametrize("version", range(4))
async def test_every_version_says_that_security_is_disabled(broker: Broker, ask, version: int) -> None:
    answer = await ask(broker, description(), version)
    assert (answer.error_code, answer.resources) == (SecurityDisabled.code, [])
    assert "authorizer" in answer.error_message
    answer = await ask(broker, creation(2), version)
    assert [result.error_code for result in answer.results] == [SecurityDisabled.code] * 2
    answer = await ask(broker, deletion(2), version)
    assert [(r.error_code, r.matching_acls) for r in answer.filter_results] == [(SecurityDisabled.code, [])] * 2


async def test_nothing_asked_is_nothing_refused(broker: Broker, ask) -> None:
    assert (await ask(broker, creation(0))).results == []
    assert (await ask(broker, deletion(0))).filter_results == []


@pytest.mark.parametrize(
    "request_",
    [
        description(resource_type_filter=0),
        description(pattern_type_filter=0),
        description(operation=0),
        description(permission_type=0),
        creation(1, resource_type=0),
        creation(1, operation=0),
        deletion(1, permission_type=0),
    ],
    ids=lambda request: request.name,
)
async def test_an_element_that_the_client_itself_does_not_know_closes_the_connection(
    broker: Broker, ask, request_
) -> None:
    with pytest.raises(CloseConnection):
        await ask(broker, request_)

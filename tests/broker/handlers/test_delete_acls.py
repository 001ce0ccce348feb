"""DeleteAcls, without an authorizer."""

from __future__ import annotations

import pytest

from kmini.broker.api.request_context import CloseConnection
from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import SecurityDisabled
from kmini.protocol.messages.delete_acls import DeleteAclsRequest

EXAMPLE = DeleteAclsRequest(
    filters=[
        DeleteAclsRequest.Filter(
            resource_type_filter=1,
            resource_name_filter="no-such",
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
    ]
)


ANY, LITERAL = 1, 3


def deletion(count: int, **changed: int) -> DeleteAclsRequest:
    codes = {"resource_type_filter": ANY, "pattern_type_filter": LITERAL, "operation": ANY, "permission_type": ANY}
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**names, **{**codes, **changed})] * count)


@pytest.mark.parametrize("version", range(4))
async def test_every_version_says_that_security_is_disabled(broker: BrokerServer, ask, version: int) -> None:
    answer = await ask(broker, deletion(2), version)
    assert [(r.error_code, r.matching_acls) for r in answer.filter_results] == [(SecurityDisabled.code, [])] * 2


async def test_a_request_without_filters_is_not_refused(broker: BrokerServer, ask) -> None:
    assert (await ask(broker, deletion(0))).filter_results == []


@pytest.mark.parametrize("unknown", ["permission_type"])
async def test_an_element_that_the_client_does_not_know_closes_the_connection(
    broker: BrokerServer, ask, unknown: str
) -> None:
    with pytest.raises(CloseConnection):
        await ask(broker, deletion(1, **{unknown: 0}))

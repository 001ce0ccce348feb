"""DescribeClientQuotas: stored quotas by filter."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import NONE, InvalidRequest, UnsupportedVersion
from kmini.protocol.messages.describe_client_quotas import (
    ANY_NAME,
    DEFAULT_ENTITY,
    EXACT_NAME,
    DescribeClientQuotasRequest,
)
from support.broker.quota_requests import RATE, Entity, describe, set_quotas, told

EXAMPLE = DescribeClientQuotasRequest(components=[], strict=False)


@pytest.mark.parametrize("version", [0, 1])
async def test_what_was_set_is_told_until_it_is_removed(broker: BrokerServer, ask, version: int) -> None:
    bob: Entity = {"user": "bob"}
    assert told(await ask(broker, describe(), version)) == []
    assert await set_quotas(ask, broker, bob, {RATE: 1024.0, "request_percentage": 12.5}) == NONE
    assert told(await ask(broker, describe(), version)) == [(bob, {RATE: 1024.0, "request_percentage": 12.5})]
    assert await set_quotas(ask, broker, bob, {RATE: None, "consumer_byte_rate": 5.0}) == NONE
    assert told(await ask(broker, describe(), version)) == [
        (bob, {"request_percentage": 12.5, "consumer_byte_rate": 5.0})
    ]
    assert await set_quotas(ask, broker, bob, {"request_percentage": None, "consumer_byte_rate": None}) == NONE
    assert told(await ask(broker, describe(), version)) == []


async def test_quotas_outlive_the_broker(start_broker, ask) -> None:
    first = await start_broker()
    entity: Entity = {"client-id": None, "user": 'a "name"'}
    assert await set_quotas(ask, first, entity, {RATE: 1e15}) == NONE
    await first.stop()
    assert told(await ask(await start_broker(), describe())) == [(entity, {RATE: 1e15})]


async def test_a_filter_matches_names_defaults_and_all(broker: BrokerServer, ask) -> None:
    bob: Entity = {"user": "bob"}
    both: Entity = {"client-id": "c", "user": "bob"}
    default: Entity = {"user": None}
    for entity in (bob, both, default):
        assert await set_quotas(ask, broker, entity, {RATE: 1.0}) == NONE
    for components, strict, found in (
        ([("user", EXACT_NAME, "bob")], False, [bob, both]),
        ([("user", EXACT_NAME, "bob")], True, [bob]),
        ([("user", DEFAULT_ENTITY, None)], False, [default]),
        ([("user", ANY_NAME, None)], True, [bob, default]),
        ([("user", ANY_NAME, None), ("client-id", EXACT_NAME, "c")], True, [both]),
        ([("client-id", ANY_NAME, None)], False, [both]),
        ([("ip", ANY_NAME, None)], False, []),
        ([], True, []),
    ):
        answer = told(await ask(broker, describe(*components, strict=strict)))
        assert [entity for entity, _ in answer] == found, components


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("user", EXACT_NAME, None)], InvalidRequest.code),
        ([("user", DEFAULT_ENTITY, "x")], InvalidRequest.code),
        ([("user", ANY_NAME, "x")], InvalidRequest.code),
        ([("user", 3, None)], InvalidRequest.code),
        ([("", ANY_NAME, None)], InvalidRequest.code),
        ([("foo", ANY_NAME, None)], UnsupportedVersion.code),
        ([("user", ANY_NAME, None), ("user", ANY_NAME, None)], InvalidRequest.code),
        ([("ip", ANY_NAME, None), ("user", ANY_NAME, None)], InvalidRequest.code),
    ],
)
async def test_a_filter_that_means_nothing_is_refused(broker: BrokerServer, ask, components, code: int) -> None:
    answer = await ask(broker, describe(*components))
    assert (answer.error_code, answer.entries) == (code, None)

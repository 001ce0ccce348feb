"""DescribeClientQuotas and AlterClientQuotas: kept and told."""

from __future__ import annotations

import pytest

from kmini.broker.broker import Broker
from kmini.broker.settings import client_quotas
from kmini.protocol.errors import NONE, InvalidRequest, PolicyViolation, UnsupportedVersion
from kmini.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kmini.protocol.messages.describe_client_quotas import (
    ANY_NAME,
    DEFAULT_ENTITY,
    EXACT_NAME,
    DescribeClientQuotasRequest,
)

Entry = AlterClientQuotasRequest.Entry
Component = DescribeClientQuotasRequest.Component
Entity = dict[str, str | None]
RATE = "producer_byte_rate"


def alter(entity: Entity, quotas: dict[str, float | None], **options) -> AlterClientQuotasRequest:
    named = [Entry.Entity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [Entry.Op(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
    return AlterClientQuotasRequest(entries=[Entry(entity=named, ops=ops)], validate_only=False, **options)


def describe(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[Component(entity_type=kind, match_type=how, match=name) for kind, how, name in components],
        strict=strict,
    )


def told(response) -> list[tuple[Entity, dict[str, float]]]:
    assert response.error_code == NONE
    return [
        ({e.entity_type: e.entity_name for e in entry.entity}, {value.key: value.value for value in entry.values})
        for entry in response.entries
    ]


async def set_quotas(ask, broker: Broker, entity: Entity, quotas: dict[str, float | None]) -> int:
    (answer,) = (await ask(broker, alter(entity, quotas))).entries
    assert {e.entity_type: e.entity_name for e in answer.entity} == entity
    return answer.error_code


@pytest.mark.parametrize("version", [0, 1])
async def test_what_was_set_is_told_until_it_is_removed(broker: Broker, ask, version: int) -> None:
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


async def test_a_filter_matches_names_defaults_and_all(broker: Broker, ask) -> None:
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
async def test_a_filter_that_means_nothing_is_refused(broker: Broker, ask, components, code: int) -> None:
    answer = await ask(broker, describe(*components))
    assert (answer.error_code, answer.entries) == (code, None)


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ({}, {RATE: 1.0}),
        ({"foo": "x"}, {RATE: 1.0}),
        ({"user": ""}, {RATE: 1.0}),
        ({"user": "x" * 1_001}, {RATE: 1.0}),
        ({"ip": "no.address.example"}, {"connection_creation_rate": 1.0}),
        ({"ip": "1.2.3.4", "user": "x"}, {"connection_creation_rate": 1.0}),
        ({"ip": "1.2.3.4"}, {RATE: 1.0}),
        ({"user": "x"}, {"connection_creation_rate": 1.0}),
        ({"user": "x"}, {"no_such_key": 1.0}),
        ({"user": "x"}, {RATE: -1.0}),
        ({"user": "x"}, {RATE: 1.5}),
        ({"user": "x"}, {RATE: float("nan")}),
        ({"user": "x"}, {RATE: float("inf")}),
        ({"user": "x"}, {"consumer_byte_rate": 1.0, RATE: -2.0}),
    ],
)
async def test_what_means_nothing_is_an_invalid_request_and_changes_nothing(
    broker: Broker, ask, entity: Entity, quotas: dict[str, float | None]
) -> None:
    assert await set_quotas(ask, broker, entity, quotas) == InvalidRequest.code
    assert told(await ask(broker, describe())) == []


@pytest.mark.parametrize("name", ["1.2.3.4", "::1", "localhost", None])
async def test_addresses_have_a_quota_of_their_own(broker: Broker, ask, name: str | None) -> None:
    assert await set_quotas(ask, broker, {"ip": name}, {"connection_creation_rate": 7.0}) == NONE


async def test_only_to_see_changes_nothing(broker: Broker, ask) -> None:
    request = alter({"user": "bob"}, {RATE: 1.0})
    request.validate_only = True
    assert [answer.error_code for answer in (await ask(broker, request)).entries] == [NONE]
    assert told(await ask(broker, describe())) == []


async def test_an_entity_that_is_named_twice_is_refused_once(broker: Broker, ask) -> None:
    request = alter({"user": "bob"}, {RATE: 1.0})
    request.entries.append(alter({"user": "bob"}, {"consumer_byte_rate": 1.0}).entries[0])
    request.entries.append(alter({"user": "eve"}, {RATE: 1.0}).entries[0])
    answer = await ask(broker, request)
    assert [entry.error_code for entry in answer.entries] == [InvalidRequest.code, NONE]
    assert [entity for entity, _ in told(await ask(broker, describe()))] == [{"user": "eve"}]


async def test_there_is_an_end_to_how_many_entities_have_quotas(broker: Broker, ask, monkeypatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 2)
    codes = [await set_quotas(ask, broker, {"user": name}, {RATE: 1.0}) for name in ("a", "b", "c", "a")]
    assert codes == [NONE, NONE, PolicyViolation.code, NONE]

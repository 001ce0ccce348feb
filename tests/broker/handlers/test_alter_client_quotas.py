"""AlterClientQuotas: quotas are checked and stored."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import client_quotas
from kmini.protocol.errors import NONE, InvalidRequest, PolicyViolation
from kmini.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from support.broker.quota_requests import RATE, Entity, alter, describe, set_quotas, told

EXAMPLE = AlterClientQuotasRequest(
    validate_only=True,
    entries=[
        AlterClientQuotasRequest.Entry(
            entity=[AlterClientQuotasRequest.Entry.Entity(entity_type="user", entity_name="u")], ops=[]
        )
    ],
)


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
    broker: BrokerServer, ask, entity: Entity, quotas: dict[str, float | None]
) -> None:
    assert await set_quotas(ask, broker, entity, quotas) == InvalidRequest.code
    assert told(await ask(broker, describe())) == []


@pytest.mark.parametrize("name", ["1.2.3.4", "::1", "localhost", None])
async def test_addresses_have_a_quota_of_their_own(broker: BrokerServer, ask, name: str | None) -> None:
    assert await set_quotas(ask, broker, {"ip": name}, {"connection_creation_rate": 7.0}) == NONE


async def test_only_to_see_changes_nothing(broker: BrokerServer, ask) -> None:
    request = alter({"user": "bob"}, {RATE: 1.0})
    request.validate_only = True
    assert [answer.error_code for answer in (await ask(broker, request)).entries] == [NONE]
    assert told(await ask(broker, describe())) == []


async def test_an_entity_that_is_named_twice_is_refused_once(broker: BrokerServer, ask) -> None:
    request = alter({"user": "bob"}, {RATE: 1.0})
    request.entries.append(alter({"user": "bob"}, {"consumer_byte_rate": 1.0}).entries[0])
    request.entries.append(alter({"user": "eve"}, {RATE: 1.0}).entries[0])
    answer = await ask(broker, request)
    assert [entry.error_code for entry in answer.entries] == [InvalidRequest.code, NONE]
    assert [entity for entity, _ in told(await ask(broker, describe()))] == [{"user": "eve"}]


async def test_there_is_an_end_to_how_many_entities_have_quotas(broker: BrokerServer, ask, monkeypatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 2)
    codes = [await set_quotas(ask, broker, {"user": name}, {RATE: 1.0}) for name in ("a", "b", "c", "a")]
    assert codes == [NONE, NONE, PolicyViolation.code, NONE]

"""Requests about client quotas, and the quotas in an answer."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import NONE
from kmini.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kmini.protocol.messages.describe_client_quotas import (
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


async def set_quotas(ask, broker: BrokerServer, entity: Entity, quotas: dict[str, float | None]) -> int:
    (answer,) = (await ask(broker, alter(entity, quotas))).entries
    assert {e.entity_type: e.entity_name for e in answer.entity} == entity
    return answer.error_code

"""Quotas of users, client ids and addresses (KIP-546), as they are stored. What they do is in `broker/quotas/`.

The rules are Kafka's, with one exception: a host name other than localhost is no address, because nothing a client
sends is looked up in the DNS.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ...protocol.errors import InvalidRequest, PolicyViolation
from ...protocol.messages.describe_client_quotas import ENTITY_TYPES
from .controller import Controller

Entity = Mapping[str, str | None]
"""The entity that a quota is for: names by entity type, None for the default of the type. Not empty."""

IP = "ip"

INT, LONG, DOUBLE = (1 << 31) - 1, (1 << 63) - 1, float("inf")
"""The largest value of a quota, by its type."""

_OF_USERS_AND_CLIENTS = {
    "producer_byte_rate": LONG,
    "consumer_byte_rate": LONG,
    "request_percentage": DOUBLE,
    "controller_mutation_rate": DOUBLE,
}
_OF_ADDRESSES = {"connection_creation_rate": INT}

_EPSILON = 1e-6
"""The distance from a whole number that Kafka allows."""

MAX_ENTITIES = 10_000
"""Entities that may have quotas. Kafka takes any number."""

MAX_NAME_LENGTH = 1_000
"""Characters that the name of a user or client id may have. Kafka takes any length."""


def stored_quotas(controller: Controller) -> Iterable[tuple[Entity, Mapping[str, float]]]:
    """Every entity that has quotas, with them."""
    for name, quotas in list(controller.client_quotas.items()):
        yield json.loads(name), {key: float(value) for key, value in quotas.items()}


def name_of(entity: Entity) -> str:
    """The entity as text: equal for equal ones."""
    return json.dumps(dict(entity), sort_keys=True)


def check_entity(entity: Entity) -> None:
    """Raise InvalidRequest unless there can be quotas for it."""
    if not entity:
        raise InvalidRequest("the entity is empty")
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(f"there is no entity type {kind!r}")
        if name is not None and not 0 < len(name) <= MAX_NAME_LENGTH:
            raise InvalidRequest(f"the name of the {kind} has {len(name)} characters, not 1 to {MAX_NAME_LENGTH}")
    if IP in entity:
        if len(entity) > 1:
            raise InvalidRequest("an address cannot be combined with a user or a client id")
        _check_address(entity[IP])


def _check_address(name: str | None) -> None:
    import ipaddress  # here, because a start would wait for the import

    if name is None or name == "localhost":
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise InvalidRequest(f"{name[:100]!r} is no address") from None


def change_quotas(
    controller: Controller, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Set the quotas in `changes`, and remove those that are None there. All or nothing. Every live broker puts them in
    force at once.

    Raises InvalidRequest for a key or value that means nothing, PolicyViolation where there are too many entities.
    """
    allowed = _OF_ADDRESSES if IP in entity else _OF_USERS_AND_CLIENTS
    for key, value in changes.items():
        if value is not None:
            _check_value(key, value, allowed)
    name = name_of(entity)
    stored = controller.client_quotas
    quotas: dict[str, str] = dict(stored.get(name, {}))
    for key, value in changes.items():
        if value is None:
            quotas.pop(key, None)
        else:
            quotas[key] = repr(value)
    if quotas and name not in stored and len(stored) >= MAX_ENTITIES:
        raise PolicyViolation(f"at most {MAX_ENTITIES} entities have quotas")
    if not validate_only and quotas != stored.get(name, {}):
        controller.set_client_quotas(name, quotas)
        for registered in controller.brokers:
            if registered.broker is not None:
                registered.broker.update_quotas(name)


def _check_value(key: str, value: float, allowed: Mapping[str, float]) -> None:
    largest = allowed.get(key)
    if largest is None:
        raise InvalidRequest(f"there is no quota {key[:100]!r} for this entity")
    if not value > 0:
        raise InvalidRequest(f"{key} must be greater than 0")
    if largest == DOUBLE:
        return
    if value > largest:
        raise InvalidRequest(f"{key} is too large: {value}")
    if abs(int(value + _EPSILON) - value) > _EPSILON:
        raise InvalidRequest(f"{key} must be a whole number, not {value}")

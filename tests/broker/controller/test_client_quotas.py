"""Client quotas (KIP-546): which entities and values there can be, and what the controller keeps of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kmini.broker.controller import client_quotas
from kmini.broker.controller.client_quotas import Entity, change_quotas, check_entity, name_of, stored_quotas
from kmini.broker.controller.controller import Controller
from kmini.protocol.errors import InvalidRequest, PolicyViolation
from kmini.storage.filesystem import OsFileSystem

ANN: Entity = {"user": "ann"}


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    controller = Controller.open(str(tmp_path), node_ids=[1], filesystem=OsFileSystem(synced=False))
    yield controller
    controller.close()


@pytest.mark.parametrize(
    "entity",
    [
        {"user": "ann"},
        {"user": None},
        {"user": "ann", "client-id": None},
        {"ip": "10.0.0.1"},
        {"ip": "::1"},
        {"ip": "localhost"},
        {"ip": None},
    ],
)
def test_quotas_are_for_users_client_ids_and_addresses(entity: Entity) -> None:
    check_entity(entity)


@pytest.mark.parametrize(
    "entity",
    [{}, {"group": "g"}, {"user": ""}, {"user": "x" * 1001}, {"ip": "10.0.0.1", "user": "ann"}, {"ip": "example.org"}],
)
def test_other_entities_are_refused(entity: Entity) -> None:
    with pytest.raises(InvalidRequest):
        check_entity(entity)


def test_the_order_of_an_entitys_parts_is_of_no_account() -> None:
    assert name_of({"user": "a", "client-id": "b"}) == name_of({"client-id": "b", "user": "a"})


def test_quotas_are_set_changed_and_removed_one_by_one(controller: Controller) -> None:
    change_quotas(controller, ANN, {"producer_byte_rate": 1.0, "request_percentage": 12.5})
    change_quotas(controller, ANN, {"producer_byte_rate": None, "consumer_byte_rate": 7.0})
    assert [*stored_quotas(controller)] == [(ANN, {"request_percentage": 12.5, "consumer_byte_rate": 7.0})]
    change_quotas(controller, ANN, {"request_percentage": None, "consumer_byte_rate": None})
    assert [*stored_quotas(controller)] == []


def test_a_change_that_is_only_checked_changes_nothing(controller: Controller) -> None:
    change_quotas(controller, ANN, {"producer_byte_rate": 1.0}, validate_only=True)
    assert [*stored_quotas(controller)] == []


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (ANN, "connection_creation_rate", 1.0),
        ({"ip": None}, "producer_byte_rate", 1.0),
        (ANN, "no_such_rate", 1.0),
        (ANN, "producer_byte_rate", 0.0),
        (ANN, "producer_byte_rate", -1.0),
        (ANN, "producer_byte_rate", float("nan")),
        (ANN, "producer_byte_rate", 1.5),
        (ANN, "producer_byte_rate", 1e19),
        ({"ip": None}, "connection_creation_rate", 2.0**31),
    ],
)
def test_a_value_without_meaning_is_refused_and_nothing_of_the_change_is_kept(
    controller: Controller, entity: Entity, key: str, value: float
) -> None:
    other = "connection_creation_rate" if "ip" in entity else "consumer_byte_rate"
    with pytest.raises(InvalidRequest):
        change_quotas(controller, entity, {other: 1.0, key: value})
    assert [*stored_quotas(controller)] == []


def test_there_is_a_most_of_entities(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 1)
    change_quotas(controller, ANN, {"producer_byte_rate": 1.0})
    with pytest.raises(PolicyViolation):
        change_quotas(controller, {"user": "bob"}, {"producer_byte_rate": 1.0})
    change_quotas(controller, ANN, {"producer_byte_rate": 2.0})
    assert [*stored_quotas(controller)] == [(ANN, {"producer_byte_rate": 2.0})]

"""The subjects of the schema registry in the control API: listed, read, tried and registered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmini.registry.schema_reading import SchemaReader
from support.control_api import ControlApi
from support.registry_api import RegistryApi

pytest.importorskip("avro")


def order(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string"}
NOTE_WITH_DEFAULT = {**NOTE, "default": ""}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryApi]:
    api = RegistryApi(str(tmp_path)).start(SchemaReader())
    yield api
    api.end()


def test_a_schema_is_tried_registered_and_listed(registry: RegistryApi) -> None:
    api = registry.control
    assert api.done("GET", "/subjects") == []
    assert api.done("POST", "/subjects/orders-value/check", {"schema": order(ID)})["is_compatible"] is True
    assert api.done("GET", "/subjects") == [], "to try is not to register"
    made = api.done("POST", "/subjects/orders-value/versions", {"schema": order(ID)})
    assert (made["version"], made["type"]) == (1, "AVRO")
    refused = api.done("POST", "/subjects/orders-value/check", {"schema": order(ID, NOTE)})
    assert refused["is_compatible"] is False
    assert any("note" in message for message in refused["messages"])
    api.done("POST", "/subjects/orders-value/versions", {"schema": order(ID, NOTE_WITH_DEFAULT)})
    (row,) = api.done("GET", "/subjects")
    assert row == {
        "subject": "orders-value",
        "version_count": 2,
        "version": 2,
        "id": 2,
        "type": "AVRO",
        "compatibility": "BACKWARD",
    }
    versions = api.done("GET", "/subjects/orders-value")
    assert [json.loads(one["schema"])["fields"] for one in versions] == [[ID], [ID, NOTE_WITH_DEFAULT]]


def test_a_client_of_the_registry_sees_what_was_registered_here_and_the_other_way_round(registry: RegistryApi) -> None:
    api = registry.control
    made = api.done("POST", "/subjects/a/versions", {"schema": order(ID)})
    assert registry.get("/subjects/a/versions/1").document["id"] == made["id"]
    registry.post("/subjects/b/versions", {"schema": order(ID, NOTE_WITH_DEFAULT)})
    assert [row["subject"] for row in api.done("GET", "/subjects")] == ["a", "b"]


def test_what_the_registry_refuses_is_a_problem_in_its_words(registry: RegistryApi) -> None:
    api = registry.control
    api.done("POST", "/subjects/orders-value/versions", {"schema": order(ID)})
    assert "Invalid" in api.problem("POST", "/subjects/orders-value/check", {"schema": "{"})["detail"]
    incompatible = api.problem("POST", "/subjects/orders-value/versions", {"schema": order(ID, NOTE)})
    assert (incompatible["status"], "incompatible" in incompatible["detail"]) == (422, True)
    assert api.problem("GET", "/subjects/missing")["status"] == 404


def test_without_a_registry_the_answer_says_how_to_have_one(api: ControlApi) -> None:
    assert api.done("GET", "/subjects") == []
    problem = api.problem("POST", "/subjects/orders-value/check", {"schema": order(ID)})
    assert (problem["status"], "kmini serve --registry" in problem["detail"]) == (409, True)

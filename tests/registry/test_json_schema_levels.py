"""What may change in a JSON Schema under which level of compatibility, by content model and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from kmini.registry.schema_reading import SchemaReader
from support.registry_api import RegistryApi

Model = Literal["open", "closed", "partially open"]

OTHERS: dict[Model, Any] = {"open": True, "closed": False, "partially open": {"type": "string"}}
"""`additionalProperties` of each content model."""

PLAIN = {"type": "string"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryApi]:
    api = RegistryApi(str(tmp_path_factory.mktemp("broker"))).start(SchemaReader())
    yield api
    api.end()


@pytest.fixture
def api(served: RegistryApi) -> Iterator[RegistryApi]:
    """A broker with a schema registry and the real formats."""
    yield served
    served.control.reset()


def schema(model: Model, *names: str, required: tuple[str, ...] = (), kind: Any = PLAIN) -> dict[str, Any]:
    """An object with properties of one kind."""
    return {
        "type": "object",
        "properties": dict.fromkeys(("a", *names), kind),
        "required": [*required],
        "additionalProperties": OTHERS[model],
    }


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "add an optional property, open": (schema("open"), schema("open", "b"), {"FORWARD"}),
    "add a required property, open": (schema("open"), schema("open", "b", required=("b",)), {"FORWARD"}),
    "remove an optional property, open": (schema("open", "b"), schema("open"), {"BACKWARD"}),
    "remove a required property, open": (schema("open", "b", required=("b",)), schema("open"), {"BACKWARD"}),
    "add an optional property, closed": (schema("closed"), schema("closed", "b"), {"BACKWARD"}),
    "add a required property, closed": (schema("closed"), schema("closed", "b", required=("b",)), set()),
    "remove an optional property, closed": (schema("closed", "b"), schema("closed"), {"FORWARD"}),
    "remove a required property, closed": (schema("closed", "b", required=("b",)), schema("closed"), set()),
    "add a covered property, partially open": (
        schema("partially open"),
        schema("partially open", "b"),
        {"BACKWARD", "FORWARD", "FULL"},
    ),
    "remove a covered property, partially open": (
        schema("partially open", "b"),
        schema("partially open"),
        {"BACKWARD", "FORWARD", "FULL"},
    ),
    "open a closed model": (schema("closed"), schema("open"), {"BACKWARD"}),
    "close an open model": (schema("open"), schema("closed"), {"FORWARD"}),
    "require a property": (schema("open"), schema("open", required=("a",)), {"FORWARD"}),
    "require a property no more": (schema("open", required=("a",)), schema("open"), {"BACKWARD"}),
    "widen a type": (schema("open", kind={"type": "integer"}), schema("open", kind={"type": "number"}), {"BACKWARD"}),
    "change a type": (schema("open", kind={"type": "integer"}), schema("open"), set()),
    "write a note": (schema("open"), {**schema("open"), "title": "Order"}, {"BACKWARD", "FORWARD", "FULL"}),
}
"""The first schema, the second one, and the levels under which the second one registers, by the change."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_registers_under_its_levels(api: RegistryApi, change: str) -> None:
    first, second, levels = CHANGES[change]
    for level in ("BACKWARD", "FORWARD", "FULL", "NONE"):
        subject = f"{level.lower()}-value"
        api.put(f"/config/{subject}", {"compatibility": level})
        api.registered(subject, first, schemaType="JSON")
        reply = api.register(subject, second, schemaType="JSON")
        assert (reply.status == 200) == (level in levels or level == "NONE"), (level, reply)
        assert reply.status in (200, 409)


def test_a_difference_is_told_with_its_kind_and_place(api: RegistryApi) -> None:
    api.registered("s", schema("open"), schemaType="JSON")
    reply = api.register("s", schema("open", "b"), schemaType="JSON")
    assert (reply.status, reply.error_code) == (409, 40901)
    assert "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL" in reply.message
    assert "#/properties/b" in reply.message


def test_what_cannot_be_judged_is_refused_and_level_none_registers_it(api: RegistryApi) -> None:
    first, second = schema("closed"), {"type": "object", "patternProperties": {"(a|b)": PLAIN}}
    api.registered("s", first, schemaType="JSON")
    reply = api.register("s", second, schemaType="JSON")
    assert reply.status == 422
    assert "cannot compare patternProperties" in reply.message
    assert "level NONE registers" in reply.message
    api.put("/config/s", {"compatibility": "NONE"})
    api.registered("s", second, schemaType="JSON")


def test_what_a_schema_refers_to_is_found_among_its_references(api: RegistryApi) -> None:
    api.registered("address", {"type": "object", "properties": {"city": PLAIN}}, schemaType="JSON")
    order = {"type": "object", "properties": {"to": {"$ref": "address.json"}}}
    references = [{"name": "address.json", "subject": "address", "version": 1}]
    api.registered("orders-value", order, schemaType="JSON", references=references)
    reply = api.register("orders-value", order, schemaType="JSON")
    assert (reply.status, reply.error_code) == (422, 42201)
    assert "refers to 'address.json' at #/properties/to" in reply.message


def test_a_schema_is_normalized_on_demand(api: RegistryApi) -> None:
    document = json.dumps({"type": "object", "required": ["b", "a"]})
    reply = api.post("/subjects/s/versions?normalize=true", {"schema": document, "schemaType": "JSON"})
    assert reply.status == 200
    assert api.get("/subjects/s/versions/1/schema").body == b'{"required":["a","b"],"type":"object"}'

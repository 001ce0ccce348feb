"""JSON Schemas of each draft are read with what they refer to, and written and compared as one text."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.registry.formats.json_schema_format import JsonSchema, JsonSchemaFormat
from kmini.registry.formats.schema_format import CannotCompare, InvalidSchema, ResolvedReference
from support.json_schemas import DRAFTS, changed, fitted, random_document

LATEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
STRING, INTEGER, NUMBER, NULL = ({"type": name} for name in ("string", "integer", "number", "null"))


def read(schema: Any, *references: ResolvedReference) -> JsonSchema:
    """The schema of a JSON value."""
    return JsonSchemaFormat().read(json.dumps(schema), references)


def kinds(reader: Any, writer: Any) -> list[tuple[str, str]]:
    """The differences of two schemas, each by kind and path."""
    return [(found.kind, found.path) for found in read(reader).differences(read(writer))]


def an_object(properties: dict[str, Any], *required: str, **keywords: Any) -> dict[str, Any]:
    """The schema of an object."""
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
        **keywords,
    }


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The schema of an object that has no other properties."""
    return an_object(properties, *required, additionalProperties=False)


def cases(*names: str) -> dict[str, Any]:
    """A `oneOf` of objects that a constant tells apart."""
    return {"oneOf": [an_object({"kind": {"const": name}}, "kind") for name in names]}


def test_references_are_found_by_name_by_uri_and_by_anchor() -> None:
    item = ResolvedReference("item.json", json.dumps({"$schema": LATEST, "$id": "urn:item", **NUMBER}))
    cart = ResolvedReference("cart.json", json.dumps({"$schema": LATEST, "items": {"$ref": "item.json"}}), (item,))
    whole = {
        "$schema": LATEST,
        "$id": "http://example/shop/order.json",
        "properties": {
            "cart": {"$ref": "cart.json"},
            "first": {"$ref": "urn:item"},
            "paid": {"$ref": "#paid"},
            "total": {"$ref": "http://example/shop/cart.json#/items"},
        },
        "$defs": {"money": {"$anchor": "paid", "type": "integer"}},
    }
    plain = {"type": "array", "items": INTEGER}, INTEGER, INTEGER, NUMBER
    names = ("cart", "first", "paid", "total")
    writer = {"$schema": LATEST, "type": "object", "properties": dict(zip(names, plain, strict=True))}
    assert read(whole, cart).differences(read(writer)) == ()
    found = read(writer).differences(read({**whole, "type": "object"}, cart))
    assert [(difference.kind, difference.path) for difference in found] == [
        ("TYPE_NARROWED", "#/properties/cart/items"),
        ("TYPE_NARROWED", "#/properties/first"),
    ]


def test_equal_texts_with_other_references_are_compared() -> None:
    schema = {"properties": {"a": {"$ref": "a.json"}}}
    one, other = (read(schema, ResolvedReference("a.json", json.dumps(inner))) for inner in (INTEGER, NUMBER))
    assert other.differences(one) == ()
    assert [found.kind for found in one.differences(other)] == ["TYPE_NARROWED"]


def test_the_text_is_without_spaces_and_in_the_given_order() -> None:
    schema = JsonSchemaFormat().read('{ "type" : "object",\n "properties": {"ü": {"minimum": 1.50}} }')
    assert schema.text == '{"type":"object","properties":{"ü":{"minimum":1.5}}}'
    assert JsonSchemaFormat().read(" true ").text == "true"


def test_normalized_schemas_are_equal_whatever_their_order() -> None:
    one = read({"type": ["string", "object"], "required": ["b", "a"], "properties": {"b": {}, "required": {"a": 1}}})
    other = read({"properties": {"required": {"a": 1}, "b": {}}, "required": ["a", "b"], "type": ["object", "string"]})
    assert one.text != other.text
    assert one.normalized().text == other.normalized().text
    kept = read({"enum": ["b", "a"], "prefixItems": [STRING, NULL], "default": {"required": ["b", "a"]}}).normalized()
    assert kept.text == (
        '{"default":{"required":["b","a"]},"enum":["b","a"],"prefixItems":[{"type":"string"},{"type":"null"}]}'
    )


NO_SCHEMAS = {
    "": "is no JSON",
    "{": "is no JSON",
    '"string"': "is no JSON Schema. Expected an object, true or false",
    "[]": "is no JSON Schema. Expected an object, true or false",
    '{"type": "text"}': "at # is no JSON Schema: type: 'text' is not valid",
    '{"properties": {"a": {"required": ["x", "x"]}}}': "at #/properties/a is no JSON Schema: required: ",
    '{"allOf": []}': "at # is no JSON Schema: allOf: ",
    '{"items": [{}, 5]}': "at # is no JSON Schema: items: ",
    '{"properties": {"a": 5}}': "at # is no JSON Schema: properties: ",
    '{"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{}]}': "at # is no JSON Schema: items: ",
    '{"$schema": "http://json-schema.org/draft-04/schema#", "not": true}': "at # is no JSON Schema: not: ",
    '{"minLength": -5}': "at # is no JSON Schema: minLength: ",
    '{"properties": {"a": {"$ref": "b.json"}}}': "refers to 'b.json' at #/properties/a, which is no schema of it",
    '{"$ref": "#/title", "title": "x"}': "refers to '#/title' at #, which is no schema of it",
    '{"$ref": "#/x", "x": {"type": 5}}': "at #/$ref is no JSON Schema: type: ",
    '{"$id": 5}': "at # is no JSON Schema: $id: ",
    '{"minimum": NaN}': "NaN is no number in JSON",
    '{"minimum": 1e999}': "1e999 is too large a number",
    r'{"title": "\ud800"}': "half of a surrogate pair",
    '{"not":' * 200 + "true" + "}" * 200: "is too deep. Expected at most 100",
    "[" * 100_000: "is no JSON: it is nested too deeply",
    json.dumps("x" * (5 << 20)): "Expected at most 5242880",
}
"""Texts that are no schemas, with a part of what is said of them."""


@pytest.mark.parametrize("text", NO_SCHEMAS, ids=lambda text: text[:40])
def test_what_is_no_schema_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        JsonSchemaFormat().read(text)
    assert NO_SCHEMAS[text] in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("schema", [{"$schema": "http://example/mine", "type": 5}, True, False, {}, {"type": "null"}])
def test_a_first_version_is_read(schema: Any) -> None:
    if isinstance(schema, dict) and schema.get("type") == 5:
        schema = {**schema, "type": "string"}
    assert json.loads(read(schema).text) == schema


def test_a_pattern_is_never_run() -> None:
    evil = an_object({}, patternProperties={"^(a+)+$": {"pattern": "^(a+)+$"}})
    with pytest.raises(CannotCompare, match="cannot compare patternProperties"):
        read(evil).differences(read(an_object({"a" * 60 + "!": STRING})))
    assert read({**evil, "title": "x"}).differences(read(evil)) == ()


def test_a_comparison_that_would_take_long_is_given_up() -> None:
    reader, writer = ({"oneOf": [{"enum": [first + i]} for i in range(400)]} for first in (0, 1000))
    with pytest.raises(CannotCompare, match="too large for this registry"):
        kinds(reader, writer)


def test_shared_definitions_are_compared_once() -> None:
    def levels(last: dict[str, Any]) -> dict[str, Any]:
        deeper = [{"$ref": f"#/definitions/d{i + 1}"} for i in range(20)]
        definitions = {f"d{i}": an_object({"a": deeper[i], "b": deeper[i]}) for i in range(20)}
        return {"definitions": {**definitions, "d20": last}, "$ref": "#/definitions/d0"}

    assert kinds(levels(NUMBER), levels(INTEGER)) == []
    assert kinds(levels(INTEGER), levels(NUMBER))


def test_large_enumerations_are_compared() -> None:
    names = [str(number) for number in range(20_000)]
    assert kinds({"enum": names}, {"enum": names[1:]}) == []
    assert kinds({"enum": names[1:]}, {"enum": names}) == [("ENUM_ARRAY_NARROWED", "#/enum")]


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 1 << 40))
def test_a_schema_has_no_differences_from_itself_with_another_note(seed: int) -> None:
    random = Random(seed)
    draft = random.choice(DRAFTS)
    schema = fitted(random_document(random, draft), draft)
    try:
        assert read({**schema, "title": "another"}).differences(read(schema)) == ()
        read(changed(random, schema, draft)).differences(read(schema))
    except CannotCompare:
        return  # such as a schema that refers to itself without end

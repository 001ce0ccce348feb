"""JSON Schemas are compared as Confluent documents it, and no reader is taken that refuses what the writer writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kmini.registry.formats.json_schema_format import JsonSchema, JsonSchemaFormat
from kmini.registry.formats.schema_format import CannotCompare, ResolvedReference
from support.json_schemas import DRAFTS

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


COMPATIBLE = {
    "an integer is read as a number": (NUMBER, INTEGER),
    "a string is read as a string or null": ({"type": ["string", "null"]}, STRING),
    "a longer string is taken": ({"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 5}),
    "a shorter string is taken": ({"type": "string", "minLength": 1}, {"type": "string", "minLength": 2}),
    "a pattern is taken away": (STRING, {"type": "string", "pattern": "^a"}),
    "the same pattern stays": ({"type": "string", "pattern": "(a+)+$"}, {"pattern": "(a+)+$", "type": "string"}),
    "a wider range is taken": ({"minimum": 1, "maximum": 9}, {"type": "number", "minimum": 2, "maximum": 8}),
    "a limit becomes inclusive": ({"minimum": 1}, {"type": "number", "exclusiveMinimum": 1}),
    "a divisor is taken": ({"multipleOf": 5}, {"type": "integer", "multipleOf": 10}),
    "a fraction divides whole numbers": ({"multipleOf": 0.5}, INTEGER),
    "a value is added to an enumeration": ({"enum": ["a", "b", "c"]}, {"enum": ["b", "a"]}),
    "an enumeration becomes a type": (STRING, {"enum": ["a"]}),
    "a constant becomes an enumeration": ({"enum": [None, 1]}, {"const": None}),
    "an optional property is added to a closed model": (closed({"a": STRING, "b": STRING}), closed({"a": STRING})),
    "a property without rules is added to an open model": (an_object({"a": STRING, "b": {}}), an_object({"a": STRING})),
    "a property is removed from an open model": (an_object({"a": STRING}), an_object({"a": STRING, "b": STRING})),
    "a property of false is removed from a closed model": (closed({"a": STRING}), closed({"a": STRING, "b": False})),
    "an added property is covered by a partially open model": (
        an_object({"a": STRING, "b": STRING}, additionalProperties=STRING),
        an_object({"a": STRING}, additionalProperties=STRING),
    ),
    "a removed property is covered by a partially open model": (
        an_object({}, additionalProperties=STRING),
        an_object({"b": STRING}, additionalProperties=False),
    ),
    "an added property is covered by a pattern": (
        an_object({"x-b": INTEGER}, patternProperties={"^x-": INTEGER}, additionalProperties=False),
        an_object({}, patternProperties={"^x-": INTEGER}, additionalProperties=False),
    ),
    "a required property with a default is added to a closed model": (
        closed({"a": STRING, "b": {"type": "string", "default": ""}}, "b"),
        closed({"a": STRING}),
    ),
    "a property is not required any more": (an_object({"a": STRING}), an_object({"a": STRING}, "a")),
    "a closed model is opened": (an_object({"a": STRING}), closed({"a": STRING})),
    "a dependency is taken away": (an_object({}), an_object({}, dependencies={"a": ["b"]})),
    "a wider count of properties is taken": (
        {"type": "object", "minProperties": 1, "maxProperties": 4},
        {"type": "object", "minProperties": 2, "maxProperties": 3},
    ),
    "items of a wider type are taken": ({"items": NUMBER}, {"type": "array", "items": INTEGER}),
    "an item is added to a closed tuple": (
        {"items": [STRING, INTEGER], "additionalItems": False},
        {"type": "array", "items": [STRING], "additionalItems": False},
    ),
    "an item is removed from an open tuple": ({"items": [STRING]}, {"type": "array", "items": [STRING, INTEGER]}),
    "more items are taken": ({"maxItems": 3}, {"type": "array", "maxItems": 2}),
    "equal items are taken": ({"type": "array"}, {"type": "array", "uniqueItems": True}),
    "an alternative is added": ({"oneOf": [STRING, NULL, INTEGER]}, {"oneOf": [STRING, NULL]}),
    "a type becomes one of several": ({"oneOf": [STRING, NULL]}, STRING),
    "oneOf becomes anyOf": ({"anyOf": [STRING, NUMBER]}, {"oneOf": [STRING, INTEGER]}),
    "allOf becomes anyOf": ({"anyOf": [STRING, INTEGER]}, {"allOf": [STRING, {"maxLength": 3}]}),
    "a list of types becomes oneOf": ({"oneOf": [NULL, STRING]}, {"type": ["string", "null"]}),
    "an alternative with another constant is added": (cases("a", "b", "c"), cases("a", "b")),
    "a schema of allOf is taken away": ({"allOf": [STRING]}, {"allOf": [STRING, {"maxLength": 3}]}),
    "two schemas of allOf are one": ({"type": "string", "maxLength": 3}, {"allOf": [STRING, {"maxLength": 3}]}),
    "not stays": ({"not": {"pattern": "a"}}, {"not": {"pattern": "a"}}),
    "not is taken away": ({}, {"not": STRING}),
    "not refuses what is not written": ({"not": STRING}, INTEGER),
    "a condition stays": ({"if": STRING, "then": {"minLength": 1}}, {"if": STRING, "then": {"minLength": 1}}),
    "a condition is implied": ({"if": STRING, "then": {"minLength": 1}}, {"type": "string", "minLength": 2}),
    "a format is a note": ({"type": "string", "format": "date"}, STRING),
    "notes are notes": ({"type": "string", "title": "x", "default": "y", "$comment": "z"}, STRING),
    "true takes all": (True, {"type": "string"}),
    "false writes nothing": (STRING, False),
    "a schema is moved to definitions": ({"definitions": {"d": STRING}, "$ref": "#/definitions/d"}, STRING),
    "keywords beside a reference say nothing in draft 7": (
        {"definitions": {"d": {}}, "$ref": "#/definitions/d", "maxLength": 1},
        STRING,
    ),
}
"""Reader and writer of changes that are compatible, by the claim."""

REFUSED = {
    "a number is no integer": (INTEGER, NUMBER, "TYPE_NARROWED", "#/type"),
    "a string is no number": (NUMBER, STRING, "TYPE_CHANGED", "#/type"),
    "null is not taken any more": (STRING, {"type": ["string", "null"]}, "TYPE_NARROWED", "#/type"),
    "a string is too long": ({"maxLength": 3}, {"maxLength": 4}, "MAX_LENGTH_DECREASED", "#/maxLength"),
    "a string may be too long": ({"maxLength": 3}, STRING, "MAX_LENGTH_ADDED", "#/maxLength"),
    "a string is too short": ({"minLength": 3}, {"minLength": 2}, "MIN_LENGTH_INCREASED", "#/minLength"),
    "a string may be too short": ({"minLength": 1}, STRING, "MIN_LENGTH_ADDED", "#/minLength"),
    "a pattern is added": ({"pattern": "a"}, STRING, "PATTERN_ADDED", "#/pattern"),
    "a number is too large": ({"maximum": 3}, {"maximum": 4}, "MAXIMUM_DECREASED", "#/maximum"),
    "a number may be too large": ({"maximum": 3}, NUMBER, "MAXIMUM_ADDED", "#/maximum"),
    "a number is too small": ({"minimum": 3}, {"minimum": 2}, "MINIMUM_INCREASED", "#/minimum"),
    "a number may be too small": ({"minimum": 3}, NUMBER, "MINIMUM_ADDED", "#/minimum"),
    "a number is on the limit": (
        {"exclusiveMaximum": 3},
        {"type": "number", "maximum": 3},
        "EXCLUSIVE_MAXIMUM_ADDED",
        "#/exclusiveMaximum",
    ),
    "a limit became higher": (
        {"exclusiveMinimum": 3},
        {"exclusiveMinimum": 2},
        "EXCLUSIVE_MINIMUM_INCREASED",
        "#/exclusiveMinimum",
    ),
    "a number is no multiple": ({"multipleOf": 2}, INTEGER, "MULTIPLE_OF_ADDED", "#/multipleOf"),
    "a multiple is too small": ({"multipleOf": 4}, {"multipleOf": 2}, "MULTIPLE_OF_EXPANDED", "#/multipleOf"),
    "multiples differ": ({"multipleOf": 3}, {"multipleOf": 2}, "MULTIPLE_OF_CHANGED", "#/multipleOf"),
    "a value is removed": ({"enum": ["a"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_NARROWED", "#/enum"),
    "a value is replaced": ({"enum": ["a", "c"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_CHANGED", "#/enum"),
    "a constant changed": ({"const": 1}, {"const": True}, "ENUM_ARRAY_CHANGED", "#/const"),
    "values are listed": ({"enum": ["a"]}, STRING, "ENUM_ARRAY_NARROWED", "#/enum"),
    "a property is added to an open model": (
        an_object({"a": STRING, "b": STRING}),
        an_object({"a": STRING}),
        "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "#/properties/b",
    ),
    "a required property is added to a closed model": (
        closed({"a": STRING, "b": STRING}, "b"),
        closed({"a": STRING}),
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "#/properties/b",
    ),
    "a property is removed from a closed model": (
        closed({"a": STRING}),
        closed({"a": STRING, "b/c": STRING}),
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "#/properties/b~1c",
    ),
    "an added property is not covered": (
        an_object({"b": INTEGER}, additionalProperties=STRING),
        an_object({}, additionalProperties=STRING),
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "#/properties/b",
    ),
    "a removed property is not covered": (
        an_object({}, additionalProperties=STRING),
        an_object({"b": INTEGER}, additionalProperties=STRING),
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "#/properties/b",
    ),
    "a property became required": (
        an_object({"a": STRING}, "a"),
        an_object({"a": STRING}),
        "REQUIRED_ATTRIBUTE_ADDED",
        "#/required/a",
    ),
    "an open model is closed": (
        closed({"a": STRING}),
        an_object({"a": STRING}),
        "ADDITIONAL_PROPERTIES_REMOVED",
        "#/additionalProperties",
    ),
    "an open model is partially closed": (
        an_object({"a": STRING}, additionalProperties=STRING),
        an_object({"a": STRING}),
        "ADDITIONAL_PROPERTIES_NARROWED",
        "#/additionalProperties",
    ),
    "a property inside changed": (
        an_object({"a": an_object({"b": INTEGER})}),
        an_object({"a": an_object({"b": STRING})}),
        "TYPE_CHANGED",
        "#/properties/a/properties/b/type",
    ),
    "a dependency is added": (
        an_object({}, dependencies={"a": ["b"]}),
        an_object({}),
        "DEPENDENCY_ARRAY_ADDED",
        "#/dependencies/a",
    ),
    "a dependency grew": (
        an_object({}, dependencies={"a": ["b", "c"]}),
        an_object({}, dependencies={"a": ["b"]}),
        "DEPENDENCY_ARRAY_EXTENDED",
        "#/dependencies/a",
    ),
    "a schema is applied beside a property": (
        an_object({}, dependencies={"a": {"minProperties": 2}}),
        an_object({}),
        "DEPENDENCY_SCHEMA_ADDED",
        "#/dependencies/a",
    ),
    "fewer properties are taken": (
        {"type": "object", "maxProperties": 2},
        {"type": "object", "maxProperties": 3},
        "MAX_PROPERTIES_DECREASED",
        "#/maxProperties",
    ),
    "items changed": ({"items": INTEGER}, {"type": "array", "items": NUMBER}, "TYPE_NARROWED", "#/items/type"),
    "fewer items are taken": ({"maxItems": 1}, {"type": "array", "maxItems": 2}, "MAX_ITEMS_DECREASED", "#/maxItems"),
    "items have to be there": ({"minItems": 1}, {"type": "array"}, "MIN_ITEMS_ADDED", "#/minItems"),
    "items have to differ": ({"uniqueItems": True}, {"type": "array"}, "UNIQUE_ITEMS_ADDED", "#/uniqueItems"),
    "an item is added to an open tuple": (
        {"items": [STRING, INTEGER]},
        {"type": "array", "items": [STRING]},
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
        "#/items/1",
    ),
    "an item is removed from a closed tuple": (
        {"items": [STRING], "additionalItems": False},
        {"type": "array", "items": [STRING, INTEGER], "additionalItems": False},
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "#/items/1",
    ),
    "an open tuple is closed": (
        {"items": [STRING], "additionalItems": False},
        {"type": "array", "items": [STRING]},
        "ADDITIONAL_ITEMS_REMOVED",
        "#/additionalItems",
    ),
    "an alternative is removed": ({"oneOf": [STRING]}, {"oneOf": [STRING, NULL]}, "SUM_TYPE_NARROWED", "#/oneOf"),
    "alternatives are removed at once": (STRING, {"anyOf": [STRING, NULL]}, "SUM_TYPE_NARROWED", "#/"),
    "an alternative changed": (
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [STRING, NULL]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        "#/anyOf",
    ),
    "two alternatives take the same value": (
        {"oneOf": [NUMBER, INTEGER]},
        INTEGER,
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        "#/oneOf",
    ),
    "a schema of allOf is added": (
        {"allOf": [STRING, {"maxLength": 3}]},
        {"allOf": [STRING]},
        "PRODUCT_TYPE_EXTENDED",
        "#/allOf/1",
    ),
    "false takes nothing": (False, STRING, "TYPE_CHANGED", "#/"),
    "a definition changed": (
        {"definitions": {"d": INTEGER}, "properties": {"a": {"$ref": "#/definitions/d"}}},
        {"definitions": {"d": NUMBER}, "properties": {"a": {"$ref": "#/definitions/d"}}},
        "TYPE_NARROWED",
        "#/properties/a/type",
    ),
}
"""Reader, writer, kind and path of the one difference of changes that are not compatible, by the claim."""

DOUBTED = {
    "not": ({"not": INTEGER}, {"not": STRING}, "not at #/not"),
    "if": ({"if": STRING, "then": {"minLength": 2}}, {"if": STRING, "then": {"minLength": 1}}, "if at #/if"),
    "contains": ({"contains": STRING}, {"type": "array"}, "contains at #/contains"),
    "pattern": ({"pattern": "^ab"}, {"type": "string", "pattern": "^abc"}, "pattern at #/pattern"),
    "patternProperties": (
        an_object({}, patternProperties={"(a|b)": STRING}),
        an_object({}, patternProperties={"(b|a)": STRING}),
        "patternProperties at #/patternProperties/(a|b)",
    ),
    "oneOf": (
        {"oneOf": [an_object({"a": STRING}), an_object({"b": STRING})]},
        an_object({"a": STRING}),
        "oneOf at #/oneOf",
    ),
    "oneOf with a shared limit": (
        {"oneOf": [{"type": "number", "maximum": 5}, {"type": "number", "minimum": 5}]},
        {"type": "number", "maximum": 5},
        "oneOf at #/oneOf",
    ),
    "unevaluatedProperties": (
        {"$schema": LATEST, "allOf": [an_object({"a": STRING})], "unevaluatedProperties": False},
        {"$schema": LATEST, "allOf": [closed({"a": STRING})]},
        "unevaluatedProperties at #/unevaluatedProperties",
    ),
    "$dynamicRef": (
        {"$schema": LATEST, "$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}},
        {"$schema": LATEST, "properties": {"a": STRING}},
        "$dynamicRef at #/properties/a/$dynamicRef",
    ),
    "a reference to itself": ({"$ref": "#"}, STRING, "$ref at #"),
    "a reference to itself in a sum": ({"anyOf": [{"$ref": "#"}, STRING]}, INTEGER, "$ref at #/anyOf/0"),
    "another dialect": ({"$schema": "http://example/mine", "type": "string"}, STRING, "$schema at #/$schema"),
}
"""Reader, writer and what is named of changes that cannot be judged."""


@pytest.mark.parametrize("claim", COMPATIBLE)
def test_compatible(claim: str) -> None:
    assert kinds(*COMPATIBLE[claim]) == []


@pytest.mark.parametrize("claim", REFUSED)
def test_refused(claim: str) -> None:
    reader, writer, kind, path = REFUSED[claim]
    assert kinds(reader, writer) == [(kind, path)]


@pytest.mark.parametrize("claim", DOUBTED)
def test_doubted(claim: str) -> None:
    reader, writer, named = DOUBTED[claim]
    with pytest.raises(CannotCompare) as refused:
        kinds(reader, writer)
    assert f"cannot compare {named}. " in str(refused.value)
    assert "level NONE registers the schema" in str(refused.value)
    assert kinds(reader, reader) == []


def test_a_difference_is_told_in_a_sentence() -> None:
    (found,) = read(closed({"a": STRING}, "a")).differences(read(closed({"a": STRING})))
    assert found.told == "The reader requires the property 'a', and the writer does not."


def test_a_certain_difference_is_told_beside_what_cannot_be_judged() -> None:
    reader, writer = {**INTEGER, "not": {"const": 1}}, {**NUMBER, "not": {"const": 2}}
    assert kinds(reader, writer) == [("TYPE_NARROWED", "#/type")]


def tree(value: Any) -> dict[str, Any]:
    """A schema that refers to itself."""
    node = an_object({"value": value, "children": {"type": "array", "items": {"$ref": "#/definitions/node"}}})
    return {"definitions": {"node": node}, "$ref": "#/definitions/node"}


def test_a_schema_that_refers_to_itself_is_compared() -> None:
    assert kinds(tree(NUMBER), tree(INTEGER)) == []
    found = kinds(tree(INTEGER), tree(NUMBER))
    assert ("TYPE_NARROWED", "#/properties/value/type") in found
    assert {kind for kind, _ in found} == {"TYPE_NARROWED"}


@pytest.mark.parametrize("draft", [DRAFT_4, *DRAFTS])
def test_every_draft_is_read_and_compared(draft: str) -> None:
    reader, writer = ({"$schema": draft, "minimum": 1, "maximum": most, "type": "number"} for most in (3, 4))
    assert kinds(reader, writer) == [("MAXIMUM_DECREASED", "#/maximum")]
    assert kinds(writer, reader) == []


def test_a_limit_of_draft_4_is_exclusive_by_a_second_keyword() -> None:
    inclusive = {"$schema": DRAFT_4, "type": "number", "minimum": 1}
    exclusive = {**inclusive, "exclusiveMinimum": True}
    assert kinds(inclusive, exclusive) == []
    assert kinds(exclusive, inclusive) == [("MINIMUM_INCREASED", "#/minimum")]


def test_a_keyword_of_a_later_draft_says_nothing() -> None:
    assert kinds({"$schema": DRAFT_4, "const": 1}, {"$schema": DRAFT_4}) == []
    assert kinds({"const": 1}, {}) == [("ENUM_ARRAY_NARROWED", "#/const")]

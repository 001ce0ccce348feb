"""JSON Schemas are compared by the published rules of Confluent's registry: `SchemaDiff` and its fellows for strings,
numbers, enumerations, objects, arrays, combined schemas and `not`."""

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
    "a divisor is taken": ({"multipleOf": 5}, {"type": "integer", "multipleOf": 10}),
    "a fraction divides another": ({"multipleOf": 0.5}, {"type": "number", "multipleOf": 1.5}),
    "a value is added to an enumeration": ({"enum": ["a", "b", "c"]}, {"enum": ["b", "a"]}),
    "an enumeration of a type becomes the type": (STRING, {"type": "string", "enum": ["a"]}),
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
    "allOf becomes anyOf": ({"anyOf": [STRING, INTEGER]}, {"allOf": [STRING]}),
    "allOf of one schema becomes oneOf": ({"oneOf": [STRING, INTEGER]}, {"allOf": [STRING]}),
    "anyOf of one schema becomes allOf of one": ({"allOf": [STRING]}, {"anyOf": [STRING]}),
    "anyOf of one schema becomes oneOf of several": ({"oneOf": [NUMBER, STRING]}, {"anyOf": [STRING]}),
    "a type becomes allOf of one schema": ({"allOf": [STRING]}, STRING),
    "allOf says the same twice": ({"allOf": [STRING, STRING]}, {"allOf": [STRING]}),
    "allOf changes its order": (
        {"allOf": [{"maxLength": 5}, {"enum": ["a"]}]},
        {"allOf": [{"enum": ["a"]}, {"maxLength": 5}]},
    ),
    "oneOf becomes a list of types": ({"type": ["string", "null"]}, {"oneOf": [NULL, STRING]}),
    "a list of types grows": ({"type": ["integer", "string", "null"]}, {"type": ["string", "null"]}),
    "alternatives change their order": ({"anyOf": [STRING, NUMBER]}, {"anyOf": [NUMBER, STRING]}),
    "an alternative that is there twice counts once": ({"oneOf": [STRING]}, {"oneOf": [STRING, STRING]}),
    "alternatives that take the same value count as others": ({"oneOf": [NUMBER, INTEGER]}, INTEGER),
    "alternatives find partners whatever is tried first": (
        {"anyOf": [NUMBER, INTEGER]},
        {"anyOf": [INTEGER, {"type": "number", "maximum": 1}]},
    ),
    "an alternative with another constant is added": (cases("a", "b", "c"), cases("a", "b")),
    "a schema of allOf is taken away": ({"allOf": [STRING]}, {"allOf": [STRING, {"maxLength": 3}]}),
    "two schemas of allOf are one": ({"type": "string", "maxLength": 3}, {"allOf": [STRING, {"maxLength": 3}]}),
    "not stays": ({"not": {"pattern": "a"}}, {"not": {"pattern": "a"}}),
    "not is taken away": ({}, {"not": STRING}),
    "not refuses less": ({"not": INTEGER}, {"not": NUMBER}),
    "a condition stays": ({"if": STRING, "then": {"minLength": 1}}, {"if": STRING, "then": {"minLength": 1}}),
    "a condition changes": ({"if": STRING, "then": {"minLength": 2}}, {"if": STRING, "then": {"minLength": 1}}),
    "contains is no difference in draft 7": ({"contains": STRING}, {"type": "array"}),
    "names of properties are not compared": ({"propertyNames": {"maxLength": 1}}, {"type": "object"}),
    "schemas of patterns are not compared": (
        an_object({}, patternProperties={"(a|b)": STRING}),
        an_object({}, patternProperties={"(b|a)": INTEGER}),
    ),
    "a schema of unevaluated items is taken away": (
        {"$schema": LATEST, "type": "array"},
        {"$schema": LATEST, "type": "array", "unevaluatedItems": False},
    ),
    "an added property is covered by unevaluatedProperties": (
        {"$schema": LATEST, **an_object({"a": NUMBER}, unevaluatedProperties=INTEGER)},
        {"$schema": LATEST, **an_object({}, unevaluatedProperties=INTEGER)},
    ),
    "a reference to itself in a sum": ({"anyOf": [{"$ref": "#"}, STRING]}, INTEGER),
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
    "a number is no integer": (INTEGER, NUMBER, "TYPE_NARROWED", "#/"),
    "a string is no number": (NUMBER, STRING, "TYPE_CHANGED", "#/"),
    "null is not taken any more": (STRING, {"type": ["string", "null"]}, "TYPE_CHANGED", "#/"),
    "an enumeration without a type is no type": (STRING, {"enum": ["a"]}, "TYPE_CHANGED", "#/"),
    "a constant is no enumeration": ({"enum": [None, 1]}, {"const": None}, "TYPE_CHANGED", "#/"),
    "a type is an enumeration, too": ({"type": "string", "enum": ["a"]}, STRING, "TYPE_CHANGED", "#/"),
    "a format makes a number a string, too": ({**INTEGER, "format": "int64"}, INTEGER, "TYPE_CHANGED", "#/"),
    "a limit becomes inclusive": ({"minimum": 1}, {"exclusiveMinimum": 1}, "MINIMUM_ADDED", "#/minimum"),
    "not refuses another type": ({"not": INTEGER}, {"not": STRING}, "NOT_TYPE_EXTENDED", "#/not"),
    "not is no type": ({"not": STRING}, INTEGER, "TYPE_CHANGED", "#/"),
    "a pattern changes": ({"pattern": "^ab"}, {"pattern": "^abc"}, "PATTERN_CHANGED", "#/pattern"),
    "a schema of items is added": ({"items": STRING}, {"type": "array"}, "SCHEMA_ADDED", "#/items"),
    "contains is a count since 2019-09": (
        {"$schema": LATEST, "contains": STRING},
        {"$schema": LATEST, "type": "array"},
        "MIN_CONTAINS_ADDED",
        "#/minContains",
    ),
    "unevaluated properties are refused": (
        {"$schema": LATEST, **an_object({}, unevaluatedProperties=False)},
        {"$schema": LATEST, **an_object({})},
        "UNEVALUATED_PROPERTIES_REMOVED",
        "#/unevaluatedProperties",
    ),
    "unevaluated items get a schema": (
        {"$schema": LATEST, "type": "array", "unevaluatedItems": STRING},
        {"$schema": LATEST, "type": "array"},
        "UNEVALUATED_ITEMS_NARROWED",
        "#/unevaluatedItems",
    ),
    "a schema of unevaluated items changes": (
        {"$schema": LATEST, "type": "array", "unevaluatedItems": STRING},
        {"$schema": LATEST, "type": "array", "unevaluatedItems": INTEGER},
        "TYPE_CHANGED",
        "#/unevaluatedItems",
    ),
    "anyOf of one schema becomes allOf of two": (
        {"allOf": [NUMBER, STRING]},
        {"anyOf": [STRING]},
        "COMBINED_TYPE_CHANGED",
        "#/",
    ),
    "a type becomes allOf of two schemas": ({"allOf": [NUMBER, STRING]}, STRING, "TYPE_CHANGED", "#/"),
    "anyOf of two schemas becomes oneOf": (
        {"oneOf": [STRING]},
        {"anyOf": [NUMBER, STRING]},
        "COMBINED_TYPE_CHANGED",
        "#/",
    ),
    "a list of types is no oneOf": (
        {"oneOf": [NULL, STRING]},
        {"type": ["string", "null"]},
        "COMBINED_TYPE_CHANGED",
        "#/",
    ),
    "two schemas of allOf need two alternatives": (
        {"anyOf": [STRING, INTEGER]},
        {"allOf": [STRING, {"maxLength": 3}]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        "#/",
    ),
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
        "#/properties/a/properties/b",
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
    "items changed": ({"items": INTEGER}, {"type": "array", "items": NUMBER}, "TYPE_NARROWED", "#/items"),
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
    "an alternative is removed": ({"oneOf": [STRING]}, {"oneOf": [STRING, NULL]}, "SUM_TYPE_NARROWED", "#/"),
    "alternatives are removed at once": (STRING, {"anyOf": [STRING, NULL]}, "TYPE_CHANGED", "#/"),
    "an alternative changed": (
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [STRING, NULL]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        "#/",
    ),
    "a schema of allOf is added": (
        {"allOf": [STRING, {"maxLength": 3}]},
        {"allOf": [STRING]},
        "PRODUCT_TYPE_EXTENDED",
        "#/",
    ),
    "false takes nothing": (False, STRING, "TYPE_CHANGED", "#/"),
    "a definition changed": (
        {"definitions": {"d": INTEGER}, "properties": {"a": {"$ref": "#/definitions/d"}}},
        {"definitions": {"d": NUMBER}, "properties": {"a": {"$ref": "#/definitions/d"}}},
        "TYPE_NARROWED",
        "#/properties/a",
    ),
}
"""Reader, writer, kind and path of the one difference of changes that are not compatible, by the claim."""

UNCOVERED = {
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
    "an added item is not covered": (
        {"items": [STRING, INTEGER], "additionalItems": STRING},
        {"items": [STRING], "additionalItems": STRING},
        "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "#/items/1",
    ),
    "a removed item is not covered": (
        {"$schema": LATEST, "prefixItems": [STRING], "items": STRING},
        {"$schema": LATEST, "prefixItems": [STRING, INTEGER], "items": STRING},
        "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "#/items/1",
    ),
}
"""Reader, writer, kind and path of what the other side's schema for the rest does not take, by the claim."""

DOUBTED = {
    "patternProperties": (
        an_object({}, patternProperties={"(a|b)": STRING}),
        an_object({"b": STRING}),
        "patternProperties",
    ),
    "$dynamicRef": (
        {"$schema": LATEST, "$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}},
        {"$schema": LATEST, "properties": {"a": STRING}},
        "$dynamicRef",
    ),
    "a reference to itself": ({"$ref": "#"}, STRING, "$ref"),
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


@pytest.mark.parametrize("claim", UNCOVERED)
def test_what_is_not_covered_is_named_with_the_reason(claim: str) -> None:
    reader, writer, kind, path = UNCOVERED[claim]
    assert kinds(reader, writer) == [("TYPE_CHANGED", path), (kind, path)]


@pytest.mark.parametrize("claim", DOUBTED)
def test_doubted(claim: str) -> None:
    reader, writer, named = DOUBTED[claim]
    with pytest.raises(CannotCompare) as refused:
        kinds(reader, writer)
    assert f"cannot compare {named}" in str(refused.value)
    assert "level NONE registers the schema" in str(refused.value)
    assert kinds(reader, reader) == []


def test_a_difference_is_told_in_a_sentence() -> None:
    (found,) = read(closed({"a": STRING}, "a")).differences(read(closed({"a": STRING})))
    assert found.told == "The reader requires the property 'a', and the writer does not."


def tree(value: Any) -> dict[str, Any]:
    """A schema that refers to itself."""
    node = an_object({"value": value, "children": {"type": "array", "items": {"$ref": "#/definitions/node"}}})
    return {"definitions": {"node": node}, "$ref": "#/definitions/node"}


def test_a_schema_that_refers_to_itself_is_compared() -> None:
    assert kinds(tree(NUMBER), tree(INTEGER)) == []
    found = kinds(tree(INTEGER), tree(NUMBER))
    assert ("TYPE_NARROWED", "#/properties/value") in found
    assert {kind for kind, _ in found} == {"TYPE_NARROWED"}


@pytest.mark.parametrize("draft", [DRAFT_4, *DRAFTS])
def test_every_draft_is_read_and_compared(draft: str) -> None:
    reader, writer = ({"$schema": draft, "minimum": 1, "maximum": most, "type": "number"} for most in (3, 4))
    assert kinds(reader, writer) == [("MAXIMUM_DECREASED", "#/maximum")]
    assert kinds(writer, reader) == []


def test_number_schema_diff_does_not_compare_the_second_keyword_of_an_exclusive_limit_of_draft_4() -> None:
    inclusive = {"$schema": DRAFT_4, "type": "number", "minimum": 1}
    exclusive = {**inclusive, "exclusiveMinimum": True}
    assert kinds(inclusive, exclusive) == []
    assert kinds(exclusive, inclusive) == []


def test_a_keyword_of_a_later_draft_says_nothing() -> None:
    assert kinds({"$schema": DRAFT_4, "const": 1}, {"$schema": DRAFT_4}) == []
    assert kinds({"const": 1}, {}) == [("TYPE_CHANGED", "#/")]

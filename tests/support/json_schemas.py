"""Random JSON Schemas, for comparing them with each other."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

NAMES = ["a", "b", "x-c"]
VALUES = [
    None,
    True,
    False,
    0,
    1,
    2,
    5,
    1.5,
    "",
    "a",
    "ab",
    "abcd",
    [],
    [1],
    [1, 1],
    ["a", 2],
    {},
    {"a": 1},
    {"a": "a"},
]
DRAFTS = [
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]


def random_document(random: Random, draft: str) -> dict[str, Any]:
    """A schema with two definitions, to which it and they may refer."""
    document = random_schema(random, 3)
    if random.random() < 0.7:
        document = {"type": "object", **_object_keyword(random, 2), **random.choice([{}, {}, _lone_keyword(random)])}
    elif not isinstance(document, dict):
        document = {"allOf": [document]}
    definitions = {name: random_schema(random, 2) for name in ("one", "two")}
    return {"$schema": draft, **document, "definitions": definitions}


def random_schema(random: Random, levels: int) -> Any:
    """A schema with schemas inside it on that many levels."""
    kind = random.random()
    if kind < 0.08:
        return random.choice([True, {}, {"description": "any"}, False])
    schema: dict[str, Any] = {}
    if kind < 0.8:
        types = ["string", "integer", "number", "object", "array", "null", "boolean"]
        schema["type"] = random.choice(types) if random.random() < 0.7 else random.sample(types, 2)
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        schema.update(random.choice(LEAVES)(random) if levels == 0 else random.choice(ALL)(random, levels - 1))
    return schema


def _number_keyword(random: Random) -> dict[str, Any]:
    keyword = random.choice(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
    return {keyword: random.choice([1, 2, 4, 5])}


def _count_keyword(random: Random) -> dict[str, Any]:
    kind, limits = random.choice([("Length", (0, 1, 2)), ("Items", (0, 1, 2)), ("Properties", (0, 1, 2))])
    return {random.choice(["min", "max"]) + kind: random.choice(limits)}


def _values_keyword(random: Random) -> dict[str, Any]:
    if random.random() < 0.3:
        return {"const": random.choice(VALUES)}
    return {"enum": random.sample(VALUES, random.choice([1, 2, 4]))}


def _lone_keyword(random: Random) -> dict[str, Any]:
    return random.choice(
        [
            {"uniqueItems": True},
            {"required": random.sample(NAMES, random.choice([1, 2]))},
            {"dependentRequired": {"a": ["b"]}},
            {"dependencies": {"a": ["b"]}},
            {"pattern": random.choice(["^a", "b$"])},
            {"format": "date"},
        ]
    )


LEAVES = [_number_keyword, _count_keyword, _values_keyword, _lone_keyword]


def _leaf(random: Random, levels: int) -> dict[str, Any]:
    return random.choice(LEAVES)(random)


def _object_keyword(random: Random, levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"properties": _named(random, levels, NAMES)}
    if random.random() < 0.5:
        found["additionalProperties"] = random.choice([False, False, True, random_schema(random, levels)])
    if random.random() < 0.15:
        found["patternProperties"] = _named(random, levels, ["^x-", "a", "(b|a)$"])
    if random.random() < 0.1:
        found["unevaluatedProperties"] = random.choice([False, random_schema(random, levels)])
    if random.random() < 0.1:
        found["propertyNames"] = random.choice([{"maxLength": 1}, {"enum": ["a", "b"]}, True])
    if random.random() < 0.1:
        found[random.choice(["dependencies", "dependentSchemas"])] = _named(random, levels, NAMES)
    return found


def _named(random: Random, levels: int, names: list[str]) -> dict[str, Any]:
    return {name: random_schema(random, levels) for name in random.sample(names, random.choice([1, 1, 2]))}


def _array_keyword(random: Random, levels: int) -> dict[str, Any]:
    row = [random_schema(random, levels) for _ in range(random.choice([1, 2]))]
    one = random_schema(random, levels)
    return random.choice(
        [
            {"items": one},
            {"items": one},
            {"items": row},
            {"items": row, "additionalItems": random.choice([False, one])},
            {"prefixItems": row},
            {"prefixItems": row, "items": random.choice([False, one])},
            {"contains": one},
            {"prefixItems": row, "unevaluatedItems": False},
        ]
    )


def _combined_keyword(random: Random, levels: int) -> dict[str, Any]:
    row = [random_schema(random, levels) for _ in range(random.choice([1, 2, 3]))]
    one = random_schema(random, levels)
    return random.choice(
        [
            {"anyOf": row},
            {"oneOf": row},
            {"allOf": row},
            {"not": one},
            {"if": one, "then": row[0], "else": row[-1]},
            {"$ref": random.choice(["#/definitions/one", "#/definitions/two"])},
            {"oneOf": [{"type": "null"}, {"type": "string"}]},
        ]
    )


ALL = [_leaf, _leaf, _object_keyword, _object_keyword, _array_keyword, _combined_keyword]


def fitted(document: Any, draft: str) -> Any:
    """A document without what its draft refuses, and without what the library `jsonschema` judges otherwise than the
    specification: `unevaluatedProperties` where a schema is under `additionalProperties`, and `unevaluatedItems` in
    2019-09."""
    left_out = {"unevaluatedProperties"} if '"additionalProperties": {' in json.dumps(document) else set()
    left_out |= {"unevaluatedItems"} if draft == DRAFTS[2] else set()
    definitions = _fitted(document["definitions"], draft, {*left_out, "$ref"})  # a reference without end is no schema
    return {**_fitted(document, draft, left_out), "definitions": definitions}


def _fitted(schema: Any, draft: str, left_out: set[str]) -> Any:
    if isinstance(schema, list):
        return [_fitted(inner, draft, left_out) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: _fitted_items(inner, draft, left_out) if keyword == "items" else _fitted(inner, draft, left_out)
        for keyword, inner in schema.items()
        if keyword not in left_out
    }


def _fitted_items(items: Any, draft: str, left_out: set[str]) -> Any:
    """A list is under `prefixItems` since 2020-12; before, the library fails at true and false beside
    `additionalItems`."""
    if draft == DRAFTS[3]:
        return True if isinstance(items, list) else _fitted(items, draft, left_out)
    return ({} if items else {"not": {}}) if isinstance(items, bool) else _fitted(items, draft, left_out)


def changed(random: Random, document: Any, draft: str) -> Any:
    """A schema like another one, with some keywords taken out, put in, or given another value."""
    document = copy.deepcopy(document)
    inside = [schema for schema in _schemas(document) if schema is not document or random.random() < 0.6]
    for schema in random.sample(inside, min(len(inside), random.choice([1, 1, 2, 3]))):
        kept = {"$schema": schema["$schema"], "definitions": schema["definitions"]} if "$schema" in schema else {}
        change = random.random()
        if change < 0.6:
            random.choice(SMALL_CHANGES)(random, schema)
        elif change < 0.7 and schema:
            schema.pop(random.choice(list(schema)))
        elif change < 0.85:
            schema.update(random.choice(ALL)(random, 1))
        else:
            other = random_schema(random, 1)
            schema.clear()
            schema.update(other if isinstance(other, dict) else {"not": True} if not other else {})
        schema.update(kept)
    return fitted(document, draft)


def _change_required(random: Random, schema: dict[str, Any]) -> None:
    names = set(schema.get("required", ())) ^ {random.choice(NAMES)}
    schema.pop("required", None)
    if names:
        schema["required"] = sorted(names)


def _change_other_properties(random: Random, schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = random.choice([False, True, random_schema(random, 1)])


def _change_properties(random: Random, schema: dict[str, Any]) -> None:
    properties = schema.setdefault("properties", {})
    name = random.choice(NAMES)
    if properties.pop(name, None) is None:
        properties[name] = random_schema(random, 1)


def _change_types(random: Random, schema: dict[str, Any]) -> None:
    types = schema.get("type", "number")
    other = random.choice(["null", "string", "integer", "number", "object"])
    schema["type"] = random.choice([other, sorted({other, *([types] if isinstance(types, str) else types)})])


def _change_values(random: Random, schema: dict[str, Any]) -> None:
    if len(schema.get("enum", ())) > 1 and random.random() < 0.5:
        schema["enum"] = schema["enum"][1:]
    elif "enum" in schema:
        schema["enum"] = [*schema["enum"], "another"]
    else:
        schema.update(_values_keyword(random))


def _change_limits(random: Random, schema: dict[str, Any]) -> None:
    limits = [
        keyword for keyword, value in schema.items() if type(value) is int and keyword not in ("const", "default")
    ]
    for keyword in limits:
        schema[keyword] = max(schema[keyword] + random.choice([-1, 1]), 1)
    if not limits:
        schema.update(random.choice([_number_keyword, _count_keyword])(random))


def _change_alternatives(random: Random, schema: dict[str, Any]) -> None:
    keyword = next((one for one in ("anyOf", "oneOf", "allOf", "prefixItems") if one in schema), "anyOf")
    row = schema.setdefault(keyword, [{"type": "object"}])
    if len(row) > 1 and random.random() < 0.5:
        row.pop()
    else:
        row.append(random_schema(random, 1))


SMALL_CHANGES = [
    _change_required,
    _change_other_properties,
    _change_properties,
    _change_types,
    _change_values,
    _change_limits,
    _change_alternatives,
]


def _schemas(schema: Any) -> list[dict[str, Any]]:
    """The schemas in a document, by the keywords that this module writes."""
    if not isinstance(schema, dict):
        return []
    found = [schema]
    for keyword, inner in schema.items():
        if keyword in ("properties", "patternProperties", "definitions", "dependencies", "dependentSchemas"):
            found += [deeper for one in inner.values() for deeper in _schemas(one)]
        elif keyword not in ("enum", "const", "dependentRequired", "default"):
            found += [deeper for one in (inner if isinstance(inner, list) else [inner]) for deeper in _schemas(one)]
    return found

"""The drafts of JSON Schema: which keywords each one has, and where a schema holds other schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import jsonschema
import referencing.jsonschema
from jsonschema.protocols import Validator
from referencing import Specification


class Draft(NamedTuple):
    """One draft of the specification."""

    number: int
    """4, 6 or 7, and 2019 and 2020 for the drafts that are named after a month."""
    uri: str
    """What `$schema` names, without the empty fragment."""
    validator: type[Validator]
    specification: Specification[Any]

    @property
    def identifier(self) -> str:
        """The keyword that names a schema by a URI."""
        return "id" if self.number == 4 else "$id"

    @property
    def hides_beside_ref(self) -> bool:
        """Whether the keywords beside `$ref` have no meaning."""
        return self.number <= 7

    def knows(self, keyword: str) -> bool:
        """Whether the keyword says something about values in this draft. An unknown keyword is a note."""
        first, last = KEYWORDS.get(keyword, NEVER)
        return first <= self.number <= last


DRAFTS: Final = (
    Draft(4, "http://json-schema.org/draft-04/schema", jsonschema.Draft4Validator, referencing.jsonschema.DRAFT4),
    Draft(6, "http://json-schema.org/draft-06/schema", jsonschema.Draft6Validator, referencing.jsonschema.DRAFT6),
    Draft(7, "http://json-schema.org/draft-07/schema", jsonschema.Draft7Validator, referencing.jsonschema.DRAFT7),
    Draft(
        2019,
        "https://json-schema.org/draft/2019-09/schema",
        jsonschema.Draft201909Validator,
        referencing.jsonschema.DRAFT201909,
    ),
    Draft(
        2020,
        "https://json-schema.org/draft/2020-12/schema",
        jsonschema.Draft202012Validator,
        referencing.jsonschema.DRAFT202012,
    ),
)

DEFAULT_DRAFT: Final = DRAFTS[2]
"""The draft of a schema without `$schema`, as in Confluent's registry and serializers."""

FIRST: Final = 4
LAST: Final = 2020
ALWAYS: Final = (FIRST, LAST)
NEVER: Final = (LAST + 1, FIRST)

KEYWORDS: Final[dict[str, tuple[int, int]]] = {
    **dict.fromkeys(("$ref", "type", "enum", "allOf", "anyOf", "oneOf", "not"), ALWAYS),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), ALWAYS),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), ALWAYS),
    "format": (FIRST, 7),
    **dict.fromkeys(("items", "minItems", "maxItems", "uniqueItems"), ALWAYS),
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties", "required"), ALWAYS),
    **dict.fromkeys(("minProperties", "maxProperties"), ALWAYS),
    "dependencies": (FIRST, 7),
    "additionalItems": (FIRST, 2019),
    **dict.fromkeys(("const", "contains", "propertyNames"), (6, LAST)),
    **dict.fromkeys(("if", "then", "else"), (7, LAST)),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "minContains", "maxContains"), (2019, LAST)),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), (2019, LAST)),
    "$recursiveRef": (2019, 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), (2020, LAST)),
}
"""The keywords that decide whether a value is valid, with the first and the last draft that has them. As in Confluent's
registry, `format` is one of them up to draft 7, as it makes a schema without `type` one of strings."""

ONE_SCHEMA: Final = (
    *("additionalProperties", "additionalItems", "items", "not", "propertyNames", "contains", "if", "then", "else"),
    *("unevaluatedProperties", "unevaluatedItems", "contentSchema"),
)
SCHEMAS_IN_A_ROW: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
SCHEMAS_BY_NAME: Final = (
    *("properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies"),
)


def is_schema(value: object) -> bool:
    """Whether a value has the shape of a schema: an object, true or false."""
    return isinstance(value, (dict, bool))


def draft_of(uri: object) -> Draft | None:
    """The draft that a `$schema` names; None for another URI. `https` for `http` and an empty fragment are taken."""
    named = str(uri).rstrip("#").split("://")[-1]
    return next((draft for draft in DRAFTS if draft.uri.split("://")[-1] == named), None)


def places(schema: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Gives the schemas directly inside a schema, each with its way there, such as ("properties", "id").

    Keywords of other drafts are taken, too: `definitions` may be referred to in each of them.
    """
    for keyword in ONE_SCHEMA:
        if is_schema(schema.get(keyword)):
            yield (keyword,), schema[keyword]
    for keyword in SCHEMAS_IN_A_ROW:
        row = schema.get(keyword)
        if isinstance(row, list):
            yield from (((keyword, i), inner) for i, inner in enumerate(row) if is_schema(inner))
    for keyword in SCHEMAS_BY_NAME:
        named = schema.get(keyword)
        if isinstance(named, dict):
            yield from (((keyword, name), inner) for name, inner in named.items() if is_schema(inner))

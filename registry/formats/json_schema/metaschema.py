"""Checks one schema of a document against the metaschema of its draft, without the schemas inside it.

The library checks a whole document by calling itself level by level, and compares each two members of a list: a
document that is deep or long would end it. So each schema is checked alone, with its inner schemas and long lists cut
away, and schemas of one shape are checked once.
"""

from __future__ import annotations

import json
from typing import Any, Final

from jsonschema import FormatChecker

from kmini.registry.formats.json_schema.drafts import KEYWORDS, ONE_SCHEMA, SCHEMAS_BY_NAME, SCHEMAS_IN_A_ROW, Draft

TEXTS: Final = ("title", "description", "$comment", "pattern", "format", "$ref", "$dynamicRef", "$recursiveRef")
"""Keywords that take any text. No pattern is run or read."""
CHECKED: Final = frozenset(
    (
        *KEYWORDS,
        *ONE_SCHEMA,
        *SCHEMAS_IN_A_ROW,
        *SCHEMAS_BY_NAME,
        *TEXTS,
        *(
            "$schema",
            "id",
            "$id",
            "$anchor",
            "$dynamicAnchor",
            "$recursiveAnchor",
            "$vocabulary",
            "default",
            "examples",
        ),
        *("readOnly", "writeOnly", "deprecated", "contentEncoding", "contentMediaType"),
    )
)
"""The keywords that a metaschema says something about."""
LONGEST_MESSAGE: Final = 200


class Metaschema:
    """The metaschema of a draft, and the shapes of schemas that it was found to take."""

    def __init__(self, draft: Draft) -> None:
        validator: Any = draft.validator
        self._validator = validator(validator.META_SCHEMA, format_checker=FormatChecker(()))
        self._taken: set[str] = set()

    def refusal(self, schema: dict[str, Any]) -> str | None:
        """What is wrong with a schema; None if it is right as far as the schemas inside it are."""
        outline = {keyword: _cut(keyword, value) for keyword, value in schema.items() if keyword in CHECKED}
        shape = json.dumps(outline)
        if shape in self._taken:
            return None
        error = next(self._validator.iter_errors(outline), None)
        if error is None:
            self._taken.add(shape)
            return None
        keyword = error.absolute_path[0] if error.absolute_path else ""
        message = error.message if len(error.message) <= LONGEST_MESSAGE else error.message[:LONGEST_MESSAGE] + "…"
        return f"{keyword}: {message}" if keyword else message


def _cut(keyword: str, value: Any) -> Any:
    """The value of a keyword without the schemas inside it, and with the telling part of a long list."""
    if keyword in TEXTS and isinstance(value, str):
        return ""
    if keyword in ("enum", "examples") and isinstance(value, list):
        return value[:1] and [None]
    if keyword in ("const", "default"):
        return None
    if keyword in SCHEMAS_BY_NAME and isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items() if not isinstance(inner, dict)}
    if keyword in ONE_SCHEMA and isinstance(value, dict):
        return {}
    if keyword in SCHEMAS_IN_A_ROW and isinstance(value, list):
        odd = [inner for inner in value if not isinstance(inner, dict)]
        return odd[:1] if odd else value[:1] and [{}]
    if keyword == "dependentRequired" and isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, -1), 1)  # a metaschema tells numbers apart by their sign alone
    return _short(value)


def _short(value: Any) -> Any:
    """A list of names by one member that is wrong in it, if one is: another type, or the same name again."""
    if not isinstance(value, list) or not value:
        return value
    odd = [inner for inner in value if not isinstance(inner, str)]
    if odd:
        return odd[:1]
    return value if len(value) < 10 else value[:1] if len(set(value)) == len(value) else value[:1] * 2

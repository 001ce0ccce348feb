"""JSON Schema in the schema registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from kmini.registry.formats.json_schema.comparison import Comparison, TooManySteps
from kmini.registry.formats.json_schema.conjunction import Conjunction
from kmini.registry.formats.json_schema.documents import Document, parsed, read_document
from kmini.registry.formats.json_schema.drafts import places
from kmini.registry.formats.json_schema.verdict import Verdict
from kmini.registry.formats.schema_format import CannotCompare, Difference, ResolvedReference, Schema, SchemaFormat

REGISTERED_ANYWAY: Final = "The compatibility level NONE registers the schema."


class JsonSchemaFormat(SchemaFormat):
    """JSON Schema of the drafts 4, 6, 7, 2019-09 and 2020-12; without `$schema`, draft 7."""

    name = "JSON"

    def read(self, text: str, references: Sequence[ResolvedReference] = ()) -> JsonSchema:
        """The schema of a text and of what it refers to. No pattern of it is run.

        Raises InvalidSchema if the text is no JSON, is no schema of its draft, refers to what is not there, or is too
        large: see `MOST_CHARACTERS`, `MOST_LEVELS` and `MOST_SCHEMAS` of `json_schema/documents.py`.
        """
        return JsonSchema(read_document(text, references), references)


class JsonSchema(Schema):
    """A JSON Schema that was read."""

    def __init__(self, document: Document, references: Sequence[ResolvedReference]) -> None:
        self._document = document
        self._references = tuple(references)
        self._text = _written(document.contents)

    @property
    def text(self) -> str:
        """The schema as JSON without spaces, its members in the given order."""
        return self._text

    def normalized(self) -> JsonSchema:
        """The schema with the members of objects, and the names under `required` and `type`, in one order."""
        contents = parsed(self._text)
        waiting = [contents]
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, dict):
                for keyword in ("required", "type"):
                    if isinstance(schema.get(keyword), list):
                        schema[keyword].sort()
                waiting += [inner for _, inner in places(schema)]
        return JsonSchemaFormat().read(_written(contents, sort_keys=True), self._references)

    def differences(self, writer: Schema) -> Sequence[Difference]:
        """What keeps readers that use this schema from reading what `writer` wrote, the first 100 of it.

        Paths are JSON pointers as a URI's fragment, as in Confluent's registry: "#/properties/id". They go through
        `$ref` as if its target stood there. Raises CannotCompare.
        """
        if not isinstance(writer, JsonSchema):
            raise TypeError(f"writer is {type(writer).__name__}, expected a JsonSchema")
        if (self._text, self._references) == (writer._text, writer._references):
            return ()
        for document in (self._document, writer._document):
            if document.foreign:
                raise _cannot_compare("$schema", "/$schema", f"{document.foreign}, which is no draft of this registry.")
        verdict = self._compared(writer)
        if not verdict.differences and verdict.doubts:
            raise _cannot_compare(*verdict.doubts[0])
        found = {(difference.kind, difference.path): difference for difference in verdict.differences}
        return tuple(Difference(kind, f"#{path}", told) for kind, path, told in found.values())

    def _compared(self, writer: JsonSchema) -> Verdict:
        """The verdict about the writer's schema. Raises CannotCompare."""
        try:
            characters = len(self._text) + len(writer._text) + sum(map(_length, self._references + writer._references))
            comparison = Comparison(characters, strict=Comparison(characters))
            return comparison.judge(self._document.root, Conjunction([writer._document.root]), "")
        except TooManySteps:
            raise CannotCompare(
                f"The schemas are too large for this registry to compare. {REGISTERED_ANYWAY}"
            ) from None
        except RecursionError:
            raise CannotCompare(f"The schemas are too deep for this registry to compare. {REGISTERED_ANYWAY}") from None


def _length(reference: ResolvedReference) -> int:
    """The characters of what is referred to."""
    return len(reference.text) + sum(map(_length, reference.references))


def _cannot_compare(keyword: str, path: str, reason: str) -> CannotCompare:
    """The refusal of a comparison that depends on a keyword."""
    return CannotCompare(f"This registry cannot compare {keyword} at #{path}. {reason} {REGISTERED_ANYWAY}")


def _written(contents: Any, sort_keys: bool = False) -> str:
    """A JSON value without spaces."""
    return json.dumps(contents, separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)

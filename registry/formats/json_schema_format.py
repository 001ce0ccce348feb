"""JSON Schema in the schema registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kmini.registry.formats.json_schema.comparison import REGISTERED_ANYWAY, compare
from kmini.registry.formats.json_schema.documents import Document, parsed, read_document
from kmini.registry.formats.json_schema.drafts import places
from kmini.registry.formats.schema_format import CannotCompare, Difference, ResolvedReference, Schema, SchemaFormat
from kmini.registry.formats.values import Undecodable
from kmini.web.strict_json import NotJson, read_json


class JsonSchemaFormat(SchemaFormat):
    """JSON Schema of the drafts 4, 6, 7, 2019-09 and 2020-12; without `$schema`, draft 7."""

    name = "JSON"

    def read(self, text: str, references: Sequence[ResolvedReference] = ()) -> JsonSchema:
        """The schema of a text and of what it refers to. No pattern of it is run.

        Raises InvalidSchema if the text is no JSON, is no schema of its draft, refers to what is not there, or is too
        large: see `MOST_CHARACTERS` and `MOST_SCHEMAS` of `json_schema/documents.py` and `MOST_LEVELS` of `values.py`.
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
        """What keeps readers that use this schema from reading what `writer` wrote. Raises CannotCompare."""
        if not isinstance(writer, JsonSchema):
            raise TypeError(f"writer is {type(writer).__name__}, expected a JsonSchema")
        if (self._text, self._references) == (writer._text, writer._references):
            return ()
        for document in (self._document, writer._document):
            if document.foreign:
                raise CannotCompare(
                    f"This registry cannot compare $schema at #/$schema. {document.foreign}, which is no draft of this "
                    f"registry. {REGISTERED_ANYWAY}"
                )
        return compare(self._document.root, writer._document.root)

    def value_of(self, data: bytes, place: list[int]) -> Any:
        """The JSON value. It is not checked by the schema, as serializers check it only where they are told to. Raises
        Undecodable."""
        try:
            return read_json(data)
        except NotJson as problem:
            raise Undecodable(f"The data are no JSON: {problem}.") from None


def _written(contents: Any, sort_keys: bool = False) -> str:
    """A JSON value without spaces."""
    return json.dumps(contents, separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)

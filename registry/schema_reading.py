"""Reading schemas: the format of a type, the schemas that one refers to, and a memory of those that were read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

from kmini.broker.scheduler import in_thread
from kmini.registry.formats.schema_format import InvalidSchema, ResolvedReference, Schema, SchemaFormat
from kmini.registry.registered import Registered
from kmini.registry.registry_errors import INVALID_SCHEMA, UNKNOWN_TYPE
from kmini.registry.schema_content import Reference, SchemaContent

_CLASSES = {
    "AVRO": ("avro_format", "AvroFormat"),
    "JSON": ("json_schema_format", "JsonSchemaFormat"),
    "PROTOBUF": ("protobuf_format", "ProtobufFormat"),
}
"""The module and the class of each."""

NAMES = tuple(_CLASSES)
"""The names of all formats."""


@cache
def known_format(name: str) -> SchemaFormat:
    """The format of a name. Raises KeyError for another one."""
    module, class_name = _CLASSES[name]
    made = getattr(import_module(f"kmini.registry.formats.{module}"), class_name)()
    assert isinstance(made, SchemaFormat)
    return made


FormatOf = Callable[[str], SchemaFormat]
"""Gives the format of a name. Raises KeyError for another one."""

KEPT_SCHEMAS = 64
"""Schemas that are kept after they were read. One of Protobuf takes some 140 KB in memory."""

KEPT_CHARACTERS = 32 * 1024
"""Characters of a schema and what it refers to beyond which it is not kept."""

LONG_CHARACTERS = 8 * 1024
"""Characters of a schema and what it refers to from which on a thread reads it."""

MOST_REFERENCES = 1000
"""Schemas that one schema may refer to, through others included: each place where one is named counts."""

Key = tuple[str, str, tuple[ResolvedReference, ...]]


class SchemaReader:
    """Reads schemas, and keeps the last ones."""

    def __init__(self, format_of: FormatOf = known_format, names: Sequence[str] = NAMES) -> None:
        self._format_of = format_of
        self.names = tuple(names)
        """The types that there are."""
        self._formats: dict[str, SchemaFormat] = {}
        """Those that schemas have needed; a thread imports each."""
        self._kept: OrderedDict[Key, Schema] = OrderedDict()

    async def read(self, content: SchemaContent, registered: Registered) -> Schema:
        """The schema of a content. Raises RegistryError for a text that is none, and for a reference to a version that
        is not registered."""
        if content.type not in self.names:
            raise UNKNOWN_TYPE(type=content.type[:100], types=", ".join(self.names))
        try:
            resolved = _resolved(content.references, registered, [MOST_REFERENCES], ())
            return await self._read((content.type, content.text, resolved))
        except InvalidSchema as error:
            raise INVALID_SCHEMA(type=content.type, details=error) from error
        except RecursionError as error:
            raise INVALID_SCHEMA(type=content.type, details="it is nested too deeply") from error

    async def _read(self, key: Key) -> Schema:
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        size = _size(key[1], key[2])
        if key[0] not in self._formats:
            self._formats[key[0]] = await in_thread(self._format_of, key[0])
        read = self._formats[key[0]].read
        schema = read(key[1], key[2]) if size < LONG_CHARACTERS else await in_thread(read, key[1], key[2])
        if size <= KEPT_CHARACTERS:
            self._kept[key] = schema
            if len(self._kept) > KEPT_SCHEMAS:
                self._kept.popitem(last=False)
        return schema


def latest_resolved(references: Sequence[Reference], registered: Registered) -> tuple[Reference, ...]:
    """References with the number of a version where they name the latest one. Raises InvalidSchema."""
    found = []
    for reference in references:
        if reference.version < 0:
            latest = registered.latest(reference.subject)
            if latest is None:
                raise _missing(reference)
            reference = reference._replace(version=latest.version)
        found.append(reference)
    return tuple(found)


def _resolved(
    references: Sequence[Reference], registered: Registered, left: list[int], above: tuple[tuple[str, int], ...]
) -> tuple[ResolvedReference, ...]:
    """What schemas are referred to, and what they refer to in turn. `left` has the number of references that may
    follow, `above` the versions from the first one down to this. Raises InvalidSchema."""
    found = []
    for reference in references:
        place = (reference.subject, reference.version)
        version = registered.version(*place)
        if version is None:
            raise _missing(reference)
        left[0] -= 1
        if place in above or left[0] < 0:
            told = "refers to itself" if place in above else f"leads to more than {MOST_REFERENCES} references"
            raise InvalidSchema(f"the reference to subject {place[0]!r} and version {place[1]} {told}")
        content = version.content
        inner = _resolved(content.references, registered, left, (*above, place))
        found.append(ResolvedReference(reference.name, content.text, inner))
    return tuple(found)


def _missing(reference: Reference) -> InvalidSchema:
    return InvalidSchema(f'No schema reference found for subject "{reference.subject}" and version {reference.version}')


def _size(text: str, references: Sequence[ResolvedReference]) -> int:
    return len(text) + sum(_size(reference.text, reference.references) for reference in references)

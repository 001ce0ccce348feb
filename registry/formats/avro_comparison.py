"""What keeps an Avro reader from reading what a writer wrote: the rules of schema resolution in Avro's specification.

Verdicts are those of Java's `SchemaCompatibility`, which Confluent's registry asks. `avro.compatibility` of Apache's
library for Python is not asked: it merges what it finds, so that it does not say which field a reason is about, and it
takes the alias of a type without the namespace of the type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from avro.schema import (
    ArraySchema,
    EnumSchema,
    FixedSchema,
    MapSchema,
    NamedSchema,
    RecordSchema,
    Schema,
    UnionSchema,
)

from kmini.registry.formats.schema_format import CannotCompare, Difference

_READ_AS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
"""The primitive types that a reader's type reads beside itself."""


def compare(reader: Schema, writer: Schema) -> list[Difference]:
    """What keeps `reader` from reading what `writer` wrote. Raises CannotCompare where types refer to types deeper than
    Python can follow."""
    try:
        return list(_Comparison().differences(reader, writer, ""))
    except RecursionError:
        raise CannotCompare(
            "the types of the schemas refer to each other too deeply to be compared; level NONE registers the schema"
        ) from None


class _Comparison:
    """Compares the types of two schemas, each pair once: types refer to themselves."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], bool] = {}
        """Whether a pair of types fits. A pair that is being compared counts as one that does."""

    def differences(self, reader: Schema, writer: Schema, path: str) -> Iterator[Difference]:
        pair = id(reader), id(writer)
        if self._seen.get(pair):
            return
        self._seen[pair] = True
        for difference in self._of_types(reader, writer, path):
            self._seen[pair] = False
            yield difference

    def _fits(self, reader: Schema, writer: Schema) -> bool:
        pair = id(reader), id(writer)
        if pair not in self._seen:
            return not any(True for _ in self.differences(reader, writer, ""))
        return self._seen[pair]

    def _of_types(self, reader: Schema, writer: Schema, path: str) -> Iterator[Difference]:
        if isinstance(writer, UnionSchema):
            yield from self._of_written_union(reader, writer, path)
        elif isinstance(reader, UnionSchema):
            if not self._has_branch(_Branches(reader), writer):
                yield _no_branch(writer, path)
        elif isinstance(reader, ArraySchema) and isinstance(writer, ArraySchema):
            yield from self.differences(reader.items, writer.items, f"{path}/items")
        elif isinstance(reader, MapSchema) and isinstance(writer, MapSchema):
            yield from self.differences(reader.values, writer.values, f"{path}/values")
        elif isinstance(reader, RecordSchema) and isinstance(writer, RecordSchema):
            yield from _of_names(reader, writer, path)
            yield from self._of_fields(reader, writer, path)
        elif isinstance(reader, EnumSchema) and isinstance(writer, EnumSchema):
            yield from _of_names(reader, writer, path)
            yield from _of_symbols(reader, writer, path)
        elif isinstance(reader, FixedSchema) and isinstance(writer, FixedSchema):
            yield from _of_names(reader, writer, path)
            if reader.size != writer.size:
                told = f"{reader.fullname!r} has {reader.size} bytes, and the writer's has {writer.size}"
                yield Difference("FIXED_SIZE_MISMATCH", f"{path}/size", told)
        elif reader.type != writer.type and writer.type not in _READ_AS.get(reader.type, ()):
            told = f"the type {_told(reader)} does not read {_told(writer)}"
            yield Difference("TYPE_MISMATCH", path or "/", told)

    def _of_written_union(self, reader: Schema, writer: UnionSchema, path: str) -> Iterator[Difference]:
        branches = _Branches(reader) if isinstance(reader, UnionSchema) else None
        for number, branch in enumerate(writer.schemas):
            if branches is None:
                yield from self.differences(reader, branch, path)
            elif not self._has_branch(branches, branch):
                yield _no_branch(branch, f"{path}/{number}")

    def _has_branch(self, branches: _Branches, writer: Schema) -> bool:
        return any(self._fits(branch, writer) for branch in branches.for_type(writer))

    def _of_fields(self, reader: RecordSchema, writer: RecordSchema, path: str) -> Iterator[Difference]:
        by_name = {field.name: field for field in writer.fields}
        for number, field in enumerate(reader.fields):
            place = f"{path}/fields/{number}"
            names = (field.name, *_given_aliases(field.props))
            written = next((by_name[name] for name in names if name in by_name), None)
            if written is not None:
                yield from self.differences(field.type, written.type, f"{place}/type")
            elif not field.has_default:
                told = f"the field {field.name!r} has no default, and the writer's schema does not have the field"
                yield Difference("READER_FIELD_MISSING_DEFAULT_VALUE", place, told)


class _Branches:
    """The branches of a reader's union, by the name of what they may read."""

    def __init__(self, union: UnionSchema) -> None:
        self._named: dict[str, list[Schema]] = {}
        self._others: list[Schema] = []
        for branch in union.schemas:
            if isinstance(branch, NamedSchema):
                for name in {branch.name, *(alias.rpartition(".")[2] for alias in _aliases(branch))}:
                    self._named.setdefault(name, []).append(branch)
            else:
                self._others.append(branch)

    def for_type(self, writer: Schema) -> Sequence[Schema]:
        """The branches that may read a type: with a name, those of its name or with an alias like it."""
        return self._named.get(writer.name, ()) if isinstance(writer, NamedSchema) else self._others


def _of_names(reader: NamedSchema, writer: NamedSchema, path: str) -> Iterator[Difference]:
    if reader.name != writer.name and writer.fullname not in _aliases(reader):
        told = f"the name {reader.fullname!r} is not {writer.fullname!r}, and no alias is"
        yield Difference("NAME_MISMATCH", f"{path}/name", told)


def _of_symbols(reader: EnumSchema, writer: EnumSchema, path: str) -> Iterator[Difference]:
    missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if missing and reader.props.get("default") is None:
        told = f"the enum {reader.fullname!r} has no default, and lacks {', '.join(missing)}"
        yield Difference("MISSING_ENUM_SYMBOLS", f"{path}/symbols", told)


def _aliases(schema: NamedSchema) -> Sequence[str]:
    """The full names of the aliases of a type."""
    space = schema.fullname.rpartition(".")[0]
    return [alias if "." in alias or not space else f"{space}.{alias}" for alias in _given_aliases(schema.props)]


def _given_aliases(properties: Mapping[str, object]) -> Sequence[str]:
    return cast("Sequence[str]", properties.get("aliases") or ())


def _no_branch(writer: Schema, path: str) -> Difference:
    return Difference("MISSING_UNION_BRANCH", path or "/", f"the union has no branch that reads {_told(writer)}")


def _told(schema: Schema) -> str:
    return repr(schema.fullname) if isinstance(schema, NamedSchema) else repr(schema.type)

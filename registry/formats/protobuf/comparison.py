"""What keeps readers with one Protobuf schema from reading what another one wrote.

Kinds are named as Confluent's registry names them; which of them count follows its documentation of schema evolution
and Protobuf's rules for updating a message type. Fields are compared by number, messages by their names within the
package of their file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

from kmini.registry.formats.schema_format import Difference

_F = FieldDescriptor
_VARINTS = "a number of variable length"
_BYTES = "bytes after their length"
_GROUPS = {
    _F.TYPE_INT32: _VARINTS,
    _F.TYPE_INT64: _VARINTS,
    _F.TYPE_UINT32: _VARINTS,
    _F.TYPE_UINT64: _VARINTS,
    _F.TYPE_BOOL: _VARINTS,
    _F.TYPE_ENUM: _VARINTS,
    _F.TYPE_SINT32: "a number of variable length in zigzag form",
    _F.TYPE_SINT64: "a number of variable length in zigzag form",
    _F.TYPE_FIXED32: "4 bytes of an integer",
    _F.TYPE_SFIXED32: "4 bytes of an integer",
    _F.TYPE_FIXED64: "8 bytes of an integer",
    _F.TYPE_SFIXED64: "8 bytes of an integer",
    _F.TYPE_FLOAT: "4 bytes of a float",
    _F.TYPE_DOUBLE: "8 bytes of a double",
    _F.TYPE_STRING: _BYTES,
    _F.TYPE_BYTES: _BYTES,
}
"""What scalar types are in a record. Types of one group read each other's values, as far as these fit."""

_MESSAGES = (_F.TYPE_MESSAGE, _F.TYPE_GROUP)
_NAMES = {number: name.removeprefix("TYPE_").lower() for name, number in vars(_F).items() if name.startswith("TYPE_")}


def differences(reader: Any, writer: Any) -> list[Difference]:
    """The differences of two FileDescriptors, each told once. A package that changed is one of them, and types are
    compared by their names within it."""
    return list(_Comparison(reader, writer).of_files())


class _Comparison:
    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._compared: set[tuple[str, str]] = set()

    def of_files(self) -> Iterator[Difference]:
        reader, writer = self._reader, self._writer
        if reader.package != writer.package:
            told = f"The package is {_quoted(reader.package)}; the writer's is {_quoted(writer.package)}."
            yield Difference("PACKAGE_CHANGED", "#/", told)
        known = {_local(message): message for message in _all_messages(reader)}
        for message in _all_messages(writer):
            name = _local(message)
            counterpart = known.get(name)
            if counterpart is None:
                yield Difference("MESSAGE_REMOVED", f"#/{name}", f'The writer has the message "{name}".')
            else:
                yield from self._of_messages(counterpart, message)
        yield from self._of_extensions()

    def _of_messages(self, reader: Any, writer: Any) -> Iterator[Difference]:
        """Compare two messages and, without recursion, those that their fields have as types."""
        waiting = [(reader, writer)]
        while waiting:
            ours, theirs = waiting.pop()
            if (ours.full_name, theirs.full_name) in self._compared:
                continue
            self._compared.add((ours.full_name, theirs.full_name))
            path = f"#/{_local(theirs)}"
            for number, field in sorted(theirs.fields_by_number.items()):
                counterpart = ours.fields_by_number.get(number)
                if counterpart is None:
                    yield from _removed(field, f"{path}/{number}")
                    continue
                yield from self._of_fields(counterpart, field, f"{path}/{number}")
                if counterpart.type in _MESSAGES and field.type in _MESSAGES and self._same_type(counterpart, field):
                    waiting.append((counterpart.message_type, field.message_type))
            yield from _added(ours, theirs, path)
            yield from _of_oneofs(ours, theirs, path)

    def _of_extensions(self) -> Iterator[Difference]:
        known = {(e.containing_type.full_name, e.number): e for e in _all_extensions(self._reader)}
        for theirs in _all_extensions(self._writer):
            ours = known.get((theirs.containing_type.full_name, theirs.number))
            if ours is not None:
                yield from self._of_fields(ours, theirs, f"#/{theirs.containing_type.full_name}/{theirs.number}")
                if ours.type in _MESSAGES and theirs.type in _MESSAGES and self._same_type(ours, theirs):
                    yield from self._of_messages(ours.message_type, theirs.message_type)

    def _of_fields(self, ours: Any, theirs: Any, path: str) -> Iterator[Difference]:
        kinds = _kind(ours), _kind(theirs)
        if kinds[0] != kinds[1]:
            told = f'The field "{ours.name}" is {_article(kinds[0])}; the writer\'s is {_article(kinds[1])}.'
            yield Difference("FIELD_KIND_CHANGED", path, told)
            return
        if kinds[0] == "scalar" and _GROUPS[ours.type] != _GROUPS[theirs.type]:
            told = (
                f'The field "{ours.name}" is of type {_NAMES[ours.type]}, {_GROUPS[ours.type]} in a record; the '
                f"writer's is of type {_NAMES[theirs.type]}, {_GROUPS[theirs.type]}."
            )
            yield Difference("FIELD_SCALAR_KIND_CHANGED", path, told)
        elif kinds[0] == "message" and not self._same_type(ours, theirs):
            told = (
                f'The field "{ours.name}" is of type "{ours.message_type.full_name}"; the writer\'s is of type '
                f'"{theirs.message_type.full_name}".'
            )
            yield Difference("FIELD_NAMED_TYPE_CHANGED", path, told)
        yield from _label_changed(ours, theirs, path)
        if ours.is_required and not theirs.is_required:
            told = f'The field "{ours.name}" is required; the writer\'s is not, and so may be missing.'
            yield Difference("REQUIRED_FIELD_ADDED", path, told)

    def _same_type(self, ours: Any, theirs: Any) -> bool:
        """Whether two fields have the same message as their type, the package apart. The entries of maps are the same,
        whatever the fields are called."""
        if _is_map(ours) or _is_map(theirs):
            return _is_map(ours) and _is_map(theirs)
        types = ours.message_type, theirs.message_type
        return _local(types[0]) == _local(types[1]) or bool(types[0].full_name == types[1].full_name)


def _removed(field: Any, path: str) -> Iterator[Difference]:
    if field.is_required:
        told = f'The writer has the required field "{field.name}", which is missing.'
        yield Difference("REQUIRED_FIELD_REMOVED", path, told)


def _added(ours: Any, theirs: Any, path: str) -> Iterator[Difference]:
    for number, field in sorted(ours.fields_by_number.items()):
        if number not in theirs.fields_by_number and field.is_required:
            told = f'The field "{field.name}" is required; the writer has none with its number.'
            yield Difference("REQUIRED_FIELD_ADDED", f"{path}/{number}", told)


def _of_oneofs(ours: Any, theirs: Any, path: str) -> Iterator[Difference]:
    known, wrote = _oneofs(ours), _oneofs(theirs)
    for name, fields in wrote.items():
        for field in fields if name in known else ():
            if field.number not in ours.fields_by_number:
                told = f'The writer\'s oneof "{name}" has the field "{field.name}", which is missing.'
                yield Difference("ONEOF_FIELD_REMOVED", f"{path}/{name}/{field.number}", told)
    homes = {field.number: name for name, fields in wrote.items() for field in fields}
    for name, fields in known.items():
        there = [theirs.fields_by_number[field.number] for field in fields if field.number in theirs.fields_by_number]
        yield from _moved_into(name, there, homes, f"{path}/{name}")


def _moved_into(oneof: str, there: list[Any], homes: dict[int, str], path: str) -> Iterator[Difference]:
    """A record may have several fields set that the reader takes for alternatives: the last one alone would be left.
    `there`: the writer's fields with the numbers of the reader's oneof. `homes`: the writer's oneofs by number."""
    moved = [field for field in there if field.number not in homes]
    if len(moved) > 1:
        told = f'The oneof "{oneof}" has the fields {_names(moved)}, which the writer may set together.'
        yield Difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", path, told)
    elif len({homes.get(field.number) for field in there}) > 1:
        told = f'The oneof "{oneof}" has the fields {_names(there)}, of which the writer may set several.'
        yield Difference("FIELD_MOVED_TO_EXISTING_ONEOF", path, told)


def _label_changed(ours: Any, theirs: Any, path: str) -> Iterator[Difference]:
    if ours.is_repeated == theirs.is_repeated or _GROUPS.get(ours.type, _BYTES) == _BYTES:
        return  # messages, strings and bytes are read one way or the other: merged, or the last one counts
    labels = ["repeated" if field.is_repeated else "singular" for field in (ours, theirs)]
    told = f'The field "{ours.name}" is {labels[0]}; the writer\'s is {labels[1]}, and repeated numbers may be packed.'
    yield Difference("FIELD_NUMERIC_LABEL_CHANGED", path, told)


def _all_messages(file: Any) -> Iterator[Any]:
    waiting = list(reversed(list(file.message_types_by_name.values())))
    while waiting:
        message = waiting.pop()
        if not message.GetOptions().map_entry:
            yield message
            waiting += reversed(list(message.nested_types))


def _all_extensions(file: Any) -> Iterator[Any]:
    yield from file.extensions_by_name.values()
    for message in _all_messages(file):
        yield from message.extensions


def _local(message: Any) -> str:
    """A message's name within the package of its file."""
    name: str = message.full_name
    package = message.file.package
    return name.removeprefix(f"{package}.") if package else name


def _oneofs(message: Any) -> dict[str, list[Any]]:
    """The fields of each oneof, without those oneofs that stand for an `optional` field of proto3."""
    declared = DescriptorProto()
    message.CopyToProto(declared)
    optional = {field.number for field in declared.field if field.proto3_optional}
    return {
        oneof.name: list(oneof.fields)
        for oneof in message.oneofs
        if not any(field.number in optional for field in oneof.fields)
    }


def _kind(field: Any) -> str:
    if field.type in _MESSAGES:
        return "map" if _is_map(field) else "message"
    return "scalar"


def _is_map(field: Any) -> bool:
    return field.type == _F.TYPE_MESSAGE and bool(field.message_type.GetOptions().map_entry)


def _article(kind: str) -> str:
    return {"map": "a map", "message": "a message", "scalar": "a scalar"}[kind]


def _names(fields: list[Any]) -> str:
    return ", ".join(f'"{field.name}"' for field in fields)


def _quoted(package: str) -> str:
    return f'"{package}"' if package else "none"

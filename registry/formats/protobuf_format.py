"""Protobuf as a format of the registry: .proto text, or base64 of a serialized FileDescriptorProto.

confluent-kafka-python registers the second and reads it with `?format=serialized`; other clients send text. Both are
kept as text, spelt anew (protobuf/writing.py).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import json_format, message_factory
from google.protobuf.message import DecodeError

from kmini.registry.formats.protobuf.comparison import differences
from kmini.registry.formats.protobuf.files import Files
from kmini.registry.formats.protobuf.linking import with_names_of
from kmini.registry.formats.protobuf.options import is_text
from kmini.registry.formats.protobuf.parser import parse
from kmini.registry.formats.protobuf.walk import each_field, joined, symbols_of
from kmini.registry.formats.protobuf.writing import write
from kmini.registry.formats.schema_format import (
    Difference,
    InvalidSchema,
    ResolvedReference,
    Schema,
    SchemaFormat,
)
from kmini.registry.formats.values import Undecodable

LONGEST_TEXT = 1 << 20
"""Characters of a schema's text: more than a record of _schemas may hold bytes by default (max.message.bytes)."""

_NAME = "default"
"""What the schema itself is called among the files that it imports: no schema says its own path."""

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}")


class ProtobufFormat(SchemaFormat):
    """Protobuf: proto2, proto3 and editions."""

    name = "PROTOBUF"

    def read(self, text: str, references: Sequence[ResolvedReference] = ()) -> ProtobufSchema:
        declared: dict[str, Any] = {}
        _declare(references, declared)
        if not _is_base64(text):
            return ProtobufSchema(_written(text), declared)
        schema = ProtobufSchema(_written(text), declared)
        _check_that_text_says_it(schema, declared)
        return schema


class ProtobufSchema(Schema):
    """A Protobuf schema with the files that it imports. `written`: its declarations, names as they were written.
    `declared`: those of its references, by the path of an import."""

    def __init__(self, written: Any, declared: dict[str, Any], *, normal: bool = False) -> None:
        self._declared = declared
        self._files = Files(declared)
        linked = self._files.add(_NAME, written)
        self.file: Any = linked
        """The descriptor, as protoc would give it."""
        spelt = linked if normal else with_names_of(written, linked)
        self._text = write(spelt, self._files.pool, sort_imports=normal)

    @property
    def text(self) -> str:
        return self._text

    @property
    def descriptor(self) -> Any:
        """The FileDescriptor in the schema's own pool."""
        return self._files.pool.FindFileByName(_NAME)

    def normalized(self) -> Schema:
        return ProtobufSchema(self.file, self._declared, normal=True)

    def differences(self, writer: Schema) -> Sequence[Difference]:
        assert isinstance(writer, ProtobufSchema), "the registry compares schemas of one format"
        return differences(self.descriptor, writer.descriptor)

    def formatted(self, spelling: str) -> str:
        """`serialized` gives base64 of the FileDescriptorProto."""
        if spelling == "serialized":
            return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()
        return self.text

    def value_of(self, data: bytes, place: list[int]) -> Any:
        """The message as Protobuf's JSON has it, with the fields' own names. Raises Undecodable."""
        descriptor = self._message(place)
        message = message_factory.GetMessageClass(descriptor)()
        try:
            message.ParseFromString(data)
            return json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=self._files.pool
            )
        except DecodeError:
            raise Undecodable(f"The data are no message {descriptor.full_name}.") from None
        except (json_format.Error, TypeError, ValueError, RecursionError) as problem:
            reason = str(problem)[:200]
            raise Undecodable(f"The message {descriptor.full_name} has no form in JSON: {reason}.") from None

    def _message(self, place: list[int]) -> Any:
        """The descriptor of the message at a place in the file. Raises Undecodable."""
        inside, name = self.file.message_type, self.file.package
        for index in place:
            if not 0 <= index < len(inside):
                raise Undecodable(f"The schema has no message at the place {place}.")
            name = joined(name, inside[index].name)
            inside = inside[index].nested_type
        return self._files.pool.FindMessageTypeByName(name)


def _declare(references: Sequence[ResolvedReference], declared: dict[str, Any]) -> None:
    """Collect the declarations of references and of theirs. The outermost file of a path counts, as no schema can have
    two: a level of references is collected before the next."""
    level = list(references)
    while level:
        for reference in level:
            if reference.name not in declared:
                declared[reference.name] = _reference(reference)
        level = [inner for reference in level for inner in reference.references]


def _reference(reference: ResolvedReference) -> Any:
    try:
        return _written(reference.text)
    except InvalidSchema as problem:
        raise InvalidSchema(f'In the reference "{reference.name}": {problem}') from None


def _written(text: str) -> Any:
    if len(text) > LONGEST_TEXT:
        raise InvalidSchema(f"The schema has {len(text):,} characters; this registry reads at most {LONGEST_TEXT:,}.")
    if not text.strip():
        raise InvalidSchema("The schema is empty; expected .proto text or base64 of a FileDescriptorProto.")
    return _decoded(text) if _is_base64(text) else parse(text)


def _is_base64(text: str) -> bool:
    """Whether the text consists of the letters of base64. No .proto text does: it has a semicolon or a brace."""
    return _BASE64.fullmatch(text.strip()) is not None


def _decoded(text: str) -> Any:
    file = pb.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError):
        raise InvalidSchema(
            "The schema is neither .proto text nor base64 of a serialized FileDescriptorProto."
        ) from None
    file.ClearField("source_code_info")
    if not is_text(file):
        raise InvalidSchema("The descriptor has a string that is not UTF-8.")
    return file


def _check_that_text_says_it(schema: ProtobufSchema, declared: dict[str, Any]) -> None:
    """A descriptor can hold what no text can: such a one would come back as another schema. Raises InvalidSchema."""
    try:
        again = ProtobufSchema(parse(schema.text), declared)
    except InvalidSchema as problem:
        raise InvalidSchema(f"The descriptor says what no .proto text can: {problem}") from None
    if _outline(again.file) != _outline(schema.file):
        raise InvalidSchema("The descriptor says what no .proto text can: its text reads as another schema.")


def _outline(file: Any) -> set[tuple[Any, ...]]:
    """What a file declares, whatever the order."""
    outline: set[tuple[Any, ...]] = set(symbols_of(file).items())
    for scope, field, _ in each_field(file):
        outline.add((joined(scope, field.name), field.number, field.label, field.type, field.type_name, field.extendee))
    return outline

"""Decodes what a serializer for Protobuf wrote, by the descriptors of its schema."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.message import DecodeError

from kmini.registry.formats.protobuf_format import ProtobufSchema
from kmini.registry.formats.schema_format import Schema
from kmini.registry.formats.values import Undecodable


def decode(schema: Schema, data: bytes, place: list[int]) -> Any:
    """The message as Protobuf's JSON has it, with the fields' own names. Raises Undecodable."""
    assert isinstance(schema, ProtobufSchema)
    descriptor = _message(schema, place)
    message = message_factory.GetMessageClass(descriptor)()
    try:
        message.ParseFromString(data)
        return json_format.MessageToDict(
            message, preserving_proto_field_name=True, descriptor_pool=schema.descriptor.pool
        )
    except DecodeError:
        raise Undecodable(f"The data are no message {descriptor.full_name}.") from None
    except (json_format.Error, TypeError, ValueError, RecursionError) as problem:
        told = str(problem)[:200]
        raise Undecodable(f"The message {descriptor.full_name} has no form in JSON: {told}.") from None


def _message(schema: ProtobufSchema, place: list[int]) -> Any:
    """The descriptor of the message at a place in its file. Raises Undecodable."""
    inside, name = schema.file.message_type, schema.file.package
    for index in place:
        if not 0 <= index < len(inside):
            raise Undecodable(f"The schema has no message at the place {place}.")
        name = f"{name}.{inside[index].name}" if name else inside[index].name
        inside = inside[index].nested_type
    return schema.descriptor.pool.FindMessageTypeByName(name)

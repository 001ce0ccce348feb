"""Gives the names in a parsed .proto file their meaning, as protoc does: types by scope, names in JSON, and the oneofs
that stand for `optional` in proto3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.names import camel_case, resolve
from kmini.registry.formats.protobuf.walk import TYPES, TypeName, each_field, each_message, each_type_name
from kmini.registry.formats.schema_format import InvalidSchema

_Field = pb.FieldDescriptorProto

KindOf = Callable[[str], "str | None"]
"""Gives the kind of a full name that a file can see, such as "message"; None where it sees none of that name."""


def link_names(file: Any, kind_of: KindOf) -> None:
    """Make every name of a type a full one, and fill in what follows from the declarations. Raises InvalidSchema."""
    for place in each_type_name(file):
        _link_type(place, kind_of)
    for _, field, extends in each_field(file):
        if not field.HasField("label"):
            field.label = _Field.LABEL_OPTIONAL
        if not field.HasField("json_name"):
            field.json_name = camel_case(field.name)
        if extends:
            field.ClearField("oneof_index")
    for _, message in each_message(file):
        _add_oneofs_of_optional_fields(message)


def with_names_of(written: Any, linked: Any) -> Any:
    """A copy of a linked file that names types as the written one does."""
    copy = type(linked)()
    copy.CopyFrom(linked)
    for place, origin in zip(each_type_name(copy), each_type_name(written), strict=True):
        setattr(place.owner, place.attribute, getattr(origin.owner, origin.attribute))
    return copy


def _link_type(place: TypeName, kind_of: KindOf) -> None:
    name = getattr(place.owner, place.attribute)
    full = resolve(name, place.scope, kind_of, place.accepted)
    if full is None:
        raise InvalidSchema(_told_unknown(place, name, kind_of))
    setattr(place.owner, place.attribute, f".{full}")
    if place.attribute != "type_name":
        return
    field = place.owner
    message = kind_of(full) == "message"
    declared = field.type if field.HasField("type") else None
    if declared in (None, _Field.TYPE_MESSAGE, _Field.TYPE_ENUM):
        field.type = _Field.TYPE_MESSAGE if message else _Field.TYPE_ENUM
    if message and field.HasField("default_value"):
        raise InvalidSchema(f"{place.told} has a message as its type, and so no default.")


def _told_unknown(place: TypeName, name: str, kind_of: KindOf) -> str:
    other = resolve(name, place.scope, kind_of, (*TYPES, "field", "value", "service", "oneof", "package"))
    expected = " or ".join(place.accepted)
    if other is not None:
        return f'{place.told} names "{name}", which is a {kind_of(other)}; expected a {expected}.'
    return f'{place.told} names "{name}", which neither the schema nor its imports declare; expected a {expected}.'


def _add_oneofs_of_optional_fields(message: Any) -> None:
    """Each `optional` field of proto3 is alone in a oneof after the declared ones."""
    taken = {field.name for field in message.field} | {oneof.name for oneof in message.oneof_decl}
    for field in message.field:
        if not field.proto3_optional or field.HasField("oneof_index"):
            continue
        name = field.name if field.name.startswith("_") else f"_{field.name}"
        while name in taken:
            name = f"X{name}"
        taken.add(name)
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=name)

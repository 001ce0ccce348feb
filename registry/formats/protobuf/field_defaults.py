"""The default of a field in proto2 and editions: as a descriptor keeps it, and as a .proto text spells it."""

from __future__ import annotations

import math
import struct
from typing import Any

from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.tokens import unescaped
from kmini.registry.formats.schema_format import InvalidSchema

_Field = pb.FieldDescriptorProto

_SIGNED = {
    _Field.TYPE_INT32: 32,
    _Field.TYPE_SINT32: 32,
    _Field.TYPE_SFIXED32: 32,
    _Field.TYPE_INT64: 64,
    _Field.TYPE_SINT64: 64,
    _Field.TYPE_SFIXED64: 64,
}
_UNSIGNED = {_Field.TYPE_UINT32: 32, _Field.TYPE_FIXED32: 32, _Field.TYPE_UINT64: 64, _Field.TYPE_FIXED64: 64}
_FLOATS = (_Field.TYPE_FLOAT, _Field.TYPE_DOUBLE)


def default_value(field: Any, option: Any) -> str:
    """What a descriptor keeps for `default = …`. Raises InvalidSchema where the value does not suit the field."""
    kind = field.type if field.HasField("type") else None  # a named type is known once the file is linked
    if field.label == _Field.LABEL_REPEATED:
        raise InvalidSchema(f'The field "{field.name}" is repeated, and so has no default.')
    if kind is not None and (kind in _SIGNED or kind in _UNSIGNED):
        return _integer_default(field, option)
    if kind in _FLOATS:
        return spelt_float(_float_of(field, option), kind)
    if kind == _Field.TYPE_BOOL and option.identifier_value in ("true", "false"):
        return str(option.identifier_value)
    if kind == _Field.TYPE_STRING and option.HasField("string_value"):
        return _text_of(field, option.string_value)
    if kind == _Field.TYPE_BYTES and option.HasField("string_value"):
        return c_escaped(option.string_value)
    if kind is None and option.HasField("identifier_value"):
        return str(option.identifier_value)
    raise InvalidSchema(f'The default of the field "{field.name}" is no value of its type.')


def spelt_default(field: Any) -> str:
    """The default of a descriptor as a .proto text has it."""
    if field.type == _Field.TYPE_STRING:
        return quoted(field.default_value)
    if field.type == _Field.TYPE_BYTES:
        return f'"{c_escaped(unescaped(field.default_value))}"'
    try:
        if field.type in _FLOATS:
            return spelt_float(float(field.default_value), field.type)
        if field.type in _SIGNED or field.type in _UNSIGNED:
            return str(int(field.default_value, 0))
    except ValueError:
        raise InvalidSchema(f'The default of the field "{field.name}" is no number that fits its type.') from None
    return str(field.default_value)


def quoted(text: str) -> str:
    """A string literal of text. Characters beyond ASCII stay as they are."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    parts = (escapes.get(c) or (f"\\{ord(c):03o}" if ord(c) < 32 or ord(c) == 127 else c) for c in text)
    return f'"{"".join(parts)}"'


def c_escaped(data: bytes) -> str:
    """Bytes as descriptors keep them: printable ASCII as it is, other bytes as escapes."""
    escapes = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(escapes.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data)


def _integer_default(field: Any, option: Any) -> str:
    number = option.negative_int_value or option.positive_int_value
    given = option.HasField("negative_int_value") or option.HasField("positive_int_value")
    if field.type in _SIGNED:
        bits = _SIGNED[field.type]
        fits = -(1 << bits - 1) <= number < 1 << bits - 1
    else:
        fits = 0 <= number < 1 << _UNSIGNED[field.type]
    if not (given and fits):
        raise InvalidSchema(f'The default of the field "{field.name}" is no number that fits its type.')
    return str(number)


def _float_of(field: Any, option: Any) -> float:
    for member in ("double_value", "negative_int_value", "positive_int_value"):
        if option.HasField(member):
            return float(getattr(option, member))
    if option.identifier_value in ("inf", "nan"):
        return float(option.identifier_value)
    raise InvalidSchema(f'The default of the field "{field.name}" is no number.')


def spelt_float(number: float, kind: Any) -> str:
    """The shortest of two lengths of digits that reads as the same number."""
    if kind == _Field.TYPE_FLOAT:
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            number = math.copysign(math.inf, number)
        if math.isfinite(number):
            short = f"{number:.6g}"
            same = struct.pack("<f", float(short)) == struct.pack("<f", number) if abs(float(short)) < 3.4e38 else False
            return short if same else f"{number:.9g}"
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    short = f"{number:.15g}"
    return short if float(short) == number else f"{number:.17g}"


def _text_of(field: Any, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidSchema(f'The default of the field "{field.name}" is not UTF-8.') from None

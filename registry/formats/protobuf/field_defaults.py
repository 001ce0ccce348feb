"""The default of a field in proto2 and editions: as a descriptor keeps it, and as a .proto text spells it."""

from __future__ import annotations

import math
import struct
from typing import Any

from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.tokens import unescaped
from kmini.registry.formats.schema_format import InvalidSchema

_Field = pb.FieldDescriptorProto

INTEGERS = {
    **dict.fromkeys((_Field.TYPE_INT32, _Field.TYPE_SINT32, _Field.TYPE_SFIXED32), (-1 << 31, (1 << 31) - 1)),
    **dict.fromkeys((_Field.TYPE_INT64, _Field.TYPE_SINT64, _Field.TYPE_SFIXED64), (-1 << 63, (1 << 63) - 1)),
    **dict.fromkeys((_Field.TYPE_UINT32, _Field.TYPE_FIXED32), (0, (1 << 32) - 1)),
    **dict.fromkeys((_Field.TYPE_UINT64, _Field.TYPE_FIXED64), (0, (1 << 64) - 1)),
}
"""The least and the greatest number of the types of integers."""
FLOATS = (_Field.TYPE_FLOAT, _Field.TYPE_DOUBLE)


def default_value(field: Any, option: Any) -> str:
    """What a descriptor keeps for `default = …`. Raises InvalidSchema where the value does not suit the field."""
    kind = field.type if field.HasField("type") else None  # a named type is known once the file is linked
    if field.label == _Field.LABEL_REPEATED:
        raise InvalidSchema(f'The field "{field.name}" is repeated, and so has no default.')
    if kind in INTEGERS:
        least, most = INTEGERS[kind]
        integer = integer_of(option)
        if integer is None or not least <= integer <= most:
            raise InvalidSchema(f'The default of the field "{field.name}" is no number that fits its type.')
        return str(integer)
    if kind in FLOATS:
        number = number_of(option)
        if number is None:
            raise InvalidSchema(f'The default of the field "{field.name}" is no number.')
        return spelt_float(number, kind)
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
        if field.type in FLOATS:
            return spelt_float(float(field.default_value), field.type)
        if field.type in INTEGERS:
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


def integer_of(option: Any) -> int | None:
    """The integer that an option's value is; None for another value."""
    if option.HasField("positive_int_value"):
        return int(option.positive_int_value)
    return int(option.negative_int_value) if option.HasField("negative_int_value") else None


def number_of(option: Any) -> float | None:
    """The number that an option's value is; None for another value."""
    if option.HasField("double_value"):
        return float(option.double_value)
    if option.identifier_value in ("inf", "nan"):
        return float(option.identifier_value)
    number = integer_of(option)
    return None if number is None else float(number)


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

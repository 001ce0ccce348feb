"""Finds the value of a message that could not be encoded.

The encoders do not check values: a wrong one fails in the call that writes it. Only then `explain` walks the message
field by field to find it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .schema import Message, Struct, Type


def explain(message: Message, version: int) -> None:
    """ValueError for the first field of `message` whose value `version` cannot express; nothing if there is none."""
    is_flexible = version >= message.flexible_from
    _explain_struct(message, version, is_flexible, type(message).__name__)


def _explain_struct(value: Struct, version: int, is_flexible: bool, path: str) -> None:
    for field in type(value).__fields__:
        if not field.exists_in(version):
            continue
        field_path = f"{path}.{field.name}"
        if not hasattr(value, field.name):
            raise ValueError(f"{field_path} is not set")
        held = getattr(value, field.name)
        is_absent_struct = held is None and field.tag is not None and field.type.struct is not None
        if not is_absent_struct:
            _explain_value(held, field.type, field.is_nullable_in(version), version, is_flexible, field_path)


def _explain_value(value: Any, type_: Type, is_nullable: bool, version: int, is_flexible: bool, path: str) -> None:
    if value is None:
        if not is_nullable:
            raise ValueError(f"{path} cannot be None in version {version}")
    elif type_.struct is not None:
        if not isinstance(value, type_.struct):
            raise ValueError(f"{path} must be a {type_.struct.__qualname__}, not {type(value).__name__}")
        _explain_struct(value, version, is_flexible, path)
    elif type_.element is not None:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{path} must be a list, not {type(value).__name__}")
        for index, item in enumerate(value):
            _explain_value(item, type_.element, type_.element.is_nullable, version, is_flexible, f"{path}[{index}]")
    else:
        _explain_wire(value, type_, is_flexible, path)


def _explain_wire(value: Any, type_: Type, is_flexible: bool, path: str) -> None:
    wire = type_.wire
    assert wire is not None
    if wire.name == "string":
        if not isinstance(value, str):
            raise ValueError(f"{path} must be a str, not {type(value).__name__}")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError(f"{path} cannot be expressed in UTF-8") from None
        if not is_flexible and size > 0x7FFF:
            raise ValueError(f"{path} has {size} bytes, a string may have {0x7FFF}")
    elif wire.name in ("bytes", "records", "uuid"):
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise ValueError(f"{path} must be bytes, not {type(value).__name__}")
        if wire.name == "uuid" and len(value) != 16:
            raise ValueError(f"{path} must have 16 bytes, not {len(value)}")
    else:
        try:
            struct.pack(">" + wire.code, value)
        except (struct.error, TypeError, OverflowError):
            raise ValueError(f"{path}: {value!r} is no {wire.name}") from None

"""Rules of Protobuf's language that the library which builds descriptors does not check."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from kmini.registry.formats.protobuf.walk import each_enum, each_field, each_message, joined
from kmini.registry.formats.schema_format import InvalidSchema

_OPTIONS = "google.protobuf."


def check(file: Any) -> None:
    """Raises InvalidSchema where a linked file breaks a rule."""
    for name, message in each_message(file):
        _check_message(name, message)
    for name, enum in each_enum(file):
        _check_enum(name, enum)
    if file.syntax == "proto3":
        for scope, field, extends in each_field(file):
            if extends and not _extends_options(field.extendee):
                raise InvalidSchema(
                    f'"{joined(scope, field.name)}" extends "{field.extendee.removeprefix(".")}": proto3 extends only '
                    "the options of descriptor.proto."
                )


def _check_message(name: str, message: Any) -> None:
    reserved = _Ranges((r.start, r.end - 1) for r in message.reserved_range)
    extensions = _Ranges((r.start, r.end - 1) for r in message.extension_range)
    names = set(message.reserved_name)
    _check_overlaps(name, sorted(reserved.ranges + extensions.ranges))
    for field in message.field:
        told = f'The field "{joined(name, field.name)}"'
        if 19000 <= field.number <= 19999:
            raise InvalidSchema(f"{told} has the number {field.number}; 19000 to 19999 are Protobuf's own.")
        if reserved.have(field.number):
            raise InvalidSchema(f"{told} has the number {field.number}, which its message reserves.")
        if extensions.have(field.number):
            raise InvalidSchema(f"{told} has the number {field.number}, which its message leaves to extensions.")
        if field.name in names:
            raise InvalidSchema(f"{told} has a name that its message reserves.")


def _check_enum(name: str, enum: Any) -> None:
    reserved = _Ranges((r.start, r.end) for r in enum.reserved_range)
    names = set(enum.reserved_name)
    seen: dict[int, str] = {}
    for value in enum.value:
        told = f'The value "{value.name}" of the enum "{name}"'
        if reserved.have(value.number):
            raise InvalidSchema(f"{told} has the number {value.number}, which the enum reserves.")
        if value.name in names:
            raise InvalidSchema(f"{told} has a name that the enum reserves.")
        if value.number in seen and not enum.options.allow_alias:
            raise InvalidSchema(
                f'{told} has the number of "{seen[value.number]}"; the option allow_alias = true would permit it.'
            )
        seen.setdefault(value.number, value.name)
    _check_overlaps(name, reserved.ranges)


def _check_overlaps(name: str, ranges: list[tuple[int, int]]) -> None:
    for (first, last), (start, end) in pairwise(ranges):
        if start <= last:
            raise InvalidSchema(f'In "{name}" the ranges {first} to {last} and {start} to {end} overlap.')


class _Ranges:
    """Ranges of numbers, first to last, in their order."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self.ranges = sorted(ranges)

    def have(self, number: int) -> bool:
        """Whether one of the ranges, which do not overlap, holds the number."""
        place = bisect_right(self.ranges, (number, 1 << 32))
        return place > 0 and number <= self.ranges[place - 1][1]


def _extends_options(extendee: str) -> bool:
    name = extendee.removeprefix(".")
    return name.startswith(_OPTIONS) and name.endswith("Options") and "." not in name.removeprefix(_OPTIONS)

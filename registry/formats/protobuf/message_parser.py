"""The declarations of messages, enums and extensions in a .proto text."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.field_defaults import default_value
from kmini.registry.formats.protobuf.names import map_entry_name
from kmini.registry.formats.protobuf.option_parser import (
    MOST_NESTED,
    parse_option_statement,
    parse_options_in_brackets,
)
from kmini.registry.formats.protobuf.tokens import Tokens
from kmini.registry.formats.schema_format import InvalidSchema

_Field = pb.FieldDescriptorProto

SCALARS: dict[str, Any] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _Field.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
_LABELS = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
_END_OF_FIELDS = 1 << 29  # beyond the greatest number of a field
_LAST_OF_ENUM = (1 << 31) - 1


class MessageParser:
    """Reads messages and what stands in them."""

    def __init__(self, tokens: Tokens, syntax: str) -> None:
        self._tokens = tokens
        self._syntax = syntax
        self._depth = 0

    def message(self, message: Any) -> None:
        """Read a message's name and its body."""
        message.name = self._tokens.identifier("the name of a message")
        self._body(message)

    def _body(self, message: Any) -> None:
        if self._depth == MOST_NESTED:
            raise InvalidSchema(f"Messages nest deeper than {MOST_NESTED} levels, the most there may be.")
        self._depth += 1
        self._tokens.expect("{")
        while not self._tokens.skips("}"):
            self._member(message)
        self._depth -= 1
        _close_message_set(message)

    def _member(self, message: Any) -> None:
        tokens = self._tokens
        if tokens.skips(";"):
            return
        # A field's type may be spelt like a word of the language: only what follows tells which it is.
        after = tokens.peek(1)
        names = after.kind == "ident"
        if names and tokens.skips("message"):
            self.message(message.nested_type.add())
        elif names and tokens.skips("enum"):
            self.enum(message.enum_type.add())
        elif (names or after.text == ".") and tokens.skips("extend"):
            self.extend(message.extension, message.nested_type)
        elif (names or after.text == "(") and tokens.skips("option"):
            parse_option_statement(tokens, message.options)
        elif names and tokens.skips("oneof"):
            self._oneof(message)
        elif after.kind == "int" and tokens.skips("extensions"):
            self._extension_ranges(message)
        elif (after.kind in ("int", "string") or self._names_follow()) and tokens.skips("reserved"):
            self._reserved(message, _END_OF_FIELDS)
        elif after.text == "<" and tokens.sees("map"):
            self._map_field(message)
        else:
            self._field(message.field.add(), message.nested_type)

    def _names_follow(self) -> bool:
        """Whether the next words are a list of reserved names, as editions write them, and no field."""
        return self._tokens.peek(1).kind == "ident" and self._tokens.peek(2).text in (",", ";")

    def _field(self, field: Any, groups: Any, *, in_oneof: bool = False) -> None:
        tokens = self._tokens
        label = tokens.peek().text
        if label in _LABELS and tokens.peek(1).text != "=" and not in_oneof:
            tokens.take()
            field.label = _LABELS[label]
            field.proto3_optional = label == "optional" and self._syntax == "proto3"
            if not field.proto3_optional:
                field.ClearField("proto3_optional")
            if self._syntax == "editions" and label != "repeated":
                raise InvalidSchema(f'Editions have no label "{label}": features.field_presence says it.')
        else:
            field.label = _Field.LABEL_OPTIONAL
            if self._syntax == "proto2" and not in_oneof and not self._is_map():
                raise tokens.unexpected('a label of the field ("required", "optional" or "repeated")')
        if tokens.sees("group") and tokens.peek(1).kind == "ident" and tokens.peek(2).text == "=":
            self._group(field, groups)
            return
        self._type(field)
        field.name = tokens.identifier("the name of a field")
        self._number_and_options(field)
        tokens.expect(";")

    def _is_map(self) -> bool:
        return self._tokens.sees("map") and self._tokens.peek(1).text == "<"

    def _type(self, field: Any) -> None:
        name = self._tokens.type_name("the type of a field")
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _number_and_options(self, field: Any) -> None:
        tokens = self._tokens
        tokens.expect("=")
        field.number = _number_of_field(tokens)
        read = parse_options_in_brackets(tokens, field.options)
        for option in read:
            _take_special_option(field, option)
        if read:
            kept = [option for option in field.options.uninterpreted_option if not _is_special(option)]
            del field.options.uninterpreted_option[:]
            field.options.uninterpreted_option.extend(kept)
            if not kept:
                field.ClearField("options")

    def _group(self, field: Any, groups: Any) -> None:
        tokens = self._tokens
        if self._syntax != "proto2":
            raise tokens.unexpected("a field without the word group, which only proto2 has")
        tokens.take()
        name = tokens.identifier("the name of a group")
        if not name[0].isupper():
            raise InvalidSchema(f'The group "{name}" has to begin with a capital letter.')
        field.type = _Field.TYPE_GROUP
        field.type_name = name
        field.name = name.lower()
        self._number_and_options(field)
        group = groups.add(name=name)
        self._body(group)

    def _map_field(self, message: Any) -> None:
        tokens = self._tokens
        field = message.field.add(label=_Field.LABEL_REPEATED)
        tokens.take()
        tokens.expect("<")
        entry = message.nested_type.add()
        entry.options.map_entry = True
        for place, part in enumerate(("key", "value"), 1):
            member = entry.field.add(name=part, number=place, label=_Field.LABEL_OPTIONAL)
            self._type(member)
            tokens.expect("," if part == "key" else ">")
        field.name = tokens.identifier("the name of a field")
        entry.name = field.type_name = map_entry_name(field.name)
        self._number_and_options(field)
        tokens.expect(";")

    def _oneof(self, message: Any) -> None:
        tokens = self._tokens
        place = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=tokens.identifier("the name of a oneof"))
        tokens.expect("{")
        while not tokens.skips("}"):
            if tokens.skips("option"):
                parse_option_statement(tokens, oneof.options)
                continue
            if tokens.peek().text in _LABELS and tokens.peek(1).kind == "ident" and tokens.peek(2).kind == "ident":
                raise InvalidSchema(f'Fields of the oneof "{oneof.name}" have no label such as "{tokens.peek().text}".')
            if self._is_map():
                raise InvalidSchema(f'The oneof "{oneof.name}" holds a map, which no oneof may.')
            field = message.field.add(oneof_index=place)
            self._field(field, message.nested_type, in_oneof=True)

    def extend(self, extensions: Any, groups: Any) -> None:
        """Read the message that is extended, and its extensions."""
        tokens = self._tokens
        extendee = tokens.type_name("the message that is extended")
        tokens.expect("{")
        if tokens.sees("}"):
            raise tokens.unexpected("a field: extend without one means nothing")
        while not tokens.skips("}"):
            if tokens.skips(";"):
                continue
            self._extension(extensions.add(extendee=extendee), groups)

    def _extension(self, field: Any, groups: Any) -> None:
        if self._is_map():
            raise InvalidSchema(f'An extension of "{field.extendee}" is a map, which no extension may be.')
        self._field(field, groups)

    def _extension_ranges(self, message: Any) -> None:
        tokens = self._tokens
        ranges = _ranges(tokens, _END_OF_FIELDS - 1)
        options = pb.ExtensionRangeOptions()
        read = parse_options_in_brackets(tokens, options)
        for first, last in ranges:
            added = message.extension_range.add(start=first, end=last + 1)
            if read:
                added.options.CopyFrom(options)
        tokens.expect(";")

    def _reserved(self, declared: Any, end: int) -> None:
        """Read reserved numbers or names. `end`: one beyond the greatest number, or _LAST_OF_ENUM for an enum's, the
        ranges of which hold their last number."""
        tokens = self._tokens
        if tokens.peek().kind == "string":
            declared.reserved_name.append(tokens.text_string("a reserved name"))
            while tokens.skips(","):
                declared.reserved_name.append(tokens.text_string("a reserved name"))
        elif tokens.peek().kind == "ident":
            declared.reserved_name.append(tokens.identifier("a reserved name"))
            while tokens.skips(","):
                declared.reserved_name.append(tokens.identifier("a reserved name"))
        elif end == _LAST_OF_ENUM:
            for first, last in _ranges(tokens, _LAST_OF_ENUM, signed=True):
                declared.reserved_range.add(start=first, end=last)
        else:
            for first, last in _ranges(tokens, end - 1):
                declared.reserved_range.add(start=first, end=last + 1)
        tokens.expect(";")

    def enum(self, enum: Any) -> None:
        """Read an enum's name and its body."""
        tokens = self._tokens
        enum.name = tokens.identifier("the name of an enum")
        tokens.expect("{")
        while not tokens.skips("}"):
            if tokens.skips(";"):
                continue
            after = tokens.peek(1).text
            if after != "=" and tokens.skips("option"):
                parse_option_statement(tokens, enum.options)
            elif after != "=" and tokens.skips("reserved"):
                self._reserved(enum, _LAST_OF_ENUM)
            else:
                self._enum_value(enum.value.add())

    def _enum_value(self, value: Any) -> None:
        tokens = self._tokens
        value.name = tokens.identifier("the name of an enum's value")
        tokens.expect("=")
        token = tokens.peek()
        number = tokens.signed_integer("the number of an enum's value")
        if not -1 << 31 <= number < 1 << 31:
            raise tokens.wrong(token, f"The number {number} of {value.name} has more than 32 bits")
        value.number = number
        parse_options_in_brackets(tokens, value.options)
        tokens.expect(";")


def _ranges(tokens: Tokens, greatest: int, *, signed: bool = False) -> list[tuple[int, int]]:
    """Numbers and ranges of them, last number included."""
    read = []
    while True:
        token = tokens.peek()
        take = tokens.signed_integer if signed else tokens.integer
        first = last = take("a number or a range such as 4 to 8")
        if tokens.skips("to"):
            last = greatest if tokens.skips("max") else take("the last number of a range, or max")
        if not (-1 << 31 if signed else 1) <= first <= last <= greatest:
            raise tokens.wrong(token, f"The range {first} to {last} is none of numbers up to {greatest}, first to last")
        read.append((first, last))
        if not tokens.skips(","):
            return read


def _number_of_field(tokens: Tokens) -> int:
    token = tokens.peek()
    number = tokens.integer("the number of a field")
    if not 1 <= number < 1 << 31:
        raise tokens.wrong(token, f"The number {number} is none that a field can have")
    return number


def _is_special(option: Any) -> bool:
    """Whether the option is spelt as one and is a part of the field's declaration."""
    return len(option.name) == 1 and not option.name[0].is_extension and option.name[0].name_part in _SPECIAL


_SPECIAL = ("default", "json_name")


def _take_special_option(field: Any, option: Any) -> None:
    if not _is_special(option):
        return
    name = option.name[0].name_part
    if field.HasField("default_value" if name == "default" else name):
        raise InvalidSchema(f'The field "{field.name}" has the option "{name}" twice.')
    if name == "default":
        field.default_value = default_value(field, option)
        return
    if not option.HasField("string_value"):
        raise InvalidSchema(f'The option "json_name" of the field "{field.name}" has to be a string.')
    try:
        field.json_name = option.string_value.decode()
    except UnicodeDecodeError:
        raise InvalidSchema(f'The option "json_name" of the field "{field.name}" is not UTF-8.') from None


def _close_message_set(message: Any) -> None:
    """Let "to max" reach as far as the numbers of a MessageSet do."""
    is_set = any(
        option.identifier_value == "true" and [part.name_part for part in option.name] == ["message_set_wire_format"]
        for option in message.options.uninterpreted_option
    )
    for extensions in message.extension_range if is_set else ():
        if extensions.end == _END_OF_FIELDS:
            extensions.end = _LAST_OF_ENUM

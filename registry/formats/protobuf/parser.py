"""A .proto text to its FileDescriptorProto, as its declarations stand there: names of types are as they were written,
and options are `uninterpreted_option`. linking.py and options.py give both their meaning.

The public library for this (proto-schema-parser 2.1) was tried: it writes the errors of a text to stderr and goes on,
takes a comment within a declaration for a part of a name, and drops the options of groups. DESIGN.md has its cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.field_defaults import default_value
from kmini.registry.formats.protobuf.names import map_entry_name
from kmini.registry.formats.protobuf.tokens import Token, Tokens
from kmini.registry.formats.schema_format import InvalidSchema

MOST_NESTED: Final = 32
"""How deep messages, groups and the values of options may nest, as protoc has it."""

_Field = pb.FieldDescriptorProto
SCALARS: Final[dict[str, Any]] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _Field.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
_LABELS: Final = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
_EDITIONS: Final = {"2023": pb.EDITION_2023, "2024": pb.Edition.Value("EDITION_2024")}
"""The editions whose rules are known; the library that builds the descriptors judges whether it serves one."""
_LAST_FIELD: Final = (1 << 29) - 1
_LAST_OF_ENUM: Final = (1 << 31) - 1
_BRACKETS: Final = {"{": "}", "<": ">", "[": "]"}
_SPECIAL: Final = ("default", "json_name")
"""What is spelt as an option of a field, and is a part of its declaration."""


def parse(text: str) -> pb.FileDescriptorProto:
    """The declarations of a text. Raises InvalidSchema, with line and column."""
    return _Parser(text).parse()


class _Parser(Tokens):
    """Reads declarations into the messages of a descriptor, each by the method of its name."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._file = pb.FileDescriptorProto()
        self._syntax = "proto2"
        self._depth = 0

    def parse(self) -> pb.FileDescriptorProto:
        if self.skips("syntax"):
            self._syntax_statement()
        elif self.skips("edition"):
            self._edition_statement()
        while self.peek().kind != "end":
            if not self.skips(";"):
                self._declaration()
        return self._file

    def _syntax_statement(self) -> None:
        self.expect("=")
        self._syntax = self.text_string('"proto2" or "proto3"')
        if self._syntax not in ("proto2", "proto3"):
            raise InvalidSchema(f'The syntax is "{self._syntax[:60]}"; Protobuf has "proto2", "proto3" and editions.')
        if self._syntax == "proto3":  # descriptors leave proto2 out, as protoc does
            self._file.syntax = "proto3"
        self.expect(";")

    def _edition_statement(self) -> None:
        self.expect("=")
        edition = self.text_string('an edition, such as "2023"')
        if edition not in _EDITIONS:
            raise InvalidSchema(f'The edition is "{edition[:60]}"; this registry reads {" and ".join(_EDITIONS)}.')
        self._syntax = self._file.syntax = "editions"
        self._file.edition = _EDITIONS[edition]
        self.expect(";")

    def _declaration(self) -> None:
        file = self._file
        if self.skips("message"):
            self._message(file.message_type.add())
        elif self.skips("enum"):
            self._enum(file.enum_type.add())
        elif self.skips("extend"):
            self._extend(file.extension, file.message_type)
        elif self.skips("service"):
            self._service(file.service.add())
        elif self.skips("import"):
            self._import()
        elif self.skips("option"):
            self._option_statement(file.options)
        elif self.skips("package"):
            if file.HasField("package"):
                raise InvalidSchema("A .proto text has one package; this one has two.")
            file.package = self.type_name("the package").removeprefix(".")
            self.expect(";")
        else:
            raise self.unexpected("a declaration, such as message, enum, import, option or service")

    def _import(self) -> None:
        file = self._file
        place = len(file.dependency)
        if self.skips("public"):
            file.public_dependency.append(place)
        elif self.skips("weak"):
            file.weak_dependency.append(place)
        path = self.text_string("the path of an import")
        if path in file.dependency:
            raise InvalidSchema(f'The schema imports "{path}" twice.')
        file.dependency.append(path)
        self.expect(";")

    def _statements(self) -> Iterator[None]:
        """Give a turn for each statement in braces that is not empty."""
        self.expect("{")
        while not self.skips("}"):
            if not self.skips(";"):
                yield

    # Services

    def _service(self, service: Any) -> None:
        service.name = self.identifier("the name of a service")
        for _ in self._statements():
            if self.skips("option"):
                self._option_statement(service.options)
            elif self.skips("rpc"):
                self._method(service.method.add())
            else:
                raise self.unexpected("rpc, option or }")

    def _method(self, method: Any) -> None:
        method.name = self.identifier("the name of a method")
        method.input_type, streams = self._method_type()
        if streams:
            method.client_streaming = True
        self.expect("returns")
        method.output_type, streams = self._method_type()
        if streams:
            method.server_streaming = True
        if not self.skips(";"):
            for _ in self._statements():
                self.expect("option")
                self._option_statement(method.options)

    def _method_type(self) -> tuple[str, bool]:
        self.expect("(")
        streams = self.peek(1).text != ")" and self.skips("stream")
        name = self.type_name("the type of a message")
        self.expect(")")
        return name, streams

    # Messages

    def _message(self, message: Any) -> None:
        message.name = self.identifier("the name of a message")
        self._body(message)

    def _body(self, message: Any) -> None:
        if self._depth == MOST_NESTED:
            raise InvalidSchema(f"Messages nest deeper than {MOST_NESTED} levels, the most there may be.")
        self._depth += 1
        for _ in self._statements():
            self._member(message)
        self._depth -= 1
        _close_message_set(message)

    def _member(self, message: Any) -> None:
        # A field's type may be spelt like a word of the language: only what follows tells which it is.
        after = self.peek(1)
        names = after.kind == "ident"
        names_follow = names and self.peek(2).text in (",", ";")  # as editions reserve names
        if names and self.skips("message"):
            self._message(message.nested_type.add())
        elif names and self.skips("enum"):
            self._enum(message.enum_type.add())
        elif (names or after.text == ".") and self.skips("extend"):
            self._extend(message.extension, message.nested_type)
        elif (names or after.text == "(") and self.skips("option"):
            self._option_statement(message.options)
        elif names and self.skips("oneof"):
            self._oneof(message)
        elif after.kind == "int" and self.skips("extensions"):
            self._extension_ranges(message)
        elif (after.kind in ("int", "string") or names_follow) and self.skips("reserved"):
            self._reserved(message, 1, _LAST_FIELD)
        elif self._is_map():
            self._map_field(message)
        else:
            self._field(message.field.add(), message.nested_type)

    def _extension_ranges(self, message: Any) -> None:
        ranges = self._ranges(1, _LAST_FIELD)
        options = pb.ExtensionRangeOptions()
        read = self._options_in_brackets(options)
        for first, last in ranges:
            added = message.extension_range.add(start=first, end=last + 1)
            if read:
                added.options.CopyFrom(options)
        self.expect(";")

    def _reserved(self, declared: Any, least: int, greatest: int) -> None:
        """Read reserved numbers or names. The ranges of an enum hold their last number, those of a message do not."""
        kind = self.peek().kind
        if kind in ("string", "ident"):
            take = self.text_string if kind == "string" else self.identifier
            declared.reserved_name.append(take("a reserved name"))
            while self.skips(","):
                declared.reserved_name.append(take("a reserved name"))
        else:
            beyond = 1 if greatest == _LAST_FIELD else 0
            for first, last in self._ranges(least, greatest):
                declared.reserved_range.add(start=first, end=last + beyond)
        self.expect(";")

    def _ranges(self, least: int, greatest: int) -> list[tuple[int, int]]:
        """Numbers and ranges of them, last number included."""
        take = self.signed_integer if least < 0 else self.integer
        read = []
        while True:
            token = self.peek()
            first = last = take("a number or a range such as 4 to 8")
            if self.skips("to"):
                last = greatest if self.skips("max") else take("the last number of a range, or max")
            if not least <= first <= last <= greatest:
                raise self.wrong(
                    token, f"The range {first} to {last} is none of numbers up to {greatest}, first to last"
                )
            read.append((first, last))
            if not self.skips(","):
                return read

    def _oneof(self, message: Any) -> None:
        place = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=self.identifier("the name of a oneof"))
        self.expect("{")
        while not self.skips("}"):
            if self.skips("option"):
                self._option_statement(oneof.options)
                continue
            if self.peek().text in _LABELS and self.peek(1).kind == "ident" and self.peek(2).kind == "ident":
                raise InvalidSchema(f'Fields of the oneof "{oneof.name}" have no label such as "{self.peek().text}".')
            if self._is_map():
                raise InvalidSchema(f'The oneof "{oneof.name}" holds a map, which no oneof may.')
            self._field(message.field.add(oneof_index=place), message.nested_type, in_oneof=True)

    def _extend(self, extensions: Any, groups: Any) -> None:
        extendee = self.type_name("the message that is extended")
        if self.peek(1).text == "}":
            self.expect("{")
            raise self.unexpected("a field: extend without one means nothing")
        for _ in self._statements():
            if self._is_map():
                raise InvalidSchema(f'An extension of "{extendee}" is a map, which no extension may be.')
            self._field(extensions.add(extendee=extendee), groups)

    # Fields

    def _field(self, field: Any, groups: Any, *, in_oneof: bool = False) -> None:
        """Read a field. `groups` takes the message that it declares if it is a group."""
        self._label(field, in_oneof=in_oneof)
        if self.sees("group") and self.peek(1).kind == "ident" and self.peek(2).text == "=":
            self._group(field, groups)
            return
        self._type(field)
        field.name = self.identifier("the name of a field")
        self._number_and_options(field)
        self.expect(";")

    def _label(self, field: Any, *, in_oneof: bool) -> None:
        label = self.peek().text
        if label not in _LABELS or self.peek(1).text == "=" or in_oneof:
            field.label = _Field.LABEL_OPTIONAL
            if self._syntax == "proto2" and not in_oneof and not self._is_map():
                raise self.unexpected('a label of the field ("required", "optional" or "repeated")')
            return
        self.take()
        field.label = _LABELS[label]
        if label == "optional" and self._syntax == "proto3":
            field.proto3_optional = True
        if self._syntax == "editions" and label != "repeated":
            raise InvalidSchema(f'Editions have no label "{label}": features.field_presence says it.')

    def _is_map(self) -> bool:
        return self.sees("map") and self.peek(1).text == "<"

    def _type(self, field: Any) -> None:
        name = self.type_name("the type of a field")
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _number_and_options(self, field: Any) -> None:
        self.expect("=")
        token = self.peek()
        field.number = self._number_within(token, self.integer("the number of a field"))
        read = self._options_in_brackets(field.options)
        kept = [option for option in read if not _take_special_option(field, option)]
        if len(kept) < len(read):
            options = pb.FieldOptions(uninterpreted_option=kept)
            field.ClearField("options")
            if kept:
                field.options.CopyFrom(options)

    def _number_within(self, token: Token, number: int) -> int:
        if not 1 <= number < 1 << 31:
            raise self.wrong(token, f"The number {number} is none that a field can have")
        return number

    def _group(self, field: Any, groups: Any) -> None:
        if self._syntax != "proto2":
            raise self.unexpected("a field without the word group, which only proto2 has")
        self.take()
        name = self.identifier("the name of a group")
        if not name[0].isupper():
            raise InvalidSchema(f'The group "{name}" has to begin with a capital letter.')
        field.type = _Field.TYPE_GROUP
        field.type_name = name
        field.name = name.lower()
        self._number_and_options(field)
        self._body(groups.add(name=name))

    def _map_field(self, message: Any) -> None:
        field = message.field.add(label=_Field.LABEL_REPEATED)
        self.take()
        self.expect("<")
        entry = message.nested_type.add()
        entry.options.map_entry = True
        for place, part in enumerate(("key", "value"), 1):
            self._type(entry.field.add(name=part, number=place, label=_Field.LABEL_OPTIONAL))
            self.expect("," if part == "key" else ">")
        field.name = self.identifier("the name of a field")
        entry.name = field.type_name = map_entry_name(field.name)
        self._number_and_options(field)
        self.expect(";")

    # Enums

    def _enum(self, enum: Any) -> None:
        enum.name = self.identifier("the name of an enum")
        for _ in self._statements():
            is_value = self.peek(1).text == "="
            if not is_value and self.skips("option"):
                self._option_statement(enum.options)
            elif not is_value and self.skips("reserved"):
                self._reserved(enum, -1 << 31, _LAST_OF_ENUM)
            else:
                self._enum_value(enum.value.add())

    def _enum_value(self, value: Any) -> None:
        value.name = self.identifier("the name of an enum's value")
        self.expect("=")
        token = self.peek()
        number = self.signed_integer("the number of an enum's value")
        if not -1 << 31 <= number < 1 << 31:
            raise self.wrong(token, f"The number {number} of {value.name} has more than 32 bits")
        value.number = number
        self._options_in_brackets(value.options)
        self.expect(";")

    # Options

    def _option_statement(self, options: Any) -> None:
        """Read what follows `option` into an options message."""
        self._assignment(options)
        self.expect(";")

    def _options_in_brackets(self, options: Any) -> list[Any]:
        """Read `[a = b, …]` into an options message if it comes. Returns the options that were read."""
        if not self.skips("["):
            return []
        read = [self._assignment(options)]
        while self.skips(","):
            read.append(self._assignment(options))
        self.expect("]")
        return read

    def _assignment(self, options: Any) -> Any:
        option = options.uninterpreted_option.add()
        self._option_name(option)
        while self.skips("."):
            self._option_name(option)
        self.expect("=")
        self._option_value(option)
        return option

    def _option_name(self, option: Any) -> None:
        """Read a part of an option's name: a word, or an extension's name in parentheses."""
        part = option.name.add()
        part.is_extension = self.skips("(")
        if part.is_extension:
            part.name_part = self.type_name("the name of an extension")
            self.expect(")")
        else:
            part.name_part = self.identifier("the name of an option")

    def _option_value(self, option: Any) -> None:
        if self.sees("{"):
            option.aggregate_value = self._aggregate()
            return
        negative = self.skips("-")
        token = self.peek()
        if token.kind == "string" and not negative:
            option.string_value = self.string("the value of an option")
        elif token.kind not in ("int", "float", "ident"):
            raise self.unexpected("the value of an option")
        else:
            self.take()
            self._number_or_word(option, token, negative)

    def _number_or_word(self, option: Any, token: Token, negative: bool) -> None:
        if token.kind == "int":
            number = self.read_integer(token)
            if negative and number <= 1 << 63:
                option.negative_int_value = -number
            elif not negative and number < 1 << 64:
                option.positive_int_value = number
            else:
                option.double_value = float(-number if negative else number)
        elif token.kind == "ident" and not negative:
            option.identifier_value = token.text
        elif token.kind == "float" or token.text in ("inf", "nan"):
            option.double_value = -float(token.text) if negative else float(token.text)
        else:
            raise self.wrong(token, f'A minus stands before "{token.text}", which is no number')

    def _aggregate(self) -> str:
        """The tokens between two braces with spaces between them, as protoc keeps a message in text format. None
        follows a minus: the library that reads the format wants it at its number."""
        self.expect("{")
        closing = ["}"]
        parts: list[str] = []
        while True:
            token = self.peek()
            if token.kind == "end":
                raise self.unexpected("the end of an option's value, }")
            self.take()
            if token.kind == "symbol":
                self._follow_brackets(token, closing)
                if not closing:
                    return " ".join(parts)
            if parts and parts[-1] == "-":
                parts[-1] = f"-{token.text}"
            else:
                parts.append(token.text)

    def _follow_brackets(self, token: Token, closing: list[str]) -> None:
        if token.text in _BRACKETS:
            if len(closing) == MOST_NESTED:
                raise InvalidSchema(
                    f"The value of an option nests deeper than {MOST_NESTED} levels, the most there may be."
                )
            closing.append(_BRACKETS[token.text])
        elif token.text in _BRACKETS.values() and token.text != closing.pop():
            raise self.wrong(token, f"The bracket {token.text} closes none that was opened before it")


def _take_special_option(field: Any, option: Any) -> bool:
    """Put an option of `_SPECIAL` into the field's declaration. Returns whether it is one of them."""
    name = option.name[0].name_part
    if len(option.name) != 1 or option.name[0].is_extension or name not in _SPECIAL:
        return False
    if field.HasField("default_value" if name == "default" else name):
        raise InvalidSchema(f'The field "{field.name}" has the option "{name}" twice.')
    if name == "default":
        field.default_value = default_value(field, option)
        return True
    if not option.HasField("string_value"):
        raise InvalidSchema(f'The option "json_name" of the field "{field.name}" has to be a string.')
    try:
        field.json_name = option.string_value.decode()
    except UnicodeDecodeError:
        raise InvalidSchema(f'The option "json_name" of the field "{field.name}" is not UTF-8.') from None
    return True


def _close_message_set(message: Any) -> None:
    """Let "to max" reach as far as the numbers of a MessageSet do."""
    is_set = any(
        option.identifier_value == "true" and [part.name_part for part in option.name] == ["message_set_wire_format"]
        for option in message.options.uninterpreted_option
    )
    for extensions in message.extension_range if is_set else ():
        if extensions.end == _LAST_FIELD + 1:
            extensions.end = _LAST_OF_ENUM

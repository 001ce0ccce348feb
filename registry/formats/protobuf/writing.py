"""A linked file as .proto text: one spelling for what means the same, so that comments, white space and the order of
options make no other schema. Declarations keep their order within their kind, which is what the message indexes in
front of a record in Kafka count."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import descriptor_pool

from kmini.registry.formats.protobuf.field_defaults import quoted, spelt_default
from kmini.registry.formats.protobuf.names import camel_case, map_entry_name
from kmini.registry.formats.protobuf.options import spelt_options
from kmini.registry.formats.schema_format import InvalidSchema

_Field = pb.FieldDescriptorProto
_LABELS = {_Field.LABEL_OPTIONAL: "optional ", _Field.LABEL_REQUIRED: "required ", _Field.LABEL_REPEATED: "repeated "}
_END_OF_FIELDS = 1 << 29
_LAST_OF_ENUM = (1 << 31) - 1

Block = list[str]
"""Lines that belong together. An empty line stands between two blocks."""


def write(file: Any, pool: descriptor_pool.DescriptorPool, *, sort_imports: bool = False) -> str:
    """The text of a linked file."""
    return _Writer(file, pool).text(sort_imports)


class _Writer:
    def __init__(self, file: Any, pool: descriptor_pool.DescriptorPool) -> None:
        self._file = file
        self._pool = pool
        self._proto2 = file.syntax in ("", "proto2")

    def text(self, sort_imports: bool) -> str:
        file = self._file
        imports = self._imports()
        blocks = [self._head(), sorted(imports) if sort_imports else imports, self._option_lines(file)]
        blocks += self._types(file, file.extension)
        blocks += [self._service(service) for service in file.service]
        return _joined(blocks)

    def _head(self) -> Block:
        file = self._file
        if file.syntax == "editions":
            head = [f'edition = "{pb.Edition.Name(file.edition).removeprefix("EDITION_")}";']
        else:
            head = [f'syntax = "{file.syntax or "proto2"}";']
        return [*head, f"package {file.package};"] if file.package else head

    def _imports(self) -> Block:
        file = self._file
        words = dict.fromkeys(file.public_dependency, "public ") | dict.fromkeys(file.weak_dependency, "weak ")
        return [f"import {words.get(place, '')}{quoted(path)};" for place, path in enumerate(file.dependency)]

    def _types(self, holder: Any, extensions: Any) -> list[Block]:
        """Messages, enums and extensions of a file."""
        written = _Nested(holder.message_type)
        extend_blocks = self._extends(extensions, written)
        early = [self._message(message) for message in written.before_groups]
        late = [self._message(message) for message in written.rest()]
        enums = [self._enum(enum) for enum in holder.enum_type]
        return [*early, *extend_blocks, *late, *enums] if written.groups else [*late, *enums, *extend_blocks]

    def _message(self, message: Any) -> Block:
        nested = _Nested(message.nested_type)
        blocks: list[Block] = [_reserved(message, self._file.syntax), self._option_lines(message)]
        for oneof, fields in groupby(message.field, lambda field: _oneof_of(message, field)):
            if oneof is None:
                self._fields(blocks, fields, nested)
            else:
                blocks.append(self._oneof(oneof, fields, nested, blocks))
        blocks.append(self._extension_ranges(message))
        blocks += self._extends(message.extension, nested, blocks)
        blocks += [self._message(inner) for inner in nested.rest()]
        blocks += [self._enum(enum) for enum in message.enum_type]
        return _braces(f"message {message.name}", blocks)

    def _fields(self, blocks: list[Block], fields: Any, nested: _Nested) -> None:
        """Append blocks of fields. Messages that are declared before the entry of a map or before a group have to come
        before its field, or their places among the nested types would change."""
        block: Block = []
        for field in fields:
            earlier = [self._message(inner) for inner in nested.before(field)]
            if earlier:
                blocks += [block, *earlier]
                block = []
            block += self._field(field, nested)
        blocks.append(block)

    def _oneof(self, oneof: Any, fields: Any, nested: _Nested, blocks: list[Block]) -> Block:
        lines: Block = []
        for field in fields:
            blocks += [self._message(inner) for inner in nested.before(field)]
            lines += self._field(field, nested, labelled=False)
        return _braces(f"oneof {oneof.name}", [self._option_lines(oneof), lines])

    def _extends(self, extensions: Any, nested: _Nested, blocks: list[Block] | None = None) -> list[Block]:
        extend_blocks = []
        for extendee, fields in groupby(extensions, lambda field: field.extendee):
            lines: Block = []
            for field in fields:
                earlier = nested.before(field)
                if blocks is not None:
                    blocks += [self._message(inner) for inner in earlier]
                else:
                    nested.before_groups += earlier
                lines += self._field(field, nested)
            extend_blocks.append(_braces(f"extend {extendee}", [lines]))
        return extend_blocks

    def _field(self, field: Any, nested: _Nested, *, labelled: bool = True) -> Block:
        entry = nested.entry_of(field)
        type_name = field.type_name or _scalar(field)
        label = self._label(field) if labelled else ""
        if entry is not None:
            key, value = entry.field
            label, type_name = "", f"map<{_scalar(key)}, {value.type_name or _scalar(value)}>"
        options = self._field_options(field)
        if field.type == _Field.TYPE_GROUP:
            body = self._message(nested.group_of(field))
            body[0] = f"{label}group {body[0].removeprefix('message ').split(' ')[0]} = {field.number}{options} {{"
            if len(body) == 1:
                body.append("}")
            return body
        return [f"{label}{type_name} {field.name} = {field.number}{options};"]

    def _label(self, field: Any) -> str:
        if field.label == _Field.LABEL_REPEATED or self._proto2 or field.proto3_optional:
            return _LABELS[field.label]
        return ""

    def _field_options(self, field: Any) -> str:
        spelt = []
        if field.HasField("default_value"):
            spelt.append(("default", spelt_default(field)))
        if field.json_name != camel_case(field.name) and field.HasField("json_name"):
            spelt.append(("json_name", quoted(field.json_name)))
        return _in_brackets(spelt + self._options(field))

    def _extension_ranges(self, message: Any) -> Block:
        lines = []
        for extensions in message.extension_range:
            last = extensions.end - 1
            greatest = extensions.end in (_END_OF_FIELDS, _LAST_OF_ENUM)
            lines.append(
                f"extensions {_range(extensions.start, last, greatest)}{_in_brackets(self._options(extensions))};"
            )
        return lines

    def _enum(self, enum: Any) -> Block:
        values = [f"{value.name} = {value.number}{_in_brackets(self._options(value))};" for value in enum.value]
        return _braces(f"enum {enum.name}", [_reserved(enum, self._file.syntax), self._option_lines(enum), values])

    def _service(self, service: Any) -> Block:
        lines: Block = []
        for method in service.method:
            given = f"({'stream ' if method.client_streaming else ''}{method.input_type})"
            returned = f"({'stream ' if method.server_streaming else ''}{method.output_type})"
            head = f"rpc {method.name} {given} returns {returned}"
            options = self._option_lines(method)
            lines += _braces(head, [options]) if options else [f"{head};"]
        return _braces(f"service {service.name}", [self._option_lines(service), lines])

    def _option_lines(self, declaration: Any) -> Block:
        return [f"option {name} = {value};" for name, value in self._options(declaration)]

    def _options(self, declaration: Any) -> list[tuple[str, str]]:
        return spelt_options(declaration.options, self._pool) if declaration.HasField("options") else []


class _Nested:
    """Nested messages in their order, and which of them are entries of maps or groups of a field."""

    def __init__(self, messages: Any) -> None:
        self._messages = list(messages)
        self._places = {message.name: place for place, message in enumerate(self._messages)}
        self._next = 0
        self._taken: set[int] = set()
        self.before_groups: list[Any] = []
        self.groups = False

    def entry_of(self, field: Any) -> Any:
        """The message of a map field's entries; None for another field."""
        place = self._place_of(field)
        if place is None or field.type == _Field.TYPE_GROUP:
            return None
        self._taken.add(place)
        return self._messages[place]

    def group_of(self, field: Any) -> Any:
        """The message that a group field declares."""
        place = self._place_of(field)
        if place is None:
            raise InvalidSchema(f'The group "{field.name}" has a message that is not declared beside it.')
        self._taken.add(place)
        self.groups = True
        return self._messages[place]

    def before(self, field: Any) -> list[Any]:
        """The messages not written yet that stand before the one that a field declares."""
        place = self._place_of(field)
        return [] if place is None else list(self._rest_until(place))

    def rest(self) -> list[Any]:
        """The messages not written yet."""
        return list(self._rest_until(len(self._messages)))

    def _rest_until(self, end: int) -> Iterator[Any]:
        while self._next < end:
            place = self._next
            self._next += 1
            if place not in self._taken and not self._messages[place].options.map_entry:
                yield self._messages[place]

    def _place_of(self, field: Any) -> int | None:
        name = field.type_name.rpartition(".")[2]
        place = self._places.get(name)
        if place is None:
            return None
        if field.type == _Field.TYPE_GROUP:
            return place
        message = self._messages[place]
        is_entry = name == map_entry_name(field.name) and message.options.map_entry and len(message.field) == 2
        return place if is_entry else None


def _oneof_of(message: Any, field: Any) -> Any:
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return message.oneof_decl[field.oneof_index]


def _scalar(field: Any) -> str:
    return str(_Field.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _reserved(declared: Any, syntax: str) -> Block:
    enum = isinstance(declared, pb.EnumDescriptorProto)
    spelt = []
    for reserved in declared.reserved_range:
        last = reserved.end if enum else reserved.end - 1
        spelt.append(_range(reserved.start, last, last == (_LAST_OF_ENUM if enum else _END_OF_FIELDS - 1)))
    names = list(declared.reserved_name) if syntax == "editions" else [quoted(name) for name in declared.reserved_name]
    return [f"reserved {', '.join(items)};" for items in (spelt, names) if items]


def _range(first: int, last: int, greatest: bool) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if greatest else last}"


def _in_brackets(options: list[tuple[str, str]]) -> str:
    spelt = (f"{name} = {value}" for name, value in sorted(options, key=lambda option: option[0]))
    return f" [{', '.join(spelt)}]" if options else ""


def _braces(head: str, blocks: list[Block]) -> Block:
    body = _joined(blocks)
    if not body:
        return [f"{head} {{}}"]
    return [f"{head} {{", *(f"  {line}" if line else "" for line in body.removesuffix("\n").split("\n")), "}"]


def _joined(blocks: list[Block]) -> str:
    return "".join("\n".join(block) + "\n\n" for block in blocks if block).removesuffix("\n")

"""The source of an encoder. It writes without checking; if that fails, `explain` finds the value that did not fit."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from .function_source import FunctionSource, holds_records, singular
from .primitives import UUID, WireType, unsigned_varint

if TYPE_CHECKING:
    from .schema import Field, Message, Struct, Type

COPIED_RECORDS = 8 * 1024
"""Records below this size are copied into the message: cheaper than one more buffer to send."""


class EncoderSource(FunctionSource):
    """`def encode_X_vN(message, out)`: a list of buffers, the first of which is `out` with what it had."""

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version, "encode", "message, out", ("parts", "n"))
        self.holds_records = holds_records(cls, version)
        self.begin()
        self.struct(cls, "message")
        self.finish()

    def struct(self, cls: type[Struct], source: str) -> None:
        self.check_class(source, cls)
        fields = [field for field in cls.__fields__ if field.exists_in(self.version)]
        untagged = [field for field in fields if field.tag is None]
        tagged = [field for field in fields if field.tag is not None]
        count = self.usually_empty(untagged)
        for field in untagged[: len(untagged) - count]:
            self.value(field.type, field.is_nullable_in(self.version), f"{source}.{field.name}")
        if not count:
            self.end(untagged[:0], tagged, source)
            return
        end = untagged[-count:]
        # Most structs end with fields that have nothing to say: these are one constant.
        is_empty = " and ".join(self.comparison(field, source, True) for field in end + tagged)
        self.flush()
        with self.block(f"if {is_empty}:"):
            self.fixed_bytes(b"".join(map(self.empty, end)) + (bytes(1) if self.is_flexible else b""))
        with self.block("else:"):
            self.end(end, tagged, source)

    def end(self, fields: list[Field], tagged: list[Field], source: str) -> None:
        """Lines that write the last fields of a struct and its tagged ones."""
        for field in fields:
            self.value(field.type, field.is_nullable_in(self.version), f"{source}.{field.name}")
        self.flush()
        if self.is_flexible:
            self.tags(tagged, source)

    def usually_empty(self, fields: list[Field]) -> int:
        """How many fields at the end are arrays that are empty by default, or strings that are null; at least two."""
        count = 0
        for field in reversed(fields):
            is_array = field.type.element is not None and field.default == []
            is_string = field.default is None and field.type.wire is not None and field.type.wire.name == "string"
            if not (is_array or (is_string and field.is_nullable_in(self.version))):
                break
            count += 1
        return count if count > 1 else 0

    def empty(self, field: Field) -> bytes:
        """The default of a field that is usually empty, as it is written."""
        assert field.type.wire is not None
        if self.is_flexible:
            return bytes([0 if field.default is None else 1])
        return (bytes([255]) if field.default is None else bytes(1)) * field.type.wire.size

    def value(self, type_: Type, is_nullable: bool, source: str) -> None:
        """Lines that write the value of an expression. They may wait in the run until `flush`."""
        if type_.wire is not None and type_.wire.is_fixed:
            if type_.wire is UUID:  # struct would cut or fill it up in silence
                self.check_uuid(source)
            self.run.append(source)
            self.codes += type_.wire.code
            return
        is_string = type_.wire is not None and type_.wire.name == "string"
        name = self.variable(source.rpartition(".")[2])
        if not is_nullable:
            self.read(name, source, is_string=is_string)
            self.present(type_, name)
            return
        self.flush()
        self.read(name, source)
        with self.block(f"if {name} is None:"):
            self.null(type_)
        with self.block("else:"):
            if is_string:
                self.read(name, name, is_string=True)
            if type_.struct is not None:
                self.byte("1")
            self.present(type_, name)

    def null(self, type_: Type) -> None:
        if type_.struct is not None:
            self.byte("255")
        elif self.is_flexible:
            self.byte("0")
        else:
            assert type_.wire is not None
            self.fixed_bytes(bytes([255]) * type_.wire.size)

    def present(self, type_: Type, name: str) -> None:
        """Lines that write a value of variable size that is not null; strings are bytes already."""
        if type_.struct is not None:
            self.flush()
            self.struct(type_.struct, name)
            return
        assert type_.wire is not None
        length = self.length_of(name, type_)
        if self.is_flexible:
            self.flush()
            self.compact_length(length)
        else:
            self.run.append(length)
            self.codes += type_.wire.code
            self.flush()
        if type_.element is not None:
            self.array(type_.element, name)
        elif type_.wire.name == "records":
            with self.block(f"if {length} < {COPIED_RECORDS}:"):
                self.contents(name, is_string=type_.wire.name == "string")
            with self.block("else:"):
                self.pass_on(name)
        else:
            self.contents(name, is_string=type_.wire.name == "string")

    def array(self, element: Type, name: str) -> None:
        wire = element.wire
        if wire is not None and wire.is_fixed and wire is not UUID:
            self.fixed_size_items(name, wire)
            return
        item = self.variable(singular(name))
        with self.each_item(item, name):
            if element.struct is not None:
                self.struct(element.struct, item)
            else:
                self.value(element, element.is_nullable, item)
                self.flush()

    def tags(self, tagged: list[Field], source: str) -> None:
        """Lines that write those of the tagged fields that differ from their defaults."""
        if not tagged:
            self.byte("0")
            return
        with self.block(f"if {' and '.join(self.comparison(field, source, True) for field in tagged)}:"):
            self.byte("0")
        with self.block("else:"), self.tag_section() as section:
            for field in sorted(tagged, key=lambda field: field.tag or 0):
                with self.block(f"if {self.comparison(field, source, False)}:"), self.tagged_field(field, section):
                    if field.is_struct_or_null:
                        self.struct_or_null(field.type, f"{source}.{field.name}")
                    else:
                        is_nullable = field.is_nullable_in(self.version) and field.type.struct is None
                        self.value(field.type, is_nullable, f"{source}.{field.name}")
                    self.flush()

    def struct_or_null(self, type_: Type, source: str) -> None:
        """Lines that write a tagged struct that may be null."""
        name = self.variable(source.rpartition(".")[2])
        self.read(name, source)
        with self.block(f"if {name} is None:"):
            self.byte("0")
        with self.block("else:"):
            self.byte("1")
            self.present(type_, name)

    # What follows is Python; `cython_source.py` has each of it in Cython.

    def begin(self) -> None:
        """Lines before the first field."""
        self.namespace["varint"] = unsigned_varint
        if self.holds_records:
            self.line("parts = []")

    def finish(self) -> None:
        if self.holds_records:
            self.line("parts.append(out)")
        self.line(f"return {'parts' if self.holds_records else '[out]'}")

    def check_class(self, source: str, cls: type[Struct]) -> None:
        """Lines that make sure that a struct is of a class; Python finds the fields of any."""

    def read(self, name: str, source: str, *, is_string: bool = False) -> None:
        """A line that puts the value of an expression into a variable, encoded if it is a string."""
        self.line(f"{name} = {source}{'.encode()' if is_string else ''}")

    def length_of(self, name: str, type_: Type) -> str:
        """An expression: how many bytes or elements the value of a variable has. May write lines for it first."""
        return f"len({name})"

    def comparison(self, field: Field, source: str, is_equal: bool) -> str:
        """A condition: whether a field has its default. May write lines for it first."""
        if field.default is None:
            return f"{source}.{field.name} {'is' if is_equal else 'is not'} None"
        is_literal = isinstance(field.default, (int, str, list))
        value = repr(field.default) if is_literal else self.constant(f"{field.name}_default", field.default)
        return f"{source}.{field.name} {'==' if is_equal else '!='} {value}"

    def check_uuid(self, source: str) -> None:
        with self.block(f"if len({source}) != 16:"):
            self.line('raise ValueError("a uuid has 16 bytes")')

    def byte(self, value: str) -> None:
        self.line(f"out.append({value})")

    def fixed_bytes(self, value: bytes) -> None:
        self.line(f"out += {value!r}")

    def compact_length(self, length: str) -> None:
        """Lines that write the length of a flexible version."""
        self.line(f"n = {length} + 1")
        with self.block("if n < 128:"):
            self.line("out.append(n)")
        with self.block("elif n < 16384:"):
            self.line("out.append(n & 127 | 128)")
            self.line("out.append(n >> 7)")
        with self.block("else:"):
            self.line("out += varint(n)")

    def contents(self, name: str, *, is_string: bool) -> None:
        """A line that writes the bytes of a string, bytes or records."""
        self.line(f"out += {name}")

    def pass_on(self, name: str) -> None:
        """Lines that pass records on as a buffer of their own."""
        self.line(f"parts += (out, {name})")
        self.line("out = bytearray()")

    def fixed_size_items(self, name: str, wire: WireType) -> None:
        """A line that writes a list of numbers."""
        self.namespace["pack"] = struct.pack
        self.line(f'out += pack(f">{{len({name})}}{wire.code}", *{name})')

    def each_item(self, item: str, name: str) -> AbstractContextManager[None]:
        return self.block(f"for {item} in {name}:")

    @contextmanager
    def tag_section(self) -> Iterator[Any]:
        """Lines around those of the tagged fields of a struct; what `tagged_field` needs to know."""
        message, section, count = self.variable("outer"), self.variable("section"), self.variable("tags")
        self.line(f"{message}, {section}, {count} = out, bytearray(), 0")
        yield section, count
        self.line(f"out = {message}")
        self.byte(count)
        self.line(f"out += {section}")

    @contextmanager
    def tagged_field(self, field: Field, section: Any) -> Iterator[None]:
        """Lines around those that write the value of a tagged field."""
        names, count = section
        self.line("out = bytearray()")
        yield
        self.line(f"{names} += varint({field.tag}) + varint(len(out)) + out")
        self.line(f"{count} += 1")

    def flush(self) -> None:
        """Turn the fixed-size values that wait into one line."""
        if self.run:
            values = self.run
            pack, _ = self.packer("pack", "pack")
            self.items(f"out += {pack}(", values, ")")

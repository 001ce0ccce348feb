"""The source of a decoder. Nothing that the bytes say is believed.

A length or count is compared with the bytes that are left before anything is made of it. Memory is charged to a budget
before it is taken: an array, before its first element is read, with all that its elements take at least. Contents of
strings and bytes take as much as they do on the wire, which the budget leaves out; a string with wide characters is
charged for the difference when it is there, which at its worst is four times its size.
"""

from __future__ import annotations

import struct
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from .function_source import FunctionSource, holds_records, singular
from .primitives import ARRAY, MAX_UNKNOWN_TAGS, UUID, WireType, read_tag, read_unsigned_varint, skip_tags

if TYPE_CHECKING:
    from .schema import Field, Message, Struct, Type

SMALL_MESSAGE_MEMORY = 512 * 1024
"""Bytes of memory that a message of any size may take. (Topics with short names and no other fields take twenty times
their bytes on the wire, and an honest client may create a thousand.)"""

MAX_OBJECTS_PER_BYTE = 256 * 1024
"""Times `memory_per_byte`: bytes that the objects of a message may take at most, without the contents of strings and
bytes. That is enough for ten thousand partitions, and delays other connections by some tens of milliseconds at most."""

TAG_CHARGE = 64
"""Bytes charged for an unknown tag. It is not kept; the charge stands for the time to skip it."""


class DecoderSource(FunctionSource):
    """`def decode_X_vN(buffer)`: the message, or an exception."""

    length_of_text = "len(text)"

    def __init__(self, cls: type[Message], version: int) -> None:
        variables = ("data", "end", "budget", "position", "stop", "text", "tags", "tag", "n", "more")
        super().__init__(cls, version, "decode", "buffer", variables)
        self.keeps_views = holds_records(cls, version)
        self.begin()
        least = _memory_of_struct(cls, version)
        with self.block(f"if end <= {SMALL_MESSAGE_MEMORY // cls.memory_per_byte}:"):
            self.line(f"budget = {SMALL_MESSAGE_MEMORY - least} - end")  # as `memory_budget` has it
        with self.block("else:"):
            self.line(f"budget = memory_budget(end, {cls.memory_per_byte}) - {least}")
        self.line("position = 0")
        message = self.struct(cls, "message", "")
        if not cls.ignores_trailing_bytes:
            with self.block("if position != end:"):
                self.refuse('f"{end - position} bytes follow its last field"')
        with self.block("if budget < 0:"):
            self.malformed("", "would need too much memory")
        self.line(f"return {message}")

    def struct(self, cls: type[Struct], name: str, path: str) -> str:
        """Lines that read a struct into a new variable, whose name is returned."""
        self.flush()
        target = self.variable(name)
        self.make(target, cls)
        tagged = []
        for field in cls.__fields__:
            if field.tag is not None and field.exists_in(self.version):
                tagged.append(field)
            if field.tag is not None or not field.exists_in(self.version):
                self.default(field, target)
            else:
                self.value(field.type, field.is_nullable_in(self.version), f"{target}.{field.name}", path)
        self.flush()
        if self.is_flexible:
            self.tags(tagged, target, path)
        return target

    def default(self, field: Field, target: str) -> None:
        is_literal = field.default is None or isinstance(field.default, (int, str, list))
        value = repr(field.default) if is_literal else self.constant(f"{field.name}_default", field.default)
        self.assign(f"{target}.{field.name}", value)

    def value(self, type_: Type, is_nullable: bool, target: str, path: str) -> None:
        """Lines that read one value into `target`, an attribute or an item. They may wait in the run until `flush`."""
        name = target.rpartition(".")[2]
        if "." in target:  # a field; an item of an array goes by the array's name
            path = f"{path}.{name}" if path else name
        if type_.struct is not None:
            self.inner_struct(type_.struct, is_nullable, target, path)
        elif type_.wire is not None and type_.wire.is_fixed:
            self.run.append(target)
            self.codes += type_.wire.code
        else:
            self.length(type_)
            if is_nullable:
                self.sized_or_null(type_, target, path)
            else:
                with self.block("if n < 0:"):
                    self.malformed(path, "is null" if self.is_flexible else "is null or has a negative length")
                self.sized(type_, target, path)

    def struct_or_null(self, type_: Type, target: str, path: str) -> None:
        """Lines that read a tagged struct that may be null."""
        assert type_.struct is not None
        self.flush()
        self.byte("n")
        with self.block("if n == 0:"):
            self.assign(target, "None")
        with self.block("else:"):
            self.assign(target, self.struct(type_.struct, target.rpartition(".")[2], path))

    def inner_struct(self, cls: type[Struct], is_nullable: bool, target: str, path: str) -> None:
        name = target.rpartition(".")[2]
        if not is_nullable:
            self.assign(target, self.struct(cls, name, path))
            return
        self.flush()
        self.byte("n")
        with self.block("if n > 127:"):  # a negative int8 (KIP-893)
            self.assign(target, "None")
        with self.block("else:"):
            self.assign(target, self.struct(cls, name, path))

    def length(self, type_: Type) -> None:
        """Lines that read a length into `n`, negative for null."""
        assert type_.wire is not None
        if not self.is_flexible:
            self.run.append("n")
            self.codes += type_.wire.code
            self.flush()
            return
        self.flush()
        self.compact_length()

    def sized_or_null(self, type_: Type, target: str, path: str) -> None:
        with self.block("if n < 0:"):
            if not self.is_flexible:
                with self.block("if n != -1:"):
                    self.malformed(path, "has a negative length")
            self.assign(target, "None")
        with self.block("else:"):
            self.sized(type_, target, path)

    def sized(self, type_: Type, target: str, path: str) -> None:
        """Lines that read the `n` bytes or elements of a value that is not null."""
        assert type_.wire is not None
        if type_.element is not None:
            self.array(type_.element, target, path)
            return
        self.line("stop = position + n")
        if type_.wire.name == "string":
            self.string(target)
            with self.block(f"if {self.length_of_text} != n:"):  # it has wide characters, or was cut off by the end
                with self.block("if stop > end:"):
                    self.malformed(path, "is longer than the message")
                self.line(f"budget -= 27 + 3 * {self.length_of_text}")
        else:
            with self.block("if stop > end:"):
                self.malformed(path, "is longer than the message")
            self.piece(target, is_view=type_.wire.name == "records")
        self.line("position = stop")

    def array(self, element: Type, target: str, path: str) -> None:
        smallest = _smallest(element, self.version, self.is_flexible)
        with self.block(f"if n > {f'(end - position) // {smallest}' if smallest > 1 else 'end - position'}:"):
            self.malformed(path, "has more elements than there are bytes for")
        self.line(f"budget -= n * {8 + _memory_of(element, self.version) - smallest}")
        with self.block("if budget < 0:"):
            self.malformed(path, "would need too much memory")
        wire = element.wire
        if wire is not None and wire.is_fixed and wire is not UUID:
            self.fixed_size_items(target, wire)
            self.line(f"position += {f'n * {wire.size}' if wire.size > 1 else 'n'}")
            return
        name = target.rpartition(".")[2]
        items = self.variable(name)
        left = self.number(f"left_{name}")
        self.empty_list(target, items)
        self.line(f"{left} = n")
        with self.block(f"while {left}:"):  # most arrays have one element or none, and a range costs more than either
            self.line(f"{left} -= 1")
            if element.struct is not None:
                self.line(f"{items}.append({self.struct(element.struct, singular(name), path)})")
            else:
                item = self.variable(singular(name))
                self.value(element, element.is_nullable, item, path)
                self.flush()
                self.line(f"{items}.append({item})")

    def tags(self, tagged: list[Field], target: str, path: str) -> None:
        """Lines that read the tagged fields behind a struct's others."""
        self.byte("tags")
        with self.block("if tags:"):
            self.line(f"budget -= tags * {TAG_CHARGE}")
            if not tagged:
                self.skip_tags()
                return
            with self.block(f"if tags > {MAX_UNKNOWN_TAGS}:"):
                self.malformed(path, "has too many tagged fields")
            end_of_tag = self.number("end_of_tag")
            with self.tag_loop():
                self.read_tag(end_of_tag)
                for keyword, field in zip(["if"] + ["elif"] * len(tagged), tagged, strict=False):
                    with self.block(f"{keyword} tag == {field.tag}:"):
                        self.line(f"budget -= {_memory_of(field.type, self.version)}")
                        if field.is_struct_or_null:
                            self.struct_or_null(field.type, f"{target}.{field.name}", path)
                        else:
                            is_nullable = field.is_nullable_in(self.version) and field.type.struct is None
                            self.value(field.type, is_nullable, f"{target}.{field.name}", path)
                        self.flush()
                with self.block("else:"):
                    self.line(f"position = {end_of_tag}")
                with self.block(f"if position != {end_of_tag}:"):
                    self.malformed(path, "has a tagged field of another size than it says")

    def malformed(self, path: str, reason: str) -> None:
        self.refuse(f'"{path or "it"} {reason}"')

    # What follows is Python; `cython_source.py` has each of it in Cython.

    def begin(self) -> None:
        """Lines before the first field."""
        self.namespace |= {
            "new": object.__new__,
            "memory_budget": memory_budget,
            "long_length": _long_length,
            "read_tag": read_tag,
            "skip_tags": skip_tags,
        }
        if self.keeps_views:
            self.line("data = buffer if type(buffer) is memoryview else memoryview(buffer)")
        else:  # to cut a copy into pieces is cheaper than to cut a view
            self.line("data = bytes(buffer)")
        self.line("end = len(data)")

    def refuse(self, reason: str) -> None:
        """A line that ends the function because the message is malformed; `reason` is an expression."""
        self.line(f"raise MalformedMessage({reason})")

    def make(self, target: str, cls: type[Struct]) -> None:
        """Lines that make a struct without its fields."""
        self.line(f"{target} = new({self.constant(cls.__name__, cls)})")

    def assign(self, target: str, value: str) -> None:
        self.line(f"{target} = {value}")

    def flush(self) -> None:
        """Turn the fixed-size values that wait into one line."""
        if self.run:
            targets = self.run
            unpack, size = self.packer("unpack", "unpack_from")
            closing = f"{',' if len(targets) == 1 else ''}) = {unpack}(data, position)"
            self.items("(", targets, closing)
            self.line(f"position += {size}")

    def byte(self, target: str) -> None:
        """Lines that read one byte into a variable."""
        self.line(f"{target} = data[position]")
        self.line("position += 1")

    def compact_length(self) -> None:
        """Lines that read the length of a flexible version into `n`."""
        self.line("n = data[position] - 1")
        self.line("position += 1")
        with self.block("if n > 126:"):
            self.line("more = data[position]")
            with self.block("if more < 128:"):
                self.line("n += (more << 7) - 128")
                self.line("position += 1")
            with self.block("else:"):
                self.line("n, position = long_length(data, position)")

    def string(self, target: str) -> None:
        """Lines that decode what is between `position` and `stop`, but not behind the end, into `target` and `text`."""
        piece = 'str(data[position:stop], "utf-8")' if self.keeps_views else "data[position:stop].decode()"
        self.line(f"{target} = text = {piece}")

    def piece(self, target: str, *, is_view: bool) -> None:
        """Lines for the bytes between `position` and `stop`: a view of them, or a copy."""
        is_copied = self.keeps_views and not is_view
        self.line(f"{target} = {'bytes(data[position:stop])' if is_copied else 'data[position:stop]'}")

    def fixed_size_items(self, target: str, wire: WireType) -> None:
        """Lines that read a list of `n` numbers."""
        self.namespace["unpack_from"] = struct.unpack_from
        self.line(f'{target} = list(unpack_from(f">{{n}}{wire.code}", data, position))')

    def empty_list(self, target: str, items: str) -> None:
        self.line(f"{target} = {items} = []")

    def skip_tags(self) -> None:
        """Lines that skip as many tagged fields as `tags` says."""
        self.line("position = skip_tags(data, position, tags)")

    def tag_loop(self) -> AbstractContextManager[None]:
        return self.block("for _ in range(tags):")

    def read_tag(self, end_of_tag: str) -> None:
        """Lines that read the number of a tagged field into `tag`, and where it ends into a variable."""
        self.line(f"tag, {end_of_tag}, position = read_tag(data, position)")


def memory_budget(size: int, memory_per_byte: int) -> int:
    """Bytes that the objects of a message of `size` bytes may take, without the contents of strings and bytes."""
    budget = max(SMALL_MESSAGE_MEMORY, size * memory_per_byte) - size
    return min(budget, memory_per_byte * MAX_OBJECTS_PER_BYTE)


def _long_length(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The length whose first byte is the one before `position`, if it has more than one."""
    n, position = read_unsigned_varint(data, position - 1)
    return n - 1, position


def _memory_of(type_: Type, version: int) -> int:
    """Bytes that a value takes at least."""
    if type_.struct is not None:
        return _memory_of_struct(type_.struct, version)
    assert type_.wire is not None
    return type_.wire.memory


def _memory_of_struct(cls: type[Struct], version: int) -> int:
    size = 32 + 8 * len(cls.__fields__)
    for field in cls.__fields__:
        if field.exists_in(version) and field.tag is None:
            size += _memory_of(field.type, version)
        elif field.default == []:
            size += ARRAY.memory
    return size


def _smallest(type_: Type, version: int, is_flexible: bool) -> int:
    """The fewest bytes that a value has on the wire."""
    if type_.struct is not None:
        fields = [field for field in type_.struct.__fields__ if field.exists_in(version) and field.tag is None]
        nullable = [field for field in fields if field.type.struct is not None and field.type.is_nullable]
        others = [field for field in fields if field not in nullable]
        sizes = [_smallest(field.type, version, is_flexible) for field in others]
        return sum(sizes) + len(nullable) + is_flexible
    assert type_.wire is not None
    return type_.wire.size if type_.wire.is_fixed or not is_flexible else 1

"""Decoders and encoders as Cython: the rules are those of `decoder_source` and `encoder_source`, the primitives those
of `codec_primitives.pyx`.

Where the Python function raises, the compiled one gives up: it returns None or False, and the Python function is asked.
Fields are slots, which `Struct_field` numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .decoder_source import DecoderSource
from .encoder_source import EncoderSource
from .function_source import FunctionSource, singular
from .primitives import WireType
from .schema import structs_of

if TYPE_CHECKING:
    from .schema import Field, Message, Struct, Type

PRIMITIVES_SOURCE = Path(__file__).with_name("codec_primitives.pyx").read_text(encoding="utf-8")

FIXED = {"b": ("b", 1), "h": ("h", 2), "i": ("i", 4), "q": ("q", 8), "s": ("uuid", 16)}
"""By the letter of a value of fixed size: the end of the names of its primitives, as in `load_h`, and its bytes.
Compiled messages have no others."""


PRIMITIVES = frozenset(re.findall(r"^cdef [^#\n=]*?(\w+)\(", PRIMITIVES_SOURCE, re.MULTILINE))
"""The names that no variable may have."""


def struct_names(cls: type[Message]) -> dict[type[Struct], str]:
    """The name that each struct of a message has in Cython, outermost first."""
    return {struct: struct.__qualname__.replace(".", "_") for struct in structs_of(cls)}


class CythonSource(FunctionSource):
    """What decoders and encoders have in common: typed variables, fields that are slots."""

    gives_up = "None"

    def begin_cython(self, opening: str) -> None:
        self._lines = [opening]
        self._variables |= PRIMITIVES | {"view", "at"}
        self.structs = struct_names(self.cls)
        self.numbers: dict[str, str] = {}
        """The variables that are no objects, and their types."""
        self.objects: set[str] = set()
        self.lists: set[str] = set()
        self.classes: dict[str, type[Struct]] = {}
        """The classes of the structs that variables hold."""

    @property
    def text(self) -> str:
        opening, *body = self._lines
        declared = [f"    cdef {kind} {name}" for name, kind in self.numbers.items()]
        declared += [f"    cdef {'list' if name in self.lists else 'object'} {name}" for name in sorted(self.objects)]
        return "\n".join([opening, *declared, *body]) + "\n"

    def variable(self, wish: str) -> str:
        name = super().variable(wish)
        self.objects.add(name)
        return name

    def number(self, wish: str, kind: str = "int64_t") -> str:
        name = super().variable(wish)
        self.numbers[name] = kind
        return name

    def constant(self, wish: str, value: object) -> str:
        return repr(value)

    def slot(self, source: str) -> str:
        """The arguments that find a field, which is written `variable.field`."""
        variable, _, field = source.partition(".")
        return f"{variable}, {self.structs[self.classes[variable]]}_{field}"

    def fixed_size_values(self) -> Iterator[tuple[str, str, str]]:
        """The values that wait, each with its primitives' name and its address behind `at`; then none waits."""
        at = 0
        for expression, code in zip(self.run, self.codes.replace("16s", "s"), strict=True):
            name, size = FIXED[code]
            yield expression, name, f" + {at}" if at else ""
            at += size
        self.run, self.codes = [], ""

    def fixed_size(self) -> int:
        """The bytes of the values that wait."""
        return sum(FIXED[code][1] for code in self.codes.replace("16s", "s"))

    def require(self, condition: str) -> None:
        """Lines that give up unless something holds."""
        with self.block(f"if not ({condition}):"):
            self.line(f"return {self.gives_up}")


class CythonDecoderSource(CythonSource, DecoderSource):
    """`cdef object read_X_vN(view, data, end)`: the message, or None for the interpreted function to decide."""

    length_of_text = "PyUnicode_GET_LENGTH(text)"

    def begin(self) -> None:
        self.begin_cython(f"cdef object read_{self.suffix}(object view, Bytes data, Py_ssize_t end):")
        self.numbers |= dict.fromkeys(("budget", "n", "stop", "tags", "tag"), "int64_t") | {"position": "Py_ssize_t"}
        self.objects.add("text")

    def refuse(self, reason: str) -> None:
        self.line("return None")

    def make(self, target: str, cls: type[Struct]) -> None:
        self.classes[target] = cls
        self.line(f"{target} = new({self.structs[cls]})")

    def assign(self, target: str, value: str) -> None:
        self.line(f"put({self.slot(target)}, {value})" if "." in target else f"{target} = {value}")

    def flush(self) -> None:
        if self.run:
            size = self.fixed_size()
            self.require(f"end - position >= {size}")
            for target, letter, at in self.fixed_size_values():
                load = "int" if target == "n" else "load"
                self.assign(target, f"{load}_{letter}(data + position{at})")
            self.line(f"position += {size}")

    def byte(self, target: str) -> None:
        self.require("position < end")
        super().byte(target)

    def compact_length(self) -> None:
        self.require("compact_length(data, end, &position, &n)")

    def string(self, target: str) -> None:
        self.line("text = string(data, position, stop, end)")
        self.assign(target, "text")

    def piece(self, target: str, *, is_view: bool) -> None:
        self.assign(target, f"{'view_of(view' if is_view else 'copy_of(data'}, position, stop)")

    def fixed_size_items(self, target: str, wire: WireType) -> None:
        letter, size = FIXED[wire.code]
        at, item = self.number("item_at", "Py_ssize_t"), self.variable(target.rpartition(".")[2])
        self.empty_list(target, item)
        self.line(f"{at} = position")
        with self.block(f"while {at} < position + n * {size}:"):
            self.line(f"{item}.append(load_{letter}(data + {at}))")
            self.line(f"{at} += {size}")

    def empty_list(self, target: str, items: str) -> None:
        self.line(f"{items} = []")
        self.lists.add(items)
        self.assign(target, items)

    def skip_tags(self) -> None:
        self.require("skip_tags(data, end, &position, tags)")

    @contextmanager
    def tag_loop(self) -> Iterator[None]:
        left = self.number("left_tags")
        self.line(f"{left} = tags")
        with self.block(f"while {left}:"):
            self.line(f"{left} -= 1")
            yield

    def read_tag(self, end_of_tag: str) -> None:
        self.require(f"read_tag(data, end, &position, &tag, &{end_of_tag})")


class CythonEncoderSource(CythonSource, EncoderSource):
    """`cdef bint write_X_vN(message, out)`: whether it was written, and not left to the interpreted function."""

    gives_up = "False"

    def begin(self) -> None:
        self.begin_cython(f"cdef bint write_{self.suffix}(object message, Writer *out) except -1:")
        self.numbers["at"] = "unsigned char *"

    def finish(self) -> None:
        self.line("return True")

    def check_class(self, source: str, cls: type[Struct]) -> None:
        self.classes[source] = cls
        self.require(f"is_a({source}, {self.structs[cls]})")

    def read(self, name: str, source: str, *, is_string: bool = False) -> None:
        value = f"field({self.slot(source)})" if "." in source else source
        self.line(f"{name} = {f'utf8({value})' if is_string else value}")
        if is_string:
            self.require(f"{name} is not None")

    def length_of(self, name: str, type_: Type) -> str:
        assert type_.wire is not None
        if type_.element is not None:
            self.require(f"PyList_CheckExact(<PyObject *>{name})")
            return f"PyList_GET_SIZE({name})"
        if type_.wire.name == "string":
            return f"utf8_size({name})"
        size = self.number(f"{name}_size", "Py_ssize_t")
        self.require(f"size_of_bytes({name}, &{size})")
        return size

    def comparison(self, field: Field, source: str, is_equal: bool) -> str:
        place = self.slot(f"{source}.{field.name}")
        if field.default is None:
            condition = f"field({place}) is None"
        elif field.default == []:
            condition = f"is_empty_list(held({place}))"
        else:
            self.require(f"is_{type(field.default).__name__}(held({place}))")
            condition = f"field({place}) == {field.default!r}"
        return condition if is_equal else f"not ({condition})"

    def check_uuid(self, source: str) -> None:
        """`store_uuid` does."""

    def byte(self, value: str) -> None:
        self.require(f"write_byte(out, {value})")

    def fixed_bytes(self, value: bytes) -> None:
        self.require(f"write(out, <char *>{value!r}, {len(value)})")

    def compact_length(self, length: str) -> None:
        self.require(f"write_varint(out, {length} + 1)")

    def contents(self, name: str, *, is_string: bool) -> None:
        self.require(f"write_{'utf8' if is_string else 'bytes'}(out, {name})")

    def pass_on(self, name: str) -> None:
        self.require(f"pass_on(out, {name})")

    def fixed_size_items(self, name: str, wire: WireType) -> None:
        item = self.variable(singular(name))
        with self.each_item(item, name):
            self.run.append(item)
            self.codes += wire.code
            self.flush()

    @contextmanager
    def each_item(self, item: str, name: str) -> Iterator[None]:
        index = self.number(f"{name}_index")
        self.line(f"{index} = 0")
        with self.block(f"while {index} < PyList_GET_SIZE({name}):"):
            self.line(f"{item} = <object>PyList_GET_ITEM({name}, {index})")
            self.line(f"{index} += 1")
            yield

    @contextmanager
    def tag_section(self) -> Iterator[str]:
        tags_at = self.number("tags_at")
        self.line(f"{tags_at} = out.size")
        self.byte("0")
        yield tags_at

    @contextmanager
    def tagged_field(self, field: Field, section: str) -> Iterator[None]:
        value_at = self.number("value_at")
        self.require(f"write_varint(out, {field.tag})")
        self.line(f"{value_at} = out.size")
        yield
        self.require(f"end_tag(out, {section}, {value_at})")

    def flush(self) -> None:
        if self.run:
            size = self.fixed_size()
            self.line(f"at = room_for(out, {size})")
            self.require("at is not NULL")
            for expression, letter, at in self.fixed_size_values():
                if "(" in expression or expression in self.numbers:
                    self.require(f"length_{letter}(at{at}, {expression})")
                else:
                    value = f"held({self.slot(expression)})" if "." in expression else f"<PyObject *>{expression}"
                    self.require(f"store_{letter}(at{at}, {value})")
            self.line(f"out.size += {size}")

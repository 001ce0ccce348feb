"""A Python function under construction, as `compile` builds them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .errors import MalformedMessage

if TYPE_CHECKING:
    from .schema import Message, Struct

MAX_LINE = 110


class FunctionSource:
    """The lines of a function, the names that it uses, and the run of fixed-size values that will become one line."""

    def __init__(self, cls: type[Message], version: int, verb: str, parameters: str, variables: Sequence[str]) -> None:
        self.cls = cls
        self.version = version
        self.is_flexible = version >= cls.flexible_from
        self.suffix = f"{cls.__name__}_v{version}"
        self.name = f"{verb}_{self.suffix}"
        self.namespace: dict[str, Any] = {"MalformedMessage": MalformedMessage}
        self.run: list[str] = []
        """Expressions of neighbouring values of fixed size."""
        self.codes = ""
        """The letters of these values for `struct`."""
        self._lines = [f"def {self.name}({parameters}):"]
        self._depth = 1
        self._variables = {*parameters.split(", "), *variables}

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compiled(self) -> Callable[..., Any]:
        exec(compile(self.text, f"<{self.name}>", "exec"), self.namespace)
        function: Callable[..., Any] = self.namespace[self.name]
        return function

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Indented lines; variables made inside are free again behind it."""
        self.line(opening)
        outside = set(self._variables)
        self._depth += 1
        yield
        self._depth -= 1
        self._variables = outside

    def items(self, opening: str, items: Sequence[str], closing: str) -> None:
        """One line, or one for each item if it would be too long."""
        line = f"{opening}{', '.join(items)}{closing}"
        if 4 * self._depth + len(line) <= MAX_LINE:
            self.line(line)
            return
        self.line(opening)
        for item in items:
            self.line(f"    {item},")
        self.line(closing)

    def variable(self, wish: str) -> str:
        """A new name; `wish` if that is free."""
        name, n = wish, 1
        while name in self._variables or name in self.namespace:
            n += 1
            name = f"{wish}_{n}"
        self._variables.add(name)
        return name

    def number(self, wish: str) -> str:
        """A new name for a number that is no field's."""
        return self.variable(wish)

    def constant(self, wish: str, value: object) -> str:
        """A name for an object that the function needs."""
        name = wish
        while self.namespace.setdefault(name, value) is not value or name in self._variables:
            name += "_"
        return name

    def packer(self, verb: str, method: str) -> tuple[str, int]:
        """A name for the `struct.Struct` method that does the waiting run, and its size. Nothing waits then."""
        packer = struct.Struct(">" + self.codes)
        name = f"{verb}_{self.codes.replace('16s', 'uuid').replace('?', 'Z')}"
        self.namespace.setdefault(name, getattr(packer, method))
        self.run, self.codes = [], ""
        return name, packer.size


def holds_records(cls: type[Struct], version: int) -> bool:
    """Whether the struct, or one inside it, has record batches in this version."""
    for field in cls.__fields__:
        held = field.type.element or field.type
        if not field.exists_in(version):
            continue
        if held.struct is not None:
            if holds_records(held.struct, version):
                return True
        elif held.wire is not None and held.wire.name == "records":
            return True
    return False


def singular(name: str) -> str:
    """The singular of a plural `name`."""
    return name[:-1] if name.endswith("s") else f"{name}_item"

"""The words of the module `cython` that compiled modules use, for when they run interpreted.

Modules that setup.py compiles, and their parts, import this module under the name `cython`. In the file that Cython
compiles, setup.py imports Cython's own module in its place. So kmini needs Cython when it is built and never when it
runs.

Interpreted, no word has an effect: a declaration is the value it declares, a decorator returns the function, a type is
a name. Type checkers take a number of C for an int.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

Decorated = TypeVar("Decorated")

compiled = False

NULL = None


class _Type:
    """A type of C, or one that is made of others: `pointer[const[uchar]]`. Its values are the caller's own."""

    def __getitem__(self, item: object) -> _Type:
        return self


if TYPE_CHECKING:
    int = builtins.int
    longlong = builtins.int
    ulonglong = builtins.int
    Py_ssize_t = builtins.int
    uchar = builtins.int
    bint = bool
    double = builtins.float
    void = pointer = const = _Type()
else:
    uchar = int = bint = double = longlong = ulonglong = Py_ssize_t = void = pointer = const = _Type()
Py_buffer = _Type()


def struct(**members: object) -> Any:
    """A class whose objects have these members."""
    return type("Struct", (), {"__slots__": tuple(members), "__init__": _set_members})


def _set_members(this: Any, **members: Any) -> None:
    for name, value in members.items():
        setattr(this, name, value)


def address(value: Any) -> Any:
    """The value: interpreted, a struct and a pointer to it are the same."""
    return value


def typedef(kind: Any) -> Any:
    return kind


def declare(kind: object, value: Any = 0, *, visibility: str = "private") -> Any:
    """The value; as in C it is None for an object where none is given, and 0 for a number."""
    return None if value == 0 and isinstance(kind, type) and not issubclass(kind, _Type) else value


def _as_it_is(decorated: Decorated) -> Decorated:
    return decorated


cclass = cfunc = ccall = final = inline = no_gc = _as_it_is


def freelist(size: object) -> Callable[[Decorated], Decorated]:
    """Keep the memory of so many objects for the next ones."""
    return _as_it_is


def exceptval(value: object = None, *, check: bool = True) -> Callable[[Decorated], Decorated]:
    return _as_it_is


class _NoGil(nullcontext[None]):
    """`with nogil:` and `@nogil`, both without effect: the interpreter keeps its lock."""

    def __call__(self, decorated: Decorated) -> Decorated:
        return decorated


nogil = _NoGil()

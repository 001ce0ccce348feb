"""The state of an object and of everything of kmini's that it reaches, as comparable lines."""

from __future__ import annotations

import asyncio
import enum
import functools
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

_SKIPPED = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    asyncio.AbstractEventLoop,
    asyncio.AbstractServer,
    asyncio.Handle,
)


def state_of(root: object, normal: Callable[[str], str], left_out: Collection[str] = ()) -> dict[str, str]:
    """Every value that `root` reaches, by the path to it: attributes, entries of mappings, items of sequences.

    An object counts at the first path to it. `normal` gives a text as it is compared, with names in place of random
    ids. Attributes of the names `left_out` are not followed.
    """
    found: dict[str, str] = {}
    seen: dict[int, object] = {}
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        path, value = waiting.pop(0)
        if isinstance(value, _SKIPPED):
            continue
        if value is None or isinstance(value, str | bytes | bytearray | int | float | enum.Enum):
            found[normal(path)] = normal(repr(value))
            continue
        if id(value) in seen:
            continue
        seen[id(value)] = value  # kept, so that no other object gets its id
        children = [*_children(value)]
        found[normal(path)] = f"{type(value).__name__} of {len(children)}"
        waiting += [(f"{path}{name}", child) for name, child in children if name[1:] not in left_out]
    return found


def _children(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, types.MethodType):
        yield ".self", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f".args[{number}]", one) for number, one in enumerate(value.args))
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", one) for key, one in sorted(value.items(), key=lambda item: repr(item[0])))
    elif isinstance(value, set | frozenset):
        yield from ((f"{{{number}}}", one) for number, one in enumerate(sorted(value, key=repr)))
    elif isinstance(value, list | tuple) or type(value).__name__ == "deque":
        yield from ((f"[{number}]", one) for number, one in enumerate(value))
    elif type(value).__module__.startswith("kmini"):
        names = {name for cls in type(value).__mro__ for name in _slots(cls)} | {*getattr(value, "__dict__", ())}
        yield from ((f".{name}", getattr(value, name)) for name in sorted(names) if hasattr(value, name))


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)

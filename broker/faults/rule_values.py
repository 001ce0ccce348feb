"""The values of fault rules and their acts: each is checked and brought into the form in which it is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, get_args

from ...protocol.errors import InvalidArgument, InvalidType, error_named, error_names
from ...protocol.similar_names import similar_names
from ..clock import milliseconds

Check: TypeAlias = Callable[[str, Any], Any]
"""Takes the name of a value and the value; returns it in the form in which it is kept. Raises ValueError and
TypeError."""

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|KiB|MB|MiB)/s")
_RATE_UNITS = {"B": 1, "KB": 1_000, "KiB": 1_024, "MB": 1_000_000, "MiB": 1 << 20}


def nearest(name: object, names: Iterable[str]) -> str:
    """Which of these names is meant, as the end of a message: "; did you mean Fetch?"; empty if none is near."""
    found = similar_names(str(name), names)
    return f"; did you mean {found[0]}?" if found else ""


def choices(name: object, names: Iterable[str], what: str) -> str:
    """The end of a message about a wrong name: the nearest one, and all: "; did you mean topic? It has: ..."."""
    near = nearest(name, names := list(names))
    return f"{near} {what}: {', '.join(names)}" if near else f"; {what[0].lower()}{what[1:]}: {', '.join(names)}"


def integer(name: str, value: object, least: int) -> int:
    """An int of `least` or more. Raises ValueError and TypeError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidType(f"{name}={value!r}: must be an int of {least} or more")
    if value < least:
        raise InvalidArgument(f"{name}={value!r}: must be {least} or more")
    return value


def at_least(least: int) -> Check:
    """The check of an int of `least` or more."""
    return lambda name, value: integer(name, value, least)


def duration(name: str, value: Any, *, least_ms: int = 0) -> int:
    """A duration in milliseconds. Raises ValueError and TypeError."""
    if isinstance(value, bool):
        raise InvalidType(f"{name}={value!r}: must be a duration, as '200ms'")
    found = milliseconds(value)
    if found < least_ms:
        raise InvalidArgument(f"{name}={value!r}: must be at least {least_ms} ms")
    return found


def flag(name: str, value: object) -> bool:
    """True or False. Raises TypeError."""
    if not isinstance(value, bool):
        raise InvalidType(f"{name}={value!r}: must be True or False")
    return value


def error_name(name: str, value: object) -> str:
    """Kafka's name of an error, or the number of one of the schema registry's. Raises ValueError and TypeError."""
    if isinstance(value, int) and value >= 400:  # of the schema registry; Kafka's are given by name
        value = str(value)
    if not isinstance(value, str):
        raise InvalidType(f"{name}={value!r}: must be the name of an error as str")
    if value.isdecimal():
        return value
    if value not in error_names():
        raise InvalidArgument(f"there is no error {value!r}{nearest(value, error_names())}")
    return error_named(value).kafka_name


def text(name: str, value: object) -> str | None:
    """A text, or None. Raises TypeError."""
    if value is not None and not isinstance(value, str):
        raise InvalidType(f"{name}={value!r}: must be a str")
    return value


def record_errors(name: str, value: object) -> tuple[tuple[int, str], ...]:
    """The reasons by index, in the order of the batch; JSON has the indexes as text."""
    if not isinstance(value, Mapping) or not all(isinstance(reason, str) for reason in value.values()):
        raise InvalidType(
            f"{name}={value!r}: must be an object of reasons by the index of a record, as {{0: 'no total'}}"
        )
    indexes = [int(key) if isinstance(key, str) and key.isdecimal() else key for key in value]
    return tuple(sorted(zip((integer(name, index, 0) for index in indexes), value.values(), strict=True)))


def function(name: str, value: object) -> Callable[..., Any]:
    """A Python function. Raises TypeError."""
    if not callable(value):
        raise InvalidType(f"{name}={value!r}: must be a function of the request and the broker's answer")
    return value


def rate(name: str, value: object) -> int:
    """Bytes a second, as 1000 or "1KB/s". Raises ValueError and TypeError."""
    if isinstance(value, str):
        found = _RATE.fullmatch(value.strip())
        if found is None:
            raise InvalidArgument(f"{name}={value!r}: must be bytes a second, as 1000 or '1KB/s'")
        value = int(float(found[1]) * _RATE_UNITS[found[2]])
    return integer(name, value, 1)


def one_of(kind: Any) -> Check:
    """The check of one of the values of a Literal."""

    def check(name: str, value: object) -> object:
        if value not in get_args(kind):
            raise InvalidArgument(
                f"{name}={value!r}: must be one of {', '.join(get_args(kind))}{nearest(value, get_args(kind))}"
            )
        return value

    return check

"""What a value of the test kit is in JSON, by the annotation of a method: it is read, and described for OpenAPI.

A named tuple or a dataclass is an object with its fields. Keys and values of records are texts (`json_data.py`). A
partition as the key of an object is "orders-0". `to_json` writes values without annotations.
"""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from functools import cache
from typing import Any, Literal, Protocol, Union, get_args, get_origin

from kmini.broker.groups.group import Departure
from kmini.broker.network.socket_server import ClosedClient
from kmini.broker.reset import ResetReport
from kmini.broker.snapshots import Snapshot
from kmini.protocol.errors import InvalidArgument
from kmini.protocol.topics import TopicPartition
from kmini.storage.cleaner.stats import PassReport
from kmini.testkit.journal_handle import What
from kmini.web.json_data import data_from_json, data_to_json

Schema = dict[str, Any]

MOST_SHOWN = 60
"""Characters of a wrong value in a message."""

_PLACE = tuple[str, int]
"""How a method takes a partition as the key of a mapping."""


class WrongValue(InvalidArgument):
    """A value is not what was expected. `pointer` is its place, as a JSON pointer (RFC 6901). `expected` is what the
    value must be, where the message shows the value."""

    def __init__(self, message: str, pointer: str = "", expected: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.pointer: str = pointer
        self.expected = expected

    def within(self, name: object) -> WrongValue:
        """The same error, seen from the value that has this member."""
        escaped = str(name).replace("~", "~0").replace("/", "~1")
        return WrongValue(self.message, f"/{escaped}{self.pointer}", self.expected)

    def without_value(self) -> WrongValue:
        """The same error, with a message that does not show the value."""
        return WrongValue(f"the value must be {self.expected}", self.pointer) if self.expected else self

    @property
    def first_name(self) -> str:
        """The name of the outermost member on the way to the value; empty where the value is no member."""
        return self.pointer[1:].partition("/")[0].replace("~1", "/").replace("~0", "~")


def to_json(value: Any, data: Callable[[bytes | None], Any] = data_to_json) -> Any:
    """The value as `json.dumps` takes it. `data` writes keys and values of records. Raises TypeError for what has no
    form in JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return data(value)
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: to_json(getattr(value, name), data) for name in value._fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name), data) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key_text(key): to_json(one, data) for key, one in value.items()}
    if isinstance(value, AbstractSet):
        return [to_json(one, data) for one in sorted(value)]
    if isinstance(value, Iterable):
        return [to_json(one, data) for one in value]
    raise TypeError(f"{value!r} has no form in JSON")


def _key_text(key: Any) -> str:
    return str(TopicPartition(*key)) if isinstance(key, tuple) else str(key)


class _Unpack:
    """Stands for `Unpack`, which only type checkers import."""

    def __class_getitem__(cls, keywords: type) -> type:
        return keywords


NAMES: dict[str, Any] = {
    each.__name__: each for each in (ClosedClient, Departure, PassReport, ResetReport, Snapshot, What)
} | {
    "Unpack": _Unpack,
    "os": os,
}
"""What modules import for type checkers alone."""


class Kind(Protocol):
    """The values that an annotation allows."""

    def read(self, value: Any) -> Any:
        """The value that JSON stands for. Raises WrongValue."""

    def schema(self) -> Schema:
        """The JSON Schema (2020-12, as OpenAPI 3.1 has it)."""


class _Plain:
    """A number, a text, true or false, or null."""

    def __init__(self, python: type, name: str, expected: str) -> None:
        self._python, self._name, self._expected = python, name, expected

    def read(self, value: Any) -> Any:
        is_it = isinstance(value, self._python) and (self._python is bool or not isinstance(value, bool))
        if self._python is float and isinstance(value, int) and not isinstance(value, bool):
            return value
        return value if is_it else refuse(value, self._expected)

    def schema(self) -> Schema:
        return {"type": self._name}


class _Anything:
    """Any JSON; the check of the argument says more."""

    def read(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {}


class _Data:
    """The key or the value of a record."""

    def read(self, value: Any) -> Any:
        if value is None:
            return refuse(value, "the data of a record")
        try:
            return data_from_json(value)
        except (ValueError, TypeError) as error:
            raise WrongValue(f"base64: {error}", "/base64") from None

    def schema(self) -> Schema:
        base64 = {"type": "string", "contentEncoding": "base64"}
        encoded = {"type": "object", "properties": {"base64": base64}, "required": ["base64"]}
        return {
            "description": 'UTF-8, or {"base64": ...}; other JSON stands for its text',
            "anyOf": [_TEXT, encoded, {}],
        }


class _Choice:
    """One of these values."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def read(self, value: Any) -> Any:
        return value if value in self._values else refuse(value, " or ".join(f'"{one}"' for one in self._values))

    def schema(self) -> Schema:
        return {"enum": [*self._values]}


class _Either:
    """A value of one of these kinds, the first that takes it."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds

    def read(self, value: Any) -> Any:
        refused: list[WrongValue] = []
        for kind in self._kinds:
            try:
                return kind.read(value)
            except WrongValue as error:
                refused.append(error)
        deepest = max(reversed(refused), key=lambda error: len(error.pointer))  # the last kind is not null
        if deepest.pointer or not all(error.expected for error in refused):
            raise deepest
        return refuse(value, " or ".join(dict.fromkeys(error.expected for error in reversed(refused))))

    def schema(self) -> Schema:
        return {"anyOf": [kind.schema() for kind in self._kinds]}


class _Partition:
    """ "orders-0"."""

    def read(self, value: Any) -> Any:
        topic, dash, number = value.rpartition("-") if isinstance(value, str) else ("", "", "")
        if not (topic and dash and number.isascii() and number.isdigit()):
            return refuse(value, 'a topic and a partition, as "orders-0"')
        return TopicPartition(topic, int(number))

    def schema(self) -> Schema:
        return {"type": "string", "pattern": "^.+-[0-9]+$"}


class _Numeral:
    """A whole number as the key of an object."""

    def read(self, value: Any) -> Any:
        return int(value) if value.removeprefix("-").isdecimal() else refuse(value, "a whole number")

    def schema(self) -> Schema:
        return {"type": "string", "pattern": "^-?[0-9]+$"}


class _Items:
    """An array."""

    def __init__(self, python: Callable[[Iterable[Any]], Any], item: Kind) -> None:
        self._python, self._item = python, item

    def read(self, value: Any) -> Any:
        if not isinstance(value, list):
            return refuse(value, "an array")
        return self._python([_member(number, one, self._item) for number, one in enumerate(value)])

    def schema(self) -> Schema:
        return {"type": "array", "items": self._item.schema()}


class _Sequence:
    """An array with a value of each of these kinds."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds

    def read(self, value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(self._kinds):
            return refuse(value, f"an array of {len(self._kinds)}")
        return tuple(
            _member(number, one, kind) for number, (one, kind) in enumerate(zip(value, self._kinds, strict=True))
        )

    def schema(self) -> Schema:
        return {"type": "array", "prefixItems": [kind.schema() for kind in self._kinds], "items": False}


class _Mapping:
    """An object with any members."""

    def __init__(self, python: Callable[[dict[Any, Any]], Any], key: Kind, member: Kind) -> None:
        self._python, self._key, self._member = python, key, member

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return refuse(value, "an object")
        return self._python(
            {_member(name, name, self._key): _member(name, one, self._member) for name, one in value.items()}
        )

    def schema(self) -> Schema:
        return {"type": "object", "propertyNames": self._key.schema(), "additionalProperties": self._member.schema()}


class _Structure:
    """An object with the fields of a class."""

    def __init__(self, python: type, fields: Mapping[str, Kind], optional: Collection[str]) -> None:
        self._python, self._fields, self._optional = python, fields, optional

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return refuse(value, f"an object with {', '.join(self._fields)}")
        if missing := [name for name in self._fields if name not in value and name not in self._optional]:
            raise WrongValue(f"{', '.join(missing)} is missing")
        if unknown := [name for name in value if name not in self._fields]:
            raise WrongValue(f"there is no {unknown[0]}, only {', '.join(self._fields)}", f"/{unknown[0]}")
        return self._python(**{name: _member(name, one, self._fields[name]) for name, one in value.items()})

    def schema(self) -> Schema:
        return {
            "title": self._python.__name__,
            "type": "object",
            "properties": {name: kind.schema() for name, kind in self._fields.items()},
            "required": [name for name in self._fields if name not in self._optional],
        }


def refuse(value: Any, expected: str) -> Any:
    """Raise WrongValue."""
    text = repr(value)
    shown = text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
    raise WrongValue(f"{shown}: must be {expected}", expected=expected)


def _member(name: object, value: Any, kind: Kind) -> Any:
    try:
        return kind.read(value)
    except WrongValue as error:
        raise error.within(name) from None


_TEXT: Schema = {"type": "string"}

_ONLY_PYTHON = (Callable, timedelta, os.PathLike)
"""What a method takes in Python, and JSON has no form for."""

_PLAIN: dict[Any, Kind] = {
    int: _Plain(int, "integer", "a whole number"),
    float: _Plain(float, "number", "a number"),
    str: _Plain(str, "string", "a text"),
    bool: _Plain(bool, "boolean", "true or false"),
    type(None): _Plain(type(None), "null", "null"),
    None: _Plain(type(None), "null", "null"),
    bytes: _Data(),
    Any: _Anything(),
    TopicPartition: _Partition(),
}

_ARRAYS: dict[Any, Callable[[Iterable[Any]], Any]] = {
    list: list,
    set: set,
    tuple: tuple,
    Collection: tuple,
    Iterable: tuple,
    Sequence: tuple,
}


@cache
def kind_of(annotation: Any) -> Kind:
    """The kind of the values that an annotation allows. Raises TypeError for one that has no form in JSON."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _Choice(arguments)
    if origin in (Union, types.UnionType):
        in_json = [one for one in arguments if get_origin(one) not in _ONLY_PYTHON and one not in _ONLY_PYTHON]
        return _Either([kind_of(one) for one in sorted(in_json, key=lambda one: one is not type(None))])
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _Sequence([kind_of(one) for one in arguments])
    if origin in _ARRAYS:
        return _Items(_ARRAYS[origin], kind_of(arguments[0]))
    if origin in (dict, Mapping):
        return _Mapping(dict, _key_kind(arguments[0]), kind_of(arguments[1]))
    if isinstance(annotation, type) and issubclass(annotation, dict):
        key, member = get_args(annotation.__orig_bases__[0])  # type: ignore[attr-defined]
        return _Mapping(annotation, _key_kind(key), kind_of(member))
    if isinstance(annotation, type) and (hasattr(annotation, "_fields") or dataclasses.is_dataclass(annotation)):
        return _structure(annotation)
    raise TypeError(f"{annotation} has no form in JSON")


def _key_kind(annotation: Any) -> Kind:
    if annotation is int:
        return _Numeral()
    return _PLAIN[TopicPartition] if annotation == _PLACE else kind_of(annotation)


def _structure(python: type) -> Kind:
    annotations = typing.get_type_hints(python, localns=NAMES)
    if dataclasses.is_dataclass(python):
        fields = dataclasses.fields(python)
        names = [field.name for field in fields]
        required = {field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING}
    else:
        names = [*python._fields]  # type: ignore[attr-defined]
        required = {*names} - {*python._field_defaults}  # type: ignore[attr-defined]
    return _Structure(python, {name: kind_of(annotations[name]) for name in names}, {*names} - required)

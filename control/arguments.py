"""A call of a method of the test kit whose arguments are JSON: read, checked and bound.

Arguments have the names and the meaning that they have in Python. Those that take a Python function are left out.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from kmini.broker.settings.setting_descriptions import is_sensitive
from kmini.control.json_text import read_json
from kmini.control.json_types import NAMES, Kind, Schema, WrongValue, kind_of
from kmini.testkit.argument_checks import ARGUMENTS, renamed
from kmini.testkit.phrases import nearest

ONLY_PYTHON = ("where", "self")
"""Arguments that JSON has no form for."""

OTHER_WAYS = {
    "records": ("value", "POST /seed takes many records, each with its topic"),
    "last": ("since", "…/latest?count=5 has the last records"),
    "offset": ("since", "since=5 means the records from an offset on"),
    "api": (
        "rules",
        'a rule is an element of rules: {"rules": [{"when": {"api": "Produce"}, "do": [{"error": "…"}]}]}',
    ),
}
"""Arguments that one expects beside another one, and what to write instead."""

_A_SETTING = ("changes", 'settings are in an object: {"changes": {"retention.ms": "1000"}}')

SETTINGS = ("changes", "config")
"""Arguments that are values of settings by their keys."""


class Argument(NamedTuple):
    """An argument of a method."""

    name: str
    kind: Kind
    is_required: bool
    default: Any
    keyword_of: str | None = None
    """The parameter `**what` that takes it, if one does."""


class Signature(NamedTuple):
    """What a method takes and returns."""

    arguments: Mapping[str, Argument]
    result: Kind | None
    """None if it returns nothing."""

    def bind(self, document: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The arguments as keywords of the call: JSON, and `texts` of a path or a query. Raises WrongValue."""
        found: dict[str, Any] = {}
        aliases: dict[str, str] = {}
        for given, is_text in ((document, False), (texts or {}, True)):
            for alias, value in given.items():
                name = renamed(alias, self.arguments)
                argument = self.arguments.get(name)
                if argument is None:
                    beside, way = OTHER_WAYS.get(name, _A_SETTING if "." in name else ("", ""))
                    said = f"; {way}" if beside in self.arguments else nearest(name, self.arguments)
                    raise WrongValue(f"there is no argument {name}{said}", f"/{name}")
                if value is None and not argument.is_required and argument.default is None:
                    continue
                if name in found:
                    raise WrongValue(_twice(alias, aliases[name]), f"/{alias}")
                aliases[name] = alias
                found[name] = _read(argument, value, is_text=is_text)
        missing = [name for name, argument in self.arguments.items() if argument.is_required and name not in found]
        if missing:
            raise WrongValue(f"{', '.join(missing)} must be given", f"/{missing[0]}")
        return found


def _twice(alias: str, other: str) -> str:
    """What is wrong with an argument that is given under these two names, or twice under one."""
    return f"{alias} is given twice" if alias == other else f"{other} and {alias} are one argument: give one of them"


def _read(argument: Argument, value: Any, *, is_text: bool) -> Any:
    try:
        read = _from_text(argument.kind, value) if is_text else argument.kind.read(value)
        check = ARGUMENTS.get(argument.name)
        return read if check is None or read is None else check(argument.name, read)
    except WrongValue as error:
        pointer = f"/{argument.name}{error.pointer}"
        if argument.name in SETTINGS and error.pointer and is_sensitive(error.first_name):
            raise WrongValue(f"{argument.name}: {error.without_value().message}", pointer) from None
        raise WrongValue(f"{argument.name}={error.message}", pointer) from None
    except (TypeError, ValueError) as error:
        raise WrongValue(str(error), f"/{argument.name}") from None


def _from_text(kind: Kind, text: str) -> Any:
    """A value of a query: a text as it is, and otherwise JSON."""
    try:
        return kind.read(text)
    except WrongValue:
        try:
            value = read_json(text)
        except WrongValue:
            return kind.read(text)
        return kind.read(value)


@cache
def signature_of(method: Callable[..., Any]) -> Signature:
    """The signature of a coroutine of a table."""
    hints = typing.get_type_hints(method, localns=NAMES)
    arguments: dict[str, Argument] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if name in ONLY_PYTHON:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            for key, annotation in typing.get_type_hints(hints[name], localns=NAMES).items():
                if key not in ONLY_PYTHON:
                    arguments[key] = Argument(key, kind_of(annotation), False, None, name)
            continue
        is_required = parameter.default is inspect.Parameter.empty
        default = None if is_required else parameter.default
        arguments[name] = Argument(name, kind_of(hints[name]), is_required, default)
    result = hints.get("return")
    return Signature(arguments, None if result is type(None) else kind_of(result))


def argument_schema(argument: Argument) -> Schema:
    """The JSON Schema of an argument, with its default."""
    schema = argument.kind.schema()
    if argument.is_required or argument.default is None or not isinstance(argument.default, str | int | bool):
        return schema
    return {**schema, "default": argument.default}

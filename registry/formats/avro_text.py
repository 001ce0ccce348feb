"""The texts of an Avro schema: the one that the registry stores, and the one that `normalize=true` makes of it.

The stored text is what Java's `Schema.toString()` writes, because Confluent's registry stores that: attributes in a
fixed order, a name and its namespace apart, a type that has been defined by its name. In the normalized text the
attributes that Avro gives no meaning and the aliases are sorted, and no documentation is empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})

_RESERVED = frozenset({"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"})
_RESERVED_OF_ENUM = _RESERVED | {"default"}
_RESERVED_OF_FIELD = frozenset({"default", "doc", "name", "order", "type", "aliases"})


class FullName(NamedTuple):
    """The name of a type, and its namespace, which is empty where it has none."""

    space: str
    name: str

    def __str__(self) -> str:
        return f"{self.space}.{self.name}" if self.space else self.name

    def within(self, space: str) -> str:
        """The name as a schema of the namespace `space` writes it. The name of a primitive type is always full."""
        return self.name if self.space == space and self.name not in PRIMITIVES else str(self)


def full_name(name: str, space: str | None, enclosing: str) -> FullName:
    """What a name means: one with dots has its namespace in it; another has the given one, or the enclosing one."""
    before, dot, last = name.rpartition(".")
    return FullName(before if dot else enclosing if space is None else space, last)


def stored_text(schema: Any, known: Iterable[str]) -> str:
    """The text that the registry stores for a schema, given as JSON data that is valid. `known` has the full names of
    the types that other schemas define."""
    return _text(_Stored(known).of(schema, ""))


def normalized_text(schema: Any, known: Iterable[str]) -> str:
    """The text that `normalize=true` makes of a schema; the arguments are those of `stored_text`."""
    return _text(_Normalized(known).of(schema, ""))


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


class _Stored:
    """Writes a schema as JSON data, once."""

    def __init__(self, known: Iterable[str]) -> None:
        self._defined = set(known)
        """The full names of the types that are written by their names."""

    def of(self, schema: Any, space: str) -> Any:
        """A schema inside the namespace `space`."""
        if isinstance(schema, list):
            return [self.of(branch, space) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in PRIMITIVES else full_name(schema, None, space).within(space)
        kind = schema["type"]
        if kind in NAMED:
            return self._named(kind, schema, space)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return {"type": kind, inner: self.of(schema[inner], space), **self._properties(schema, _RESERVED)}
        properties = self._properties(schema, _RESERVED)
        return {"type": kind, **properties} if properties else kind

    def _named(self, kind: str, schema: Mapping[str, Any], space: str) -> Any:
        name = full_name(schema["name"], schema.get("namespace"), space)
        if str(name) in self._defined:
            return name.within(space)
        self._defined.add(str(name))
        written: dict[str, Any] = {"type": kind, "name": name.name}
        if name.space != space:
            written["namespace"] = name.space
        if self._says(schema.get("doc")):
            written["doc"] = schema["doc"]
        if kind == "enum":
            written["symbols"] = schema["symbols"]
            if schema.get("default") is not None:
                written["default"] = schema["default"]
        elif kind == "fixed":
            written["size"] = schema["size"]
        else:
            written["fields"] = [self._field(field, name.space) for field in schema["fields"]]
        written |= self._properties(schema, _RESERVED_OF_ENUM if kind == "enum" else _RESERVED)
        if schema.get("aliases"):
            aliases = [full_name(alias, None, name.space) for alias in schema["aliases"]]
            written["aliases"] = [alias.within(name.space) for alias in self._aliases(aliases)]
        return written

    def _field(self, field: Mapping[str, Any], space: str) -> dict[str, Any]:
        written = {"name": field["name"], "type": self.of(field["type"], space)}
        if self._says(field.get("doc")):
            written["doc"] = field["doc"]
        if "default" in field:
            written["default"] = field["default"]
        if field.get("order", "ascending") != "ascending":
            written["order"] = field["order"]
        if field.get("aliases"):
            written["aliases"] = self._aliases(field["aliases"])
        return written | self._properties(field, _RESERVED_OF_FIELD)

    def _says(self, doc: Any) -> bool:
        """Whether a documentation is written."""
        return doc is not None

    def _aliases(self, aliases: list[Any]) -> list[Any]:
        return aliases

    def _properties(self, of: Mapping[str, Any], reserved: Iterable[str]) -> dict[str, Any]:
        """The attributes that Avro gives no meaning."""
        return {name: value for name, value in of.items() if name not in reserved}


class _Normalized(_Stored):
    """Writes what has no meaning in one order, and no empty documentation."""

    def _says(self, doc: Any) -> bool:
        return bool(doc)

    def _aliases(self, aliases: list[Any]) -> list[Any]:
        return sorted(aliases)

    def _properties(self, of: Mapping[str, Any], reserved: Iterable[str]) -> dict[str, Any]:
        return {name: _in_order(value) for name, value in sorted(of.items()) if name not in reserved}


def _in_order(value: Any) -> Any:
    """JSON data with the members of its objects in order."""
    if isinstance(value, dict):
        return {name: _in_order(one) for name, one in sorted(value.items())}
    return [_in_order(one) for one in value] if isinstance(value, list) else value

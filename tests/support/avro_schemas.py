"""Avro schemas for tests: in few words; and pairs of them from a seed, one changed a little, as schemas evolve."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from kmini.registry.formats.avro_format import AvroFormat, AvroSchema
from kmini.registry.formats.schema_format import ResolvedReference


def read(schema: Any, *references: ResolvedReference) -> AvroSchema:
    return AvroFormat().read(schema if isinstance(schema, str) else json.dumps(schema), references)


def record(*fields: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [*fields], **attributes}


def field(name: str, kind: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **attributes}


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


ID = field("id", "int")


class Schemas:
    """Makes schemas. Names are few, so that two schemas often share one."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._defined: set[str] = set()

    def pair(self) -> tuple[str, str]:
        """Two schemas as JSON texts."""
        self._defined = set()
        first = self._record(0)
        second = first
        while second == first:
            second = self._changed(copy.deepcopy(first))
        texts = [json.dumps(first), json.dumps(second)]
        self._random.shuffle(texts)
        return texts[0], texts[1]

    def _name(self, kind: str) -> str:
        self._defined.add(name := f"{kind}{len(self._defined)}")
        return name

    def _record(self, depth: int) -> dict[str, Any]:
        record: dict[str, Any] = {"type": "record", "name": self._name("R"), "namespace": "shop", "fields": []}
        for number in range(self._random.randint(1, 3)):
            field: dict[str, Any] = {"name": f"f{number}", "type": self._type(depth + 1)}
            if isinstance(field["type"], list) and field["type"][0] == "null" and self._random.random() < 0.5:
                field["default"] = None
            elif field["type"] == "int" and self._random.random() < 0.5:
                field["default"] = 3
            record["fields"].append(field)
        return record

    def _type(self, depth: int) -> Any:
        kind = self._random.choice(
            ("primitive",) * 4 + (("union", "array", "map", "enum", "fixed", "record") if depth < 3 else ())
        )
        if kind == "primitive":
            return self._random.choice(PRIMITIVES)
        if kind == "union":
            branches = self._random.sample(PRIMITIVES, self._random.randint(1, 3))
            return [*branches, self._record(depth + 1)] if self._random.random() < 0.3 else branches
        if kind in ("array", "map"):
            return {"type": kind, "items" if kind == "array" else "values": self._type(depth + 1)}
        if kind == "enum":
            symbols = self._random.sample("ABCD", self._random.randint(1, 3))
            enum = {"type": "enum", "name": self._name("E"), "symbols": symbols}
            return {**enum, "default": symbols[0]} if self._random.random() < 0.3 else enum
        if kind == "fixed":
            return {"type": "fixed", "name": self._name("F"), "size": self._random.randint(1, 2)}
        return self._record(depth)

    def _changed(self, record: dict[str, Any]) -> dict[str, Any]:
        for _ in range(self._random.randint(1, 2)):
            self._change(self._random.choice([*_named(record)]))
        return record

    def _change(self, named: dict[str, Any]) -> None:
        if self._random.random() < 0.1:
            old, named["name"] = named["name"], named["name"] + "New"
            if self._random.random() < 0.5:
                named["aliases"] = [old]
        elif named["type"] == "enum":
            named["symbols"] = self._random.sample("ABCD", self._random.randint(1, 4))
            named.pop("default", None)
        elif named["type"] == "fixed":
            named["size"] = self._random.randint(1, 3)
        else:
            self._change_fields(named["fields"])

    def _change_fields(self, fields: list[dict[str, Any]]) -> None:
        field = self._random.choice(fields) if fields else None
        change = self._random.choice(("add", "add with default", "remove", "rename", "retype", "union"))
        if field is None or change.startswith("add"):
            added: dict[str, Any] = {"name": f"g{self._random.randint(0, 9)}", "type": "long"}
            if all(added["name"] != one["name"] for one in fields):
                fields.append({**added, "default": 1} if change == "add with default" else added)
        elif change == "remove":
            fields.remove(field)
        elif change == "rename":
            old, field["name"] = field["name"], field["name"] + "x"
            if self._random.random() < 0.7:
                field["aliases"] = [old]
        else:
            field.pop("default", None)
            kept = field["type"] if isinstance(field["type"], str) else "bytes"
            others = [name for name in PRIMITIVES if name != kept]
            field["type"] = self._random.choice(others) if change == "retype" else [kept, self._random.choice(others)]


def _named(schema: Any) -> list[dict[str, Any]]:
    """The definitions of named types in a schema."""
    if isinstance(schema, list):
        return [found for branch in schema for found in _named(branch)]
    if not isinstance(schema, dict):
        return []
    inner = [schema[part] for part in ("items", "values") if part in schema]
    inner += [field["type"] for field in schema.get("fields", ())]
    return [schema] * ("name" in schema) + [found for part in inner for found in _named(part)]

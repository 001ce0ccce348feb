"""What an Avro reader makes of what a writer wrote (Avro's specification, "Schema resolution")."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kmini.registry.formats.avro_format import MAX_PARTS
from kmini.registry.formats.schema_format import CannotCompare, ResolvedReference
from support.avro_schemas import ID, field, read, record

COMPATIBLE = {
    "the same schema": (record(ID), record(ID)),
    "a field was removed": (record(ID), record(ID, field("price", "int"))),
    "a field with a default was added": (record(ID, field("price", "int", default=0)), record(ID)),
    "a field was renamed, with an alias": (record(field("number", "int", aliases=["id"])), record(ID)),
    "fields were put in another order": (record(field("a", "int"), ID), record(ID, field("a", "int"))),
    "an int is read as a long": ("long", "int"),
    "an int is read as a float": ("float", "int"),
    "a long is read as a float": ("float", "long"),
    "a float is read as a double": ("double", "float"),
    "bytes are read as a string": ("string", "bytes"),
    "a string is read as bytes": ("bytes", "string"),
    "a union was made wider": (["null", "int", "string"], ["null", "int"]),
    "a type became a union with it": (["null", "int"], "int"),
    "a union of one became its type": ("int", ["int"]),
    "a symbol was added": (
        {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
        {"type": "enum", "name": "State", "symbols": ["NEW"]},
    ),
    "a symbol was removed from an enum with a default": (
        {"type": "enum", "name": "State", "symbols": ["NEW"], "default": "NEW"},
        {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
    ),
    "a record was renamed, with an alias": (record(ID, name="Purchase", aliases=["Order"]), record(ID)),
    "a record went to another namespace": (record(ID, namespace="new"), record(ID, namespace="old")),
    "an alias has the namespace of its type": (
        record(ID, name="shop.Purchase", aliases=["Order"]),
        record(ID, name="shop.Order"),
    ),
    "a logical type was added": ({"type": "long", "logicalType": "timestamp-millis"}, "long"),
    "a record in a record refers to the outer one": (
        record(field("next", ["null", "Order"])),
        record(field("next", ["null", "Order"])),
    ),
}

INCOMPATIBLE = {
    "a field without a default was added": (
        (record(ID, field("price", "int")), record(ID)),
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "'price'"),
    ),
    "a field was renamed": (
        (record(field("number", "int")), record(ID)),
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0", "'number'"),
    ),
    "a long is read as an int": (("int", "long"), ("TYPE_MISMATCH", "/", "'int'")),
    "the type of a field was changed": (
        (record(field("id", "boolean")), record(ID)),
        ("TYPE_MISMATCH", "/fields/0/type", "'boolean'"),
    ),
    "a union was made narrower": ((["int"], ["int", "string"]), ("MISSING_UNION_BRANCH", "/1", "'string'")),
    "no branch reads the type": ((["null", "int"], "string"), ("MISSING_UNION_BRANCH", "/", "'string'")),
    "a type reads no union with others": (("int", ["int", "null"]), ("TYPE_MISMATCH", "/", "'null'")),
    "a symbol was removed": (
        (
            {"type": "enum", "name": "State", "symbols": ["NEW"]},
            {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
        ),
        ("MISSING_ENUM_SYMBOLS", "/symbols", "PAID"),
    ),
    "the size was changed": (
        ({"type": "fixed", "name": "Hash", "size": 8}, {"type": "fixed", "name": "Hash", "size": 16}),
        ("FIXED_SIZE_MISMATCH", "/size", "16"),
    ),
    "a record was renamed": ((record(ID, name="Purchase"), record(ID)), ("NAME_MISMATCH", "/name", "'Purchase'")),
    "the items of an array were changed": (
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}),
        ("TYPE_MISMATCH", "/items", "'int'"),
    ),
    "a record inside lost a field": (
        (
            record(field("to", {"type": "map", "values": record(ID, field("city", "string"), name="To")})),
            record(field("to", {"type": "map", "values": record(ID, name="To")})),
        ),
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0/type/values/fields/1", "'city'"),
    ),
}


@pytest.mark.parametrize("case", COMPATIBLE)
def test_a_reader_reads(case: str) -> None:
    reader, writer = (json.dumps(schema) for schema in COMPATIBLE[case])
    assert read(reader).differences(read(writer)) == []


@pytest.mark.parametrize("case", INCOMPATIBLE)
def test_a_reader_does_not_read(case: str) -> None:
    (reader, writer), (kind, path, named) = INCOMPATIBLE[case]
    (difference,) = read(json.dumps(reader)).differences(read(json.dumps(writer)))
    assert (difference.kind, difference.path) == (kind, path)
    assert named in difference.told


def test_every_reason_is_told() -> None:
    new = read(record(field("id", "string"), field("a", "int"), field("b", "int")))
    assert [one.path for one in new.differences(read(record(ID)))] == ["/fields/0/type", "/fields/1", "/fields/2"]


def test_a_reason_is_found_in_a_type_that_refers_to_itself() -> None:
    def tree(kind: str) -> dict[str, Any]:
        return record(field("children", {"type": "array", "items": "Order"}), field("value", kind))

    (difference,) = read(tree("int")).differences(read(tree("long")))
    assert difference.path == "/fields/1/type"


def test_a_union_of_many_records_is_compared_at_once() -> None:
    union = json.dumps([record(ID, name=f"Order{number}") for number in range(MAX_PARTS)])
    assert read(union).differences(read(union)) == []


def test_types_that_refer_to_each_other_too_deeply_are_not_judged() -> None:
    chain: list[Any] = [record(ID, name="R0")]
    chain += [record(field("next", f"R{number - 1}"), name=f"R{number}") for number in range(1, 3_000)]
    last = record(field("all", {"type": "map", "values": "R2999"}), name="Last")
    text = ResolvedReference("chain", json.dumps(chain))
    with pytest.raises(CannotCompare, match="level NONE"):
        read(last, text).differences(read(last, text))

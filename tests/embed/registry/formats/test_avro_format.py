"""Avro as a format of the registry: what is read, how it is stored, and what a reader makes of what a writer wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kmini.registry.formats.avro_format import MAX_DEPTH, MAX_PARTS, AvroFormat, AvroSchema
from kmini.registry.formats.schema_format import CannotCompare, InvalidSchema, ResolvedReference

ADDRESS = ResolvedReference(
    "shop.Address", '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"city","type":"string"}]}'
)


def read(schema: Any, *references: ResolvedReference) -> AvroSchema:
    return AvroFormat().read(schema if isinstance(schema, str) else json.dumps(schema), references)


def record(*fields: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [*fields], **attributes}


def field(name: str, kind: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **attributes}


# --- what is stored


@pytest.mark.parametrize("text", ['"string"', '{"type" : "string"}', " string "])
def test_a_primitive_type_is_stored_as_its_name(text: str) -> None:
    assert read(text).text == '"string"'


def test_a_schema_is_stored_without_spaces_and_with_its_attributes_in_javas_order() -> None:
    given = record(
        field("id", {"type": "long", "logicalType": "timestamp-millis"}, doc="when", aliases=["at"], order="ignore"),
        field("next", ["null", "shop.Order"], default=None),
        owner="sales",
        doc="an order",
        aliases=["Purchase", "old.Order"],
        namespace="shop",
    )
    assert read(given).text == (
        '{"type":"record","name":"Order","namespace":"shop","doc":"an order","fields":['
        '{"name":"id","type":{"type":"long","logicalType":"timestamp-millis"},"doc":"when","order":"ignore","aliases":["at"]},'
        '{"name":"next","type":["null","Order"],"default":null}],'
        '"owner":"sales","aliases":["Purchase","old.Order"]}'
    )


def test_a_name_with_dots_is_stored_as_a_name_and_a_namespace() -> None:
    assert read({"type": "fixed", "name": "shop.Hash", "size": 16}).text == (
        '{"type":"fixed","name":"Hash","namespace":"shop","size":16}'
    )


def test_normalized_schemas_are_the_same_whatever_the_order_of_what_has_no_meaning() -> None:
    one = read(record(field("id", "int", b=1, a={"y": 1, "x": 2}), z=1, owner="sales", doc="", aliases=["B", "A"]))
    other = read(record(field("id", "int", a={"x": 2, "y": 1}, b=1), owner="sales", z=1, aliases=["A", "B"]))
    assert one.text != other.text
    assert one.normalized().text == other.normalized().text


# --- references


def test_a_type_of_another_schema_is_known_by_its_name() -> None:
    schema = read(record(field("to", "Address"), field("from", "shop.Address"), namespace="shop"), ADDRESS)
    assert [one["type"] for one in json.loads(schema.text)["fields"]] == ["Address", "Address"]


def test_a_resolved_schema_has_the_types_of_others_where_it_names_them_first() -> None:
    schema = read(record(field("to", "shop.Address"), field("from", "shop.Address")), ADDRESS)
    to, back = json.loads(schema.formatted("resolved"))["fields"]
    assert (to["type"]["name"], back["type"]) == ("Address", "shop.Address")
    assert schema.formatted("") == schema.text


def test_references_may_meet_at_one_schema() -> None:
    sender = ResolvedReference(
        "Sender", '{"type":"record","name":"Sender","fields":[{"name":"a","type":"shop.Address"}]}', (ADDRESS,)
    )
    carrier = ResolvedReference(
        "Carrier", '{"type":"record","name":"Carrier","fields":[{"name":"a","type":"shop.Address"}]}', (ADDRESS,)
    )
    assert read(record(field("s", "Sender"), field("c", "Carrier"), field("a", "shop.Address")), sender, carrier)


def test_a_union_of_the_types_of_other_schemas_is_a_schema() -> None:
    assert read(["null", "shop.Address"], ADDRESS).text == '["null","shop.Address"]'
    assert read('"shop.Address"', ADDRESS).text == '"shop.Address"'


# --- what a reader makes of what a writer wrote (Avro's specification, "Schema resolution")

ID = field("id", "int")
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


# --- bad input

BAD = {
    "no JSON": ("{", "an Avro schema is JSON"),
    "an unknown type": ('"Nothing"', "Nothing"),
    "a record without fields": ('{"type":"record","name":"Order"}', "fields"),
    "a record without a name": ('{"type":"record","fields":[]}', "Name"),
    "a field without a type": (record({"name": "id"}), '"type"'),
    "a field that is no object": (record(1), '"name" and "type"'),
    "a field twice": (record(ID, ID), "id"),
    "a type that no schema defines": (record(field("to", "shop.Address")), "shop.Address"),
    "a default of another type": (record(field("id", "int", default="x")), "'id'"),
    "a default that is too large": (record(field("id", "int", default=1 << 31)), "'id'"),
    "a default of no branch": (record(field("id", ["null", "int"], default="x")), "'id'"),
    "a default of an enum without the symbol": (
        record(field("s", {"type": "enum", "name": "S", "symbols": ["A"]}, default="B")),
        "'s'",
    ),
    "a default of bytes with a character that is none": (record(field("b", "bytes", default="Ā")), "'b'"),
    "a default of an array with a wrong item": (
        record(field("l", {"type": "array", "items": "int"}, default=[1, None])),
        "'l'",
    ),
    "a default of a record without a field": (record(field("r", record(ID, name="In"), default={})), "'r'"),
    "a type twice in a union": ('["int","int"]', "Union"),
    "a symbol twice": ('{"type":"enum","name":"S","symbols":["A","A"]}', "Duplicate"),
    "symbols as a text": ('{"type":"enum","name":"S","symbols":"AB"}', '"symbols"'),
    "aliases as a text": (record(ID, aliases="Old"), '"aliases"'),
    "a size that is no number": ('{"type":"fixed","name":"F","size":"4"}', "size"),
    "a name with a digit first": ('{"type":"record","name":"9","fields":[]}', "9"),
    "a type in braces of its own": ('{"type":{"type":"string"}}', '"type"'),
    "a number": ("1", "1"),
    "no number of JSON": ('{"type":"int","x":NaN}', "NaN"),
    "too many levels": ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "levels"),
    "levels beyond what JSON's reader follows": ("[" * 100_000, "levels"),
    "too many branches": (json.dumps(["null"] * (MAX_PARTS + 1)), "branches"),
    "too many fields": (record(*[ID] * (MAX_PARTS + 1)), "fields"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_schema_is_refused_with_a_sentence(case: str) -> None:
    given, named = BAD[case]
    with pytest.raises(InvalidSchema) as refused:
        read(given)
    assert named in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_default_may_be_a_value_of_any_branch() -> None:
    assert read(record(field("id", ["null", "int"], default=3), field("f", "double", default=1)))


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

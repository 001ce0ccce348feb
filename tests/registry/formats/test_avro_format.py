"""Avro as a format of the registry: what is read, what it refers to, and what is refused."""

from __future__ import annotations

import json

import pytest

from kmini.registry.formats.avro_format import MAX_DEPTH, MAX_PARTS
from kmini.registry.formats.schema_format import InvalidSchema, ResolvedReference
from support.avro_schemas import ID, field, read, record

ADDRESS = ResolvedReference(
    "shop.Address", '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"city","type":"string"}]}'
)


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


# --- bad input

BAD = {
    "no JSON": ("{", "an Avro schema is JSON"),
    "an unknown type": ('"Nothing"', "Nothing"),
    "a record without fields": ('{"type":"record","name":"Order"}', "fields"),
    "fields that are no list": ('{"type":"record","name":"Order","fields":5}', '"fields"'),
    "fields as an object": ('{"type":"record","name":"Order","fields":{"id":"int"}}', '"fields"'),
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
    "a size that is true": ('{"type":"fixed","name":"F","size":true}', '"size"'),
    "a name with a digit first": ('{"type":"record","name":"9","fields":[]}', "9"),
    "a type in braces of its own": ('{"type":{"type":"string"}}', '"type"'),
    "a number": ("1", "1"),
    "no number of JSON": ('{"type":"int","x":NaN}', "NaN"),
    "a number beyond a double": (
        '{"type":"record","name":"A","fields":[{"name":"a","type":"double","default":1e400}]}',
        "larger than a double",
    ),
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


def test_attributes_of_other_types_mean_nothing() -> None:
    for given in ({"fields": 5}, {"fields": ["x"]}, {"items": {"x": 1}}, {"values": 5}):
        assert read({"type": "string", **given}).text == '"string"'
    assert read({"type": "array", "items": "int", "fields": 5}).text == '{"type":"array","items":"int"}'
    odd = ResolvedReference("Odd", json.dumps(record(field("a", {"type": "string", "items": {"x": 1}}), name="Odd")))
    assert json.loads(read(record(field("o", "Odd")), odd).formatted("resolved"))["fields"][0]["type"]["name"] == "Odd"

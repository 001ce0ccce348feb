"""The texts of an Avro schema: as the registry stores it, and normalized."""

from __future__ import annotations

import pytest

from support.avro_schemas import field, read, record


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

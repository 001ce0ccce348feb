"""Records name their schemas as Confluent's serializers write it, and what only looks like it is told."""

from __future__ import annotations

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from kmini.registry.wire_format import SchemaMark, message_place, schema_mark

GUID = "0f8b3a52-94d6-4c6e-8b7a-1d2e3f405162"


def test_the_id_is_in_front_of_the_data() -> None:
    data = SchemaId("AVRO", 300).id_to_bytes() + b"data"
    assert schema_mark("value", data, []) == SchemaMark(300, "", b"data", b"data", False)


def test_the_guid_is_in_the_last_header_of_its_name() -> None:
    header = SchemaId("JSON", guid=GUID).guid_to_bytes()
    headers = [("__value_schema_id", b"old"), ("__value_schema_id", header), ("other", b"")]
    assert schema_mark("value", b"data", headers) == SchemaMark(-1, GUID, b"", b"data", True)
    assert schema_mark("key", b"data", headers) is None
    assert schema_mark("key", b"data", [("__key_schema_id", header)]) is not None


def test_a_header_may_have_an_id_as_well() -> None:
    header = SchemaId("JSON", 5).id_to_bytes()
    assert schema_mark("key", b"data", [("__key_schema_id", header)]) == SchemaMark(5, "", b"", b"data", True)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0", b"\1\0\0\0\1", b"text"])
def test_other_data_name_no_schema(data: bytes) -> None:
    assert schema_mark("value", data, [("__value_schema_id", None), ("__value_schema_id", b"\1short")]) is None


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=20), st.binary())
def test_the_place_of_a_message_is_read_as_serializers_write_it(indexes: list[int], data: bytes) -> None:
    written = SchemaId("PROTOBUF", 1, message_indexes=indexes).id_to_bytes()[5:]
    assert message_place(written + data) == (indexes, len(written))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "cut off"),
        (b"\4\2", "cut off"),
        (b"\xff" * 6, "too long"),
        (b"\1", "has -1 numbers"),
        (b"\xd0\x0f", "has 1000 n"),
    ],
)
def test_what_is_no_place_is_told(data: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        message_place(data)

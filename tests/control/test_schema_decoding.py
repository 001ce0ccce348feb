"""`?decode=schema` shows what real serializers wrote as JSON with its schema, and says why where it cannot.

The whole way is tested: `control/schema_decoding.py`, `registry/record_decoding.py`, and `value_of` of the schemas of
each format, such as in `registry/formats/avro_format.py`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import struct_pb2, timestamp_pb2

from kmini.registry.formats.values import MOST_BYTES
from kmini.registry.schema_reading import SchemaReader
from support.registry_api import RegistryApi

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "raw", "type": "bytes"},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
JSON_SCHEMA = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryApi]:
    api = RegistryApi(str(tmp_path_factory.mktemp("broker"))).start(SchemaReader())
    yield api
    api.end()


@pytest.fixture
def api(served: RegistryApi) -> Iterator[RegistryApi]:
    """A broker with a control API and a schema registry, and the topic `orders`."""
    served.control.done("POST", "/topics", {"name": "orders", "configs": {"max.message.bytes": "2097152"}})
    yield served
    served.control.reset()


@pytest.fixture
def client(api: RegistryApi) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": api.url}) as connected:
        yield connected


def write(api: RegistryApi, value: Any, key: Any = None, headers: list[tuple[str, bytes]] | None = None) -> None:
    """Write a record to `orders`."""
    operations = api.control.managed.operations
    api.control.run(operations.produce("orders", value, key=key, headers=headers or ()))


def decoded(api: RegistryApi, path: str = "/topics/orders/records?") -> dict[str, Any]:
    """The last record of `orders`, as the control API decodes it."""
    record: dict[str, Any] = api.control.done("GET", f"{path}decode=schema")[-1]
    return record


def place(field: MessageField = MessageField.VALUE, headers: list[tuple[str, bytes]] | None = None) -> Any:
    """What a serializer is told about a record."""
    return SerializationContext("orders", field, headers)


def test_avro_is_decoded(api: RegistryApi, client: SchemaRegistryClient) -> None:
    serialize = AvroSerializer(client, json.dumps(AVRO))
    order = {"id": 2**60, "note": None, "lines": [{"a": 1.5}], "raw": b"\xff", "when": 1_700_000_000_000}
    write(api, serialize(order, place()))
    assert decoded(api)["value"] == {
        "schema": {"subject": "orders-value", "version": 1, "id": 1, "type": "AVRO"},
        "json": {
            "id": str(2**60),
            "note": None,
            "lines": [{"a": 1.5}],
            "raw": {"base64": "/w=="},
            "when": "2023-11-14T22:13:20+00:00",
        },
    }


def test_json_schema_is_decoded(api: RegistryApi, client: SchemaRegistryClient) -> None:
    serialize = JSONSerializer(json.dumps(JSON_SCHEMA), client)
    write(api, serialize({"id": 1, "ü": [None]}, place()))
    assert decoded(api)["value"] == {
        "schema": {"subject": "orders-value", "version": 1, "id": 1, "type": "JSON"},
        "json": {"id": 1, "ü": [None]},
    }


def test_protobuf_is_decoded(api: RegistryApi, client: SchemaRegistryClient) -> None:
    serialize = ProtobufSerializer(timestamp_pb2.Timestamp, client, {"use.deprecated.format": False})
    write(api, serialize(timestamp_pb2.Timestamp(seconds=1), place()))
    assert decoded(api)["value"] == {
        "schema": {"subject": "orders-value", "version": 1, "id": 1, "type": "PROTOBUF"},
        "json": "1970-01-01T00:00:01Z",
    }


def test_a_protobuf_message_that_is_not_the_first_of_its_file_is_decoded(
    api: RegistryApi, client: SchemaRegistryClient
) -> None:
    serialize = ProtobufSerializer(struct_pb2.ListValue, client, {"use.deprecated.format": False})
    message = struct_pb2.ListValue()
    message.extend(["a", True])
    write(api, serialize(message, place()))
    assert decoded(api)["value"]["json"] == ["a", True]


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_keys_are_decoded_under_the_subject_of_keys(api: RegistryApi, client: SchemaRegistryClient, kind: str) -> None:
    serializers: dict[str, Callable[[], Any]] = {
        "AVRO": lambda: AvroSerializer(client, '"string"'),
        "JSON": lambda: JSONSerializer('{"type": "string"}', client),
    }
    serialize = serializers[kind]()
    write(api, b"plain", key=serialize("k", place(MessageField.KEY)))
    record = decoded(api)
    assert record["key"]["schema"]["subject"] == "orders-key"
    assert (record["key"]["json"], record["value"]) == ("k", "plain")


def test_the_subject_of_the_topic_is_named_where_several_have_the_schema(
    api: RegistryApi, client: SchemaRegistryClient
) -> None:
    serialize = JSONSerializer(json.dumps(JSON_SCHEMA), client)
    for topic in ("another", "orders"):
        data = serialize({"id": 1}, SerializationContext(topic, MessageField.VALUE))
    write(api, data)
    assert decoded(api)["value"]["schema"]["subject"] == "orders-value"


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_a_schema_is_found_by_the_guid_in_a_header(api: RegistryApi, client: SchemaRegistryClient, kind: str) -> None:
    config = {"schema.id.serializer": header_schema_id_serializer}
    serializers: dict[str, Callable[[], tuple[Any, Any]]] = {
        "AVRO": lambda: (AvroSerializer(client, '"string"', conf=config), "text"),
        "JSON": lambda: (JSONSerializer('{"type": "string"}', client, conf=config), "text"),
        "PROTOBUF": lambda: (
            ProtobufSerializer(timestamp_pb2.Timestamp, client, {**config, "use.deprecated.format": False}),
            timestamp_pb2.Timestamp(seconds=1),
        ),
    }
    serialize, value = serializers[kind]()
    headers: list[tuple[str, bytes]] = []
    data = serialize(value, place(headers=headers))
    assert headers[0][0] == "__value_schema_id"
    write(api, data, headers=headers)
    found = decoded(api)["value"]
    assert found["schema"]["type"] == kind
    assert kind == "PROTOBUF" or found["json"] == "text"


def test_the_page_gets_records_decoded_too(api: RegistryApi, client: SchemaRegistryClient) -> None:
    serialize = JSONSerializer(json.dumps(JSON_SCHEMA), client)
    write(api, serialize({"id": 1, "text": "a" * 200}, place()))
    assert decoded(api, "/topics/orders/latest?")["value"]["json"]["id"] == 1
    assert decoded(api, "/topics/orders/latest?most_bytes=100&")["value"]["problem"] == (
        "Only 100 of its 223 bytes are here. Ask with most_bytes=0 for all."
    )


def test_what_names_no_schema_is_as_without_decoding(api: RegistryApi) -> None:
    write(api, b"text", key=b"\xff\xfe", headers=[("h", b"\0\0\0\0\1x")])
    record = decoded(api)
    assert (record["key"], record["value"]) == ({"base64": "//4="}, "text")
    assert record["headers"] == [["h", "\0\0\0\0\1x"]]
    write(api, None, key=b"\0\0\0\0")
    assert (decoded(api)["key"], decoded(api)["value"]) == ("\0\0\0\0", None)


def mark(schema_id: int) -> bytes:
    """What is in front of the data."""
    return struct.pack(">bI", 0, schema_id)


def problem_of(api: RegistryApi, data: bytes, headers: list[tuple[str, bytes]] | None = None) -> str:
    """Why a value cannot be decoded."""
    write(api, data, headers=headers)
    value = decoded(api)["value"]
    assert value.keys() == {"hex", "problem"}
    assert value["hex"] == data.hex()
    told: str = value["problem"]
    return told


def registered(api: RegistryApi, kind: str, schema: str, subject: str = "orders-value") -> int:
    """Register a schema; its id."""
    path = f"/subjects/{quote(subject)}/versions"
    reply = api.post(path, {"schema": schema, "schemaType": kind})
    assert reply.status == 200, reply
    number: int = reply.document["id"]
    return number


def test_a_schema_that_is_not_registered_is_told(api: RegistryApi) -> None:
    assert problem_of(api, mark(7) + b"x") == "The registry of this broker has no schema with the id 7."
    header = [("__value_schema_id", b"\1" + bytes(16))]
    told = "The registry of this broker has no schema with the GUID 00000000-0000-0000-0000-000000000000."
    assert problem_of(api, b"x", header) == told


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 5000, b"[" * 500 + b"]" * 500, b"NaN", b"\xff"])
def test_data_that_are_no_json_are_told(api: RegistryApi, data: bytes) -> None:
    schema_id = registered(api, "JSON", "true")
    told = problem_of(api, mark(schema_id) + data)
    assert told.startswith(
        ("The data are no JSON: ", "The data have more than 100 objects and arrays inside each other")
    )


AVRO_DATA = {
    "too short": ('"long"', b""),
    "a number that is too long": ('"long"', b"\xff" * 30),
    "a text that is no UTF-8": ('"string"', b"\2\xff"),
    "a text that is too short": ('"string"', b"\x7eabc"),
    "a branch that is not there": ('["null", "long"]', b"\x10"),
    "more nulls than there is memory": ('{"type": "array", "items": "null"}', b"\xfe\xff\xff\xff\xff\xff\xff\x7f\0"),
    "more empty records than there is memory": (
        '{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}',
        b"\xfe\xff\xff\xff\xff\x7f\0",
    ),
    "a list without end": (
        '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}',
        b"\2" * 100_000,
    ),
    "a time after all times": ('{"type": "long", "logicalType": "timestamp-millis"}', b"\xfe" + b"\xff" * 8 + b"\1"),
}
"""A schema and data that do not have its form, by what is wrong with them."""


@pytest.mark.parametrize("wrong", AVRO_DATA)
def test_data_that_are_no_avro_are_told(api: RegistryApi, wrong: str) -> None:
    schema, data = AVRO_DATA[wrong]
    told = problem_of(api, mark(registered(api, "AVRO", schema)) + data)
    assert told.startswith("The data ")
    assert len(told) < 300


PROTO = 'syntax = "proto3"; message A { message B { string b = 1; } B b = 1; A a = 2; }'
PROTOBUF_DATA = {
    "no place": (b"", "do not say which message they are: the place of the message is cut off"),
    "a place that is not there": (b"\2\4", "no message at the place [2]"),
    "a place without end": (b"\xff" * 9, "a number in the place of the message is too long"),
    "a place with too many numbers": (b"\xd0\x0f", "the place of the message has 1000 numbers"),
    "a field that is cut": (b"\0\x0a\x05a", "are no message A"),
    "messages without end": (b"\0" + b"\x12\x7f" * 60_000, "are no message A"),
}
"""Data behind the id, and what is said of them."""


@pytest.mark.parametrize("wrong", PROTOBUF_DATA)
def test_data_that_are_no_protobuf_are_told(api: RegistryApi, wrong: str) -> None:
    data, told = PROTOBUF_DATA[wrong]
    assert told in problem_of(api, mark(registered(api, "PROTOBUF", PROTO)) + data)


def test_a_protobuf_message_is_found_by_its_place(api: RegistryApi) -> None:
    schema_id = registered(api, "PROTOBUF", PROTO)
    write(api, mark(schema_id) + b"\4\0\0" + b"\x0a\x02hi")
    assert decoded(api)["value"]["json"] == {"b": "hi"}
    write(api, mark(schema_id) + b"\0" + b"\x0a\x04\x0a\x02hi")
    assert decoded(api)["value"]["json"] == {"b": {"b": "hi"}}


def test_large_data_are_not_decoded(api: RegistryApi) -> None:
    schema_id = registered(api, "JSON", "true")
    told = problem_of(api, mark(schema_id) + b'"' + b"a" * (MOST_BYTES - 100) + b'"' + b" " * 200)
    assert told == "The value has 1,048,683 bytes, and at most 1,048,576 are decoded."


def test_the_document_of_the_api_names_the_decoding(api: RegistryApi) -> None:
    parameters = api.control.done("GET", "/openapi.json")["paths"]["/api/v1/topics/{topic}/records"]["get"][
        "parameters"
    ]
    (decode,) = [one for one in parameters if one["name"] == "decode"]
    assert "schema" in decode["schema"]["enum"]

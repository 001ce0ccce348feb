"""Confluent's serializers for Python, as they are, against kmini's registry, through kmini's broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker

confluent = pytest.importorskip("confluent_kafka")
avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")

from confluent_kafka.schema_registry import (  # noqa: E402  (after the skips)
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2  # noqa: E402

VALUE = SerializationContext("orders", MessageField.VALUE)
ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
ORDER_JSON = (
    '{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object",'
    '"properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}'
)
LATEST = {"auto.register.schemas": False, "use.latest.version": True}


@pytest.fixture(scope="module")
def registry_broker() -> Iterator[Broker]:
    with Broker(topics=["orders"], registry=True) as broker:
        yield broker


@pytest.fixture
def broker(registry_broker: Broker) -> Iterator[Broker]:
    yield registry_broker
    registry_broker.reset()


@pytest.fixture
def registry(broker: Broker) -> SchemaRegistryClient:
    return client(broker)


def client(broker: Broker) -> SchemaRegistryClient:
    """A client that has nothing in its cache."""
    return SchemaRegistryClient({"url": broker.registry_url})


def through_the_broker(broker: Broker, value: bytes) -> bytes:
    """What a consumer gets of a value that a producer sends."""
    producer = confluent.Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", value)
    assert producer.flush(30) == 0
    consumer = confluent.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", "enable.auto.commit": False}
    )
    try:
        consumer.assign([confluent.TopicPartition("orders", 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        received: bytes = message.value()
        return received
    finally:
        consumer.close()


def order_class() -> Any:
    """The class of a message that has a field of a message of another file, and one of a file that Google defines."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    line = descriptor_pb2.FileDescriptorProto(name="shop/line.proto", package="shop", syntax="proto3")
    line.message_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    pool.Add(line)
    file = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.extend([line.name, "google/protobuf/timestamp.proto"])
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="lines", number=2, type=11, label=3, type_name=".shop.Line")
    order.field.add(name="at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


# --- Avro


def test_avro_goes_through_the_broker_and_is_read_by_a_client_that_did_not_write_it(
    broker: Broker, registry: SchemaRegistryClient
) -> None:
    value = avro.AvroSerializer(registry, ORDER)({"id": 1, "note": "new"}, VALUE)
    received = through_the_broker(broker, value)
    assert received[:5] == b"\0\0\0\0\1"
    assert avro.AvroDeserializer(client(broker))(received, VALUE) == {"id": 1, "note": "new"}


def test_an_avro_reader_reads_by_its_own_schema_what_an_older_one_wrote(
    broker: Broker, registry: SchemaRegistryClient
) -> None:
    written = avro.AvroSerializer(registry, ORDER)({"id": 1, "note": None}, VALUE)
    newer = ORDER[:-2] + ',{"name":"price","type":"int","default":7}]}'
    assert avro.AvroSerializer(registry, newer)({"id": 2, "note": None, "price": 1}, VALUE)[4] == 2
    assert avro.AvroDeserializer(client(broker), newer)(written, VALUE) == {"id": 1, "note": None, "price": 7}


def test_a_serializer_is_told_which_field_is_incompatible(registry: SchemaRegistryClient) -> None:
    avro.AvroSerializer(registry, ORDER)({"id": 1, "note": None}, VALUE)
    other = avro.AvroSerializer(registry, ORDER.replace('"long"', '"boolean"'))
    with pytest.raises(SchemaRegistryError) as refused:
        other({"id": True, "note": None}, VALUE)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)
    assert "/fields/0/type" in str(refused.value)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [(record_subject_name_strategy, "shop.Order"), (topic_record_subject_name_strategy, "orders-shop.Order")],
)
def test_a_schema_is_registered_under_the_subject_of_its_strategy(
    registry: SchemaRegistryClient, strategy: Any, subject: str
) -> None:
    avro.AvroSerializer(registry, ORDER, conf={"subject.name.strategy": strategy})({"id": 1, "note": None}, VALUE)
    assert registry.get_subjects() == [subject]


def test_a_serializer_that_registers_nothing_needs_a_registered_schema(
    broker: Broker, registry: SchemaRegistryClient
) -> None:
    with pytest.raises(SchemaRegistryError) as refused:
        avro.AvroSerializer(registry, ORDER, conf={"auto.register.schemas": False})({"id": 1, "note": None}, VALUE)
    assert refused.value.error_code == 40401
    registry.register_schema("orders-value", Schema(ORDER, "AVRO"))
    value = avro.AvroSerializer(client(broker), conf=LATEST)({"id": 1, "note": None}, VALUE)
    assert avro.AvroDeserializer(client(broker))(value, VALUE) == {"id": 1, "note": None}


def test_an_avro_schema_may_name_a_type_of_another_subject(broker: Broker, registry: SchemaRegistryClient) -> None:
    registry.register_schema("order", Schema(ORDER, "AVRO"))
    text = '{"type":"record","name":"Box","fields":[{"name":"order","type":"shop.Order"}]}'
    box = Schema(text, "AVRO", [SchemaReference("shop.Order", "order", 1)])
    value = avro.AvroSerializer(registry, box)({"order": {"id": 1, "note": None}}, VALUE)
    assert avro.AvroDeserializer(client(broker))(value, VALUE) == {"order": {"id": 1, "note": None}}
    assert [one.subject for one in client(broker).get_latest_version("orders-value").schema.references] == ["order"]


# --- JSON Schema


def test_json_goes_through_the_broker_and_is_validated_by_its_schema(
    broker: Broker, registry: SchemaRegistryClient
) -> None:
    serializer = json_schema.JSONSerializer(ORDER_JSON, registry)
    received = through_the_broker(broker, serializer({"id": 5}, VALUE))
    reader = json_schema.JSONDeserializer(None, schema_registry_client=client(broker))
    assert reader(received, VALUE) == {"id": 5}


def test_a_json_schema_that_asks_for_more_is_incompatible(registry: SchemaRegistryClient) -> None:
    json_schema.JSONSerializer(ORDER_JSON, registry)({"id": 5}, VALUE)
    stricter = ORDER_JSON.replace('"properties":{', '"properties":{"price":{"type":"number"},').replace(
        '["id"]', '["id","price"]'
    )
    with pytest.raises(SchemaRegistryError) as refused:
        json_schema.JSONSerializer(stricter, registry)({"id": 5, "price": 1}, VALUE)
    assert refused.value.error_code == 40901
    assert "price" in str(refused.value)


# --- Protobuf


def test_protobuf_goes_through_the_broker_with_the_files_that_it_imports(
    broker: Broker, registry: SchemaRegistryClient
) -> None:
    message = order_class()
    order = message(id=3)
    order.lines.add(sku="a-1")
    order.at.FromSeconds(1_700_000_000)
    conf = {"use.deprecated.format": False}
    received = through_the_broker(broker, protobuf.ProtobufSerializer(message, registry, conf)(order, VALUE))
    for reader in (registry, client(broker)):
        assert protobuf.ProtobufDeserializer(message, conf, reader)(received, VALUE) == order
    assert client(broker).get_subjects() == ["orders-value", "shop/line.proto"]
    latest = protobuf.ProtobufSerializer(message, client(broker), {**conf, **LATEST})
    assert latest(order, VALUE) == received


# --- the client


def test_what_a_client_asks_of_a_registry_is_answered(broker: Broker, registry: SchemaRegistryClient) -> None:
    first = registry.register_schema("orders-value", Schema(ORDER, "AVRO"))
    newer = Schema(ORDER[:-2] + ',{"name":"price","type":"int"}]}', "AVRO")
    assert not registry.test_compatibility("orders-value", newer)
    registry.set_compatibility("orders-value", "NONE")
    assert registry.get_compatibility("orders-value") == "NONE"
    second = registry.register_schema("orders-value", newer)
    assert registry.get_versions("orders-value") == [1, 2]
    fresh = client(broker)
    assert fresh.get_schema(second).schema_str == newer.schema_str
    assert fresh.lookup_schema("orders-value", Schema(ORDER, "AVRO")).schema_id == first
    assert fresh.get_version("orders-value", 1).version == 1
    assert registry.delete_version("orders-value", 1) == 1
    assert registry.delete_subject("orders-value") == [2]
    assert registry.get_subjects() == []
    assert fresh.get_schema(first).schema_str == ORDER
    assert registry.delete_subject("orders-value", permanent=True) == [1, 2]

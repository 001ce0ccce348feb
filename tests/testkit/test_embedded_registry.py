"""`Broker(registry=True)`: a schema registry beside a broker or a cluster, asked by Confluent's own client."""

from __future__ import annotations

import socket
import sys
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from kmini import Broker, Cluster
from kmini.broker.network.socket_server import PortTaken
from kmini.registry.formats.protobuf.parser import parse

ORDER = Schema('syntax = "proto3"; message Order { string id = 1; }', "PROTOBUF")
CHANGED = Schema('syntax = "proto3"; message Order { int32 id = 1; }', "PROTOBUF")


def client_of(host: Any) -> SchemaRegistryClient:
    """For `with`, which closes its connections."""
    return SchemaRegistryClient({"url": host.registry_url, "max.retries": 0})


@pytest.mark.parametrize("host", [Broker, Cluster])
def test_a_registry_is_served_in_front_of_what_runs(host: Any) -> None:
    with host(registry=True) as running, client_of(running) as client:
        number = client.register_schema("orders-value", ORDER)
        assert client.get_schema(number).schema_str == 'syntax = "proto3";\n\nmessage Order {\n  string id = 1;\n}\n'
        assert not client.test_compatibility("orders-value", CHANGED)
        assert [record.partition for record in running.records("_schemas")] == [0]


def test_a_reset_empties_it() -> None:
    with Broker(registry=True) as broker, client_of(broker) as client:
        client.register_schema("orders-value", ORDER)
        broker.reset()
        assert client.get_subjects() == []


def test_it_keeps_its_port_and_its_schemas_over_a_stop_and_a_crash() -> None:
    with Broker(registry=True) as broker:
        url = broker.registry_url
        with client_of(broker) as client:
            client.register_schema("orders-value", ORDER)
        broker.stop()
        assert broker.registry_url == ""
        broker.start()
        assert broker.registry_url == url
        broker.crash()
        with client_of(broker) as client:
            assert client.get_subjects() == ["orders-value"]


def test_the_given_port_is_taken() -> None:
    with socket.socket() as held:  # without listening: no other process gets the port meanwhile
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        broker = Broker(registry=True, registry_port=port)
        with socket.create_server(("127.0.0.1", port)), pytest.raises(PortTaken, match="schema registry"):
            broker.start()
        with broker:
            assert broker.registry_url == f"http://127.0.0.1:{port}"


MONEY_FILE = 'syntax = "proto3"; package shop; message Money { int64 units = 1; }'
ORDER_FILE = """
syntax = "proto3"; package shop;
import "kmini-tests/money.proto"; import "google/protobuf/timestamp.proto";
message Other {}
message Order {
  string id = 1; Money price = 2; google.protobuf.Timestamp at = 3; map<string, Money> by = 4; repeated Line lines = 5;
  message Line { int32 number = 1; }
}
"""


def generated_class() -> Any:
    """The class of shop.Order, as protoc's Python makes it, in a pool that knows Protobuf's own types."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for path, text in (("kmini-tests/money.proto", MONEY_FILE), ("kmini-tests/order.proto", ORDER_FILE)):
        file = parse(text)
        file.name = path
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


@pytest.mark.parametrize("reads_with", ["the same client", "another client"])
def test_a_message_of_confluents_serializer_comes_back(reads_with: str) -> None:
    """One client keeps what the registry answers to a registration, and another one asks for it."""
    order_class = generated_class()
    written = order_class(id="42")
    written.price.units, written.at.seconds, written.by["card"].units = 5, 7, 9
    written.lines.add().number = 1
    context, settings = SerializationContext("orders", MessageField.VALUE), {"use.deprecated.format": False}
    with Broker(registry=True) as broker, client_of(broker) as client, client_of(broker) as other:
        sent = ProtobufSerializer(order_class, client, settings)(written, context)
        reader = client if reads_with == "the same client" else other
        assert ProtobufDeserializer(order_class, settings, reader)(sent, context) == written
        assert sorted(client.get_subjects()) == ["kmini-tests/money.proto", "orders-value"]
        again = ProtobufSerializer(order_class, other, settings)(written, context)
        assert again == sent, "the schema that is known already keeps its id"


async def test_an_awaitable_broker_tells_its_address() -> None:
    async with Broker(registry=True) as broker:
        assert broker.registry_url.startswith("http://127.0.0.1:")
        await broker.stop()
        assert broker.registry_url == ""


def test_there_is_none_unless_it_is_wanted() -> None:
    with Broker() as broker:
        assert broker.registry_url == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"registry": 8081}, "registry=8081"),
        ({"registry": True, "registry_port": -1}, "registry_port=-1"),
        ({"registry_port": 8081}, "registry_port=8081: there is no registry without registry=True"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        Broker(**arguments)


def test_a_missing_extra_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "avro", None)
    with pytest.raises(ImportError, match=r"avro is not installed, which registry=True needs"):
        Broker(registry=True)

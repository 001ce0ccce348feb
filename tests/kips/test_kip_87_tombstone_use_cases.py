"""The six use cases of KIP-87, with each Python client: what a delete can say, and which clients read it."""

from __future__ import annotations

import importlib
import json
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kmini import Broker
from kmini.records import TOMBSTONE, is_tombstone, tombstone
from support.tombstone_clients import CLIENTS, TombstoneClient

TOMBSTONES = {"cleanup.policy": "compact", "kmini.tombstone.flag.enable": "true"}


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest, leaky_clients: None) -> TombstoneClient:
    chosen = CLIENTS[request.param]
    try:
        importlib.import_module(chosen.module)
    except ImportError as error:
        pytest.skip(str(error))
    return chosen()


@pytest.fixture
def send(broker: Broker, client: TombstoneClient) -> Callable[..., None]:
    broker.create_topic("documents", config=TOMBSTONES)

    def write(*, topic: str = "documents", **record: Any) -> None:
        client.send(broker.bootstrap_servers, topic, **record)

    return write


@pytest.fixture
def read(broker: Broker, client: TombstoneClient) -> Callable[..., list[Any]]:
    def consume(count: int, topic: str = "documents") -> list[Any]:
        return client.read(broker.bootstrap_servers, topic, count)

    return consume


def left_after_a_week(broker: Broker, topic: str = "documents") -> list[Any]:
    """What is left of a topic when its tombstones have had their time."""
    broker.topic(topic).compact()
    broker.clock.advance("7d")
    return broker.records(topic)


def test_1_traceability_the_issuer_of_a_tombstone(
    broker: Broker, client: TombstoneClient, send: Callable[..., None], read: Callable[..., list[Any]]
) -> None:
    """I would like to know who issued this delete: the hostname, IP of the producer of the delete."""
    send(key=b"42", value=b"a document")
    host = socket.gethostname()
    send(**tombstone(b"42", headers=[("deleted-by", host.encode()), ("address", b"10.0.0.7")]))
    document, delete = read(2)
    assert (is_tombstone(document), is_tombstone(delete)) == (False, True)
    told = client.headers_of(delete)
    assert (told["deleted-by"], told["address"]) == (host.encode(), b"10.0.0.7")
    assert client.value_of(delete) is None
    assert left_after_a_week(broker) == []


def test_2_timestamps_when_was_this_delete_issued(
    broker: Broker, client: TombstoneClient, send: Callable[..., None], read: Callable[..., list[Any]]
) -> None:
    """I would like to know when this delete was issued: also after compaction has given its batch a horizon."""
    send(key=b"42", value=b"a document")
    send(**tombstone(b"42", b"outdated"))
    document, delete = read(2)
    assert client.timestamp_of(delete) >= client.timestamp_of(document) > 0
    broker.topic("documents").compact()
    (kept,) = read(1)
    assert is_tombstone(kept)
    assert client.timestamp_of(kept) == client.timestamp_of(delete)
    assert left_after_a_week(broker) == []


def test_3_data_provenance_which_input_caused_this_delete(
    broker: Broker, client: TombstoneClient, send: Callable[..., None], read: Callable[..., list[Any]]
) -> None:
    """If a record in topic A caused a tombstone in topic B, I might like the offset of the topic A message attached."""
    broker.create_topic("withdrawals")
    send(key=b"42", value=b"a document")
    send(topic="withdrawals", key=b"42", value=b"{}")
    send(topic="withdrawals", key=b"42", value=b"withdrawn by its author")
    cause = read(2, "withdrawals")[1]
    offset = cause.offset() if callable(cause.offset) else cause.offset
    source = [("job", b"withdraw-documents"), ("source", b"withdrawals/0/%d" % offset)]
    send(**tombstone(client.key_of(cause), headers=source))
    delete = read(2)[1]
    assert is_tombstone(delete)
    assert client.headers_of(delete)["source"] == b"withdrawals/0/1"
    assert left_after_a_week(broker) == []
    assert len(broker.records("withdrawals")) == 2


def test_4_distributed_tracing_an_id_is_carried_along_and_forwarded(
    broker: Broker, client: TombstoneClient, send: Callable[..., None], read: Callable[..., list[Any]]
) -> None:
    """Stream processing jobs carry along and forward a globally unique identifier, through deletes too."""
    broker.create_topic("index", config=TOMBSTONES)
    trace = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    send(topic="index", key=b"42", value=b"an entry of the index")
    send(**tombstone(b"42", headers={"traceparent": trace}))

    (delete,) = read(1)  # by a job that makes the index of the documents
    assert is_tombstone(delete)
    carried = {name: text for name, text in client.headers_of(delete).items() if name == "traceparent"}
    send(topic="index", **tombstone(client.key_of(delete), headers=carried))

    forwarded = read(2, "index")[1]
    assert is_tombstone(forwarded)
    assert client.headers_of(forwarded)["traceparent"] == trace
    assert left_after_a_week(broker, "index") == []


def test_5_processing_a_delete_needs_data_that_is_not_in_the_key(
    broker: Broker, client: TombstoneClient, send: Callable[..., None], read: Callable[..., list[Any]]
) -> None:
    """If a document gets deleted, the analytics may need its body to delete its impact. The tombstone brings it, even
    to a reader that has never seen the document."""
    first, second = {"words": 7}, {"words": 5}
    for key, document in ((b"42", first), (b"43", second)):
        send(key=key, value=json.dumps(document).encode())
    total = sum(json.loads(client.value_of(record))["words"] for record in read(2))
    send(**tombstone(b"42", json.dumps(first).encode()))
    broker.topic("documents").compact()
    _, delete = read(2)
    assert is_tombstone(delete)
    total -= json.loads(client.value_of(delete))["words"]
    assert total == 5
    assert [record.key for record in left_after_a_week(broker)] == [b"43"]


def test_6_a_schema_id_in_a_delete_message(
    broker: Broker, client: TombstoneClient, send: Callable[..., None], read: Callable[..., list[Any]]
) -> None:
    """If you want to be able to keep the schema id in a delete message, the value can't be null: here it is the five
    bytes that serializers for schema registries put before a record, and nothing behind them."""
    of_schema = struct.Struct(">bi")
    send(key=b"42", value=of_schema.pack(0, 7) + b"\x02\x06abc")
    send(**tombstone(b"42", of_schema.pack(0, 7)))
    document, delete = read(2)
    assert not is_tombstone(document)
    assert is_tombstone(delete)
    assert of_schema.unpack(client.value_of(delete)) == (0, 7)
    assert left_after_a_week(broker) == []


class TestWithoutOurHelpers:
    """None of these clients knows of tombstones: the header is all there is to it."""

    def test_the_header_is_enough(
        self, broker: Broker, client: TombstoneClient, send: Callable[..., None], read: Callable[..., list[Any]]
    ) -> None:
        send(key=b"42", value=b"a document")
        send(key=b"42", value=b"why", headers=[("kmini.tombstone", b"")])
        assert [client.headers_of(record) for record in read(2)] == [{}, {"kmini.tombstone": b""}]
        assert left_after_a_week(broker) == []

    def test_a_null_value_gets_it(
        self, broker: Broker, client: TombstoneClient, send: Callable[..., None], read: Callable[..., list[Any]]
    ) -> None:
        send(key=b"42", value=None)
        (delete,) = read(1)
        assert client.headers_of(delete) == dict([TOMBSTONE])
        assert (client.value_of(delete), is_tombstone(delete)) == (None, True)

    def test_a_refused_null_value_is_an_error_of_the_client(
        self, broker: Broker, client: TombstoneClient, send: Callable[..., None]
    ) -> None:
        broker.create_topic("strict", config={**TOMBSTONES, "kmini.tombstone.null.refuse": "true"})
        send(topic="strict", **tombstone(b"42"))
        with pytest.raises(Exception, match=client.refusal):
            send(topic="strict", key=b"42", value=None)
        assert len(broker.records("strict")) == 1

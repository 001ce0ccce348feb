"""What the journal writes: each request, small, bounded and without secrets."""

from __future__ import annotations

import base64
import gc
import logging
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker, Cluster, JournalEntry
from kmini.broker.api.interception import Exchange, Serve
from kmini.broker.journal import request_journal
from kmini.broker.journal.request_journal import RequestJournal
from kmini.protocol import messages as m
from kmini.protocol.api_keys import API_NAMES
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Response
from kmini.testing import ConnectionClosed, Wire

pytestmark = pytest.mark.sockets

SECRET = "hush-hush"
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 8}, journal=True) as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    journal_of(broker).clear()
    with Wire(broker.bootstrap_servers) as connection:
        yield connection


def journal_of(broker: Broker) -> RequestJournal:
    found = broker._operations.any_broker().services.journal
    assert found is not None
    return found


def produced(*counts: int, acks: int = 1, value: bytes = b"v") -> m.ProduceRequest:
    Topic = m.ProduceRequest.Topic
    now_ms = time.time_ns() // 1_000_000
    sent = [
        Topic.Partition(index=number, records=bytes(build_batch([Record(0, now_ms, None, value)] * count)))
        for number, count in enumerate(counts)
    ]
    return m.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[Topic(name="orders", partition_data=sent)])


def fetch(*numbers: int, max_wait_ms: int = 0, **of_session: Any) -> m.FetchRequest:
    Topic = m.FetchRequest.Topic
    partitions = [Topic.Partition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in numbers]
    topics = [Topic(topic="orders", partitions=partitions)] if partitions else []
    return m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics, **of_session)


def asked(entry: JournalEntry) -> list[tuple[str, int | None, int | None]]:
    return [(one.topic, one.partition, one.records) for one in entry.partitions]


def read_all(wire: Wire) -> None:
    """Read answers until the broker hangs up."""
    while True:
        wire.receive_frame()


# --- what is written


def test_each_request_is_an_entry_with_its_source_and_its_answer(broker: Broker, wire: Wire) -> None:
    before_ms = time.time_ns() // 1_000_000
    correlation_id = wire.send(produced(1, 3), 9)
    wire.receive(m.ProduceResponse, 9, correlation_id)
    wire.ask(m.HeartbeatRequest(group_id="billing", generation_id=3, member_id="m-1"), 4)
    produce, heartbeat = broker.requests.all()
    host, port = wire.socket.getsockname()
    assert (produce.api, produce.version, produce.client_id, produce.connection) == (
        "Produce",
        9,
        "wire",
        f"{host}:{port}",
    )
    assert (produce.correlation_id, produce.principal, produce.broker) == (correlation_id, "User:ANONYMOUS", 1)
    assert asked(produce) == [("orders", 0, 1), ("orders", 1, 3)]
    assert produce.errors == ()
    assert produce.closed is None
    assert not produce.is_in_service
    assert before_ms - 5 <= produce.time_ms <= heartbeat.time_ms <= time.time_ns() // 1_000_000 + 5
    assert produce.ms is not None
    assert 0 < produce.ms < 60_000
    assert produce.bytes_in > 150
    assert produce.bytes_out > 50
    assert heartbeat.number == produce.number + 1
    assert (heartbeat.groups, heartbeat.members, heartbeat.errors) == (("billing",), ("m-1",), ("NOT_COORDINATOR",))


@pytest.mark.parametrize("value", [b"small", bytes(5_000)])
def test_small_and_large_requests_say_the_same(broker: Broker, wire: Wire, value: bytes) -> None:
    wire.ask(produced(2, 1, value=value), 9)
    wire.ask(fetch(0, 1), 4)
    produce, read = broker.requests.all()
    assert asked(produce) == [("orders", 0, 2), ("orders", 1, 1)]
    assert asked(read) == [("orders", 0, None), ("orders", 1, None)]
    assert read.bytes_out > 2 * len(value)
    assert produce.errors == read.errors == ()


def test_errors_are_found_in_small_and_large_answers(broker: Broker, wire: Wire) -> None:
    Topic = m.MetadataRequest.Topic
    for count in (1, 100):
        names = [Topic(name=f"no-such-topic-{number}") for number in range(count)]
        wire.ask(m.MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
    few, many = broker.requests.all()
    assert few.errors == many.errors == ("UNKNOWN_TOPIC_OR_PARTITION",)
    assert few.bytes_out < request_journal.SMALL_BYTES < many.bytes_out
    assert len(many.topics) == 100


def test_a_fetch_in_a_session_names_what_the_session_reads_at_that_time(broker: Broker, wire: Wire) -> None:
    session_id = wire.ask(fetch(0, 1, session_epoch=0), 7).session_id
    wire.ask(fetch(session_id=session_id, session_epoch=1), 7)
    wire.ask(fetch(2, session_id=session_id, session_epoch=2), 7)
    wire.ask(fetch(session_id=session_id, session_epoch=3), 7)
    read = [[one.partition for one in entry.partitions] for entry in broker.requests.all("Fetch")]
    assert read == [[0, 1], [0, 1], [0, 1, 2], [0, 1, 2]]


def test_a_request_without_an_answer_and_one_in_service_are_entries(broker: Broker, wire: Wire) -> None:
    wire.send(produced(1, acks=0), 9)
    with Wire(broker.bootstrap_servers) as other:
        other.send(fetch(7, max_wait_ms=30_000), 4)
        (waiting,) = broker.requests.wait_for("Fetch", partition=7)
        assert waiting.is_in_service
        assert str(waiting).endswith("not answered yet")
        (unanswered,) = broker.requests.wait_for("Produce", where=lambda entry: not entry.is_in_service)
        assert unanswered.closed == "no answer is due"
        assert unanswered.errors == ()
    gone = broker.requests.wait_for("Fetch", where=lambda entry: entry.closed)
    assert gone[0].closed == "the connection ended before the answer"


def test_requests_that_no_handler_sees_are_entries(broker: Broker, wire: Wire) -> None:
    wire.send(m.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    wire.receive_frame()
    wire.socket.sendall(struct.pack(">ihhih", 10, 80, 1, 5, -1))
    with pytest.raises(ConnectionClosed):
        wire.receive_frame()
    with Wire(broker.bootstrap_servers) as other:
        other.socket.sendall(struct.pack(">ihhih", 14, 3, 1, 6, -1) + b"\x00\x00\x7f\xff")
        with pytest.raises(ConnectionClosed):
            other.receive_frame()
    _, unknown, malformed = broker.requests.all()
    assert (unknown.api, unknown.correlation_id, unknown.closed) == (API_NAMES.get(80, "api-80"), 5, "not served")
    assert malformed.api == "Metadata"
    assert malformed.closed
    assert malformed.client_id is None


def test_a_fault_is_noted_at_its_request(broker: Broker, wire: Wire) -> None:
    async def late(exchange: Exchange, serve: Serve) -> Response | None:
        exchange.note_fault("late answer")
        exchange.note_fault("another")
        return await serve()

    placed = broker._operations.any_broker().services.interceptors
    placed.append(late)
    try:
        wire.ask(produced(1), 9)
    finally:
        placed.clear()
    wire.ask(produced(1), 9)
    assert [entry.faults for entry in broker.requests.all()] == [("late answer", "another"), ()]
    assert str(broker.requests.all()[0]).endswith("fault=late answer,another")


def test_the_clock_of_an_entry_is_the_one_that_tests_move(broker: Broker, wire: Wire) -> None:
    wire.ask(m.ListGroupsRequest(), 4)
    broker.clock.advance("2h")
    wire.ask(m.ListGroupsRequest(), 4)
    before, after = broker.requests.all()
    moved_ms = (after.log_time_ms - after.time_ms) - (before.log_time_ms - before.time_ms)
    assert 0 <= 7_200_000 - moved_ms < 60_000  # the time that the move itself takes is part of the two hours


# --- what bounds it


def test_the_oldest_requests_are_lost_above_the_number_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_journal, "MOST_ENTRIES", 3)
    with Broker(journal=True) as broker, Wire(broker.bootstrap_servers) as wire:
        for _ in range(5):
            wire.ask(m.ListGroupsRequest(), 4)
        assert [entry.number for entry in broker.requests.all()] == [3, 4, 5]
        assert broker.requests.lost() == 2
        journal_of(broker).clear()
        assert (broker.requests.all(), broker.requests.lost(), broker.requests.mark()) == ([], 0, 6)
        wire.ask(m.ListGroupsRequest(), 4)
        assert [entry.number for entry in broker.requests.all()] == [6]


def test_an_error_of_one_partition_is_found_in_a_fetch_whose_answer_is_large(broker: Broker, wire: Wire) -> None:
    wire.ask(produced(1, value=b"v" * 1_000), 9)
    answer = wire.ask(fetch(0, 99), 12)
    assert [one.error_code for one in answer.responses[0].partitions] == [0, 3]
    (entry,) = broker.requests.all("Fetch")
    assert (entry.errors, entry.bytes_out > 1_000) == (("UNKNOWN_TOPIC_OR_PARTITION",), True)


def test_large_requests_are_lost_above_the_bytes_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_journal, "MOST_BYTES", 200_000)
    monkeypatch.setattr(request_journal, "COUNT_AGAIN_BYTES", 20_000)
    Topic = m.MetadataRequest.Topic
    with Broker(journal=True) as broker, Wire(broker.bootstrap_servers) as wire:
        names = [Topic(name=f"topic-{number}" * 10) for number in range(100)]
        for _ in range(60):
            wire.ask(m.MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
        kept = journal_of(broker).entries
        assert 5 < len(kept) < 60
        assert broker.requests.lost() == 60 - len(kept)
        assert sum(entry.kept_bytes for entry in kept) <= 220_000


def test_a_record_is_not_kept_of_a_large_produce_nor_a_view_of_what_arrived(broker: Broker, wire: Wire) -> None:
    wire.ask(produced(1, value=SECRET.encode() * 1_000), 9)
    wire.ask(fetch(0), 4)
    gc.collect()
    for entry in journal_of(broker).entries:
        assert not any(isinstance(one, memoryview) for one in (entry.asked, entry.answered))
    produce = journal_of(broker).entries[0].asked
    (kept,) = produce.topic_data[0].partition_data
    assert type(kept.records) is bytes
    assert len(kept.records) == 61


def test_requests_of_the_brokers_among_each_other_are_not_written() -> None:
    replicated = {"orders": {"partitions": 1, "replication_factor": 2}}
    with Cluster(brokers=2, topics=replicated, journal=True) as cluster:
        cluster.produce("orders", b"v")
        cluster.wait_until_in_sync("orders")
        assert cluster.requests.all() == []
        for number in (1, 2):
            with Wire(cluster.address_of(number)) as wire:
                wire.ask(m.ListGroupsRequest(), 4)
        assert [entry.broker for entry in cluster.requests.all()] == [1, 2]


def test_the_journal_outlives_a_restart(broker: Broker) -> None:
    with Broker(journal=True, topics=["orders"]) as own:
        with Wire(own.bootstrap_servers) as wire:
            wire.ask(fetch(0), 4)
        own.stop()
        own.start()
        assert [entry.topics for entry in own.requests.all()] == [("orders",)]


# --- secrets


def test_no_secret_of_a_request_is_in_the_journal_or_in_what_it_shows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN_LOGIN} user_alice="{SECRET}";',
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    salt, salted = b"salt-of-alice-16", SECRET.encode()
    Upsertion = m.AlterUserScramCredentialsRequest.Upsertion
    Altered = m.IncrementalAlterConfigsRequest.Resource
    Replaced = m.AlterConfigsRequest.Resource
    Created = m.CreateTopicsRequest.Topic
    with Broker(config=config, journal=True) as broker:
        sasl = broker._operations.any_broker().server.listener("SASL_PLAINTEXT")
        assert sasl is not None
        with Wire(sasl.address) as wire:
            wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"))
            assert wire.ask(m.SaslAuthenticateRequest(auth_bytes=f"\0alice\0{SECRET}".encode())).error_code == 0
            upsertion = Upsertion(name="bob", mechanism=1, iterations=4096, salt=salt, salted_password=salted)
            wire.ask(m.AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
            changed = Altered.Config(name="ssl.key.password", config_operation=0, value=SECRET)
            wire.ask(
                m.IncrementalAlterConfigsRequest(
                    resources=[Altered(resource_type=4, resource_name="1", configs=[changed])]
                )
            )
            replaced = Replaced.Config(name="ssl.key.password", value=SECRET)
            wire.ask(
                m.AlterConfigsRequest(resources=[Replaced(resource_type=4, resource_name="1", configs=[replaced])])
            )
            topic = Created(name="secretive", configs=[Created.Config(name="x.password", value=SECRET)])
            wire.ask(m.CreateTopicsRequest(topics=[topic]))
        with Wire(sasl.address) as wire:
            wire.ask(m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
            wire.ask(m.SaslAuthenticateRequest(auth_bytes=b"n,,n=bob,r=nonce-of-bob"))
        with Wire(sasl.address) as wire:  # before the login: refused
            wire.send(m.SaslAuthenticateRequest(auth_bytes=f"\0alice\0{SECRET}".encode()), 2)
            with pytest.raises(ConnectionClosed):
                read_all(wire)
        entries = broker.requests.all()
        held = repr([(entry.asked, entry.answered, entry.faults) for entry in journal_of(broker).entries])
    apis = [entry.api for entry in entries]
    assert apis[:6] == [
        "SaslHandshake",
        "SaslAuthenticate",
        "AlterUserScramCredentials",
        "IncrementalAlterConfigs",
        "AlterConfigs",
        "CreateTopics",
    ]
    assert entries[5].topics == ("secretive",)
    assert entries[2].principal == "User:alice"
    shown = "\n".join([held, *map(str, entries), *map(repr, entries), caplog.text])
    for secret in (SECRET, salt.decode(), base64.b64encode(salt).decode(), "nonce-of-bob"):
        assert secret not in shown


def test_without_a_journal_nothing_is_written_and_asking_says_how_to_have_one() -> None:
    with Broker() as broker:
        assert broker._operations.any_broker().services.journal is None
        with pytest.raises(RuntimeError, match="journal=True"):
            broker.requests.all()

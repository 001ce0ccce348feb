"""Answers come in the order of the requests, whatever the requests say."""

from __future__ import annotations

import struct

import pytest

from kmini import Broker
from kmini.protocol.messages import (
    REQUESTS,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    FetchResponse,
    MetadataRequest,
    ProduceRequest,
)
from kmini.protocol.messages.headers import RequestHeader
from kmini.testing import ConnectionClosed, Wire
from support.fuzz.connections import (
    core,
    frame,
    waiting_fetch,
)

pytestmark = pytest.mark.deep

# --- answers, and their order


def test_every_api_answers_or_closes_whatever_is_null_empty_or_negative(broker: Broker) -> None:
    """Bodies of nothing but zeros, or nothing but ones, as long as they are understood."""
    served = 0
    for api_key, request in REQUESTS.items():
        for version in range(request.min_version, request.max_version + 1):
            for filling in (b"\0", b"\xff"):
                for size in (0, 1, 4, 9, 12, 20, 30, 64):
                    header = RequestHeader(api_key, version, 5, "c").encode(request.header_version(version))
                    content = header + filling * size
                    with Wire(broker.bootstrap_servers) as wire:
                        wire.socket.sendall(struct.pack(">i", len(content)) + content + frame(18, 0, 6))
                        answered = []
                        try:
                            while 6 not in answered:
                                answered += struct.unpack_from(">i", wire.receive_frame())
                        except ConnectionClosed:
                            answered.append(0)
                        served += answered in ([5, 6], [6])  # produce with acks=0 is not answered
                        assert answered in ([5, 6], [6], [0], [5, 0])
    assert served > 50


def test_pipelined_requests_are_answered_in_their_order(broker: Broker) -> None:
    """Slow and quick ones: a fetch that waits comes before what was asked after it."""
    with Wire(broker.bootstrap_servers) as wire:
        expected: list[tuple[int, type, int]] = []
        for round_number in range(200):
            expected.append((wire.send(MetadataRequest(topics=[]), 9), MetadataRequest.response, 9))
            if round_number % 50 == 0:
                expected.append((wire.send(waiting_fetch(max_wait_ms=10), 12), FetchResponse, 12))
                deletion = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)
                deletions = [DeleteRecordsRequest.Topic(name="t", partitions=[deletion])]
                delete = DeleteRecordsRequest(topics=deletions, timeout_ms=1_000)
                expected.append((wire.send(delete, 2), DeleteRecordsRequest.response, 2))
        for correlation_id, response, version in expected:
            wire.receive(response, version, correlation_id)


def test_requests_are_taken_from_half_frames_byte_by_byte(broker: Broker) -> None:
    stream = b"".join(frame(18, 0, correlation_id) for correlation_id in range(5))
    with Wire(broker.bootstrap_servers) as wire:
        for at in range(len(stream)):
            wire.socket.sendall(stream[at : at + 1])
        for correlation_id in range(5):
            assert struct.unpack_from(">i", wire.receive_frame()) == (correlation_id,)


def test_a_flood_of_small_requests_is_answered_one_by_one(broker: Broker) -> None:
    """More at once than is kept in memory; no other client waits for the end of it."""
    flood = b"".join(frame(18, 0, correlation_id) for correlation_id in range(60_000))
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as other:
        wire.socket.setblocking(False)
        sent = answered = most_pending = 0
        received = bytearray()
        while answered < 60_000:
            try:
                sent += wire.socket.send(flood[sent : sent + 65536]) if sent < len(flood) else 0
            except BlockingIOError:
                pass
            try:
                received += wire.socket.recv(1 << 20)
            except BlockingIOError:
                assert other.ask(MetadataRequest(topics=[])).cluster_id
            while len(received) >= 8 and len(received) >= 4 + struct.unpack_from(">i", received)[0]:
                assert struct.unpack_from(">i", received, 4) == (answered,)
                del received[: 4 + struct.unpack_from(">i", received)[0]]
                answered += 1
            (connection,) = [c for c in core(broker).server.connections if c.peer == wire.socket.getsockname()]
            most_pending = max(most_pending, connection._framing.pending_bytes)
    assert most_pending <= 320 * 1024


def test_a_produce_without_acks_that_fails_closes_the_connection(broker: Broker) -> None:
    data = [ProduceRequest.Partition(index=0, records=b"no batch")]
    for name in ("t", "unknown"):
        produce = ProduceRequest(
            acks=0, timeout_ms=0, topic_data=[ProduceRequest.Topic(name=name, partition_data=data)]
        )
        with Wire(broker.bootstrap_servers) as wire:
            wire.send(produce, 9)
            with pytest.raises(ConnectionClosed):
                wire.ask(MetadataRequest(topics=[]))


def test_an_answer_that_repeats_a_long_name_is_sent(broker: Broker) -> None:
    """Error messages are strings too: what they quote must not make them longer than a string can be."""
    name = "x" * 0x7FFF
    wish = CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    config = CreateTopicsRequest.Topic.Config(name=name, value=name)
    named = CreateTopicsRequest.Topic(
        name="n", num_partitions=1, replication_factor=1, assignments=[], configs=[config]
    )
    with Wire(broker.bootstrap_servers) as wire:
        for topics in ([wish], [wish, wish], [named]):
            answer = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=0), 4)
            assert answer.topics[0].error_code != 0
            assert len(answer.topics[0].error_message) <= 1_000
        answer = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 8)
        assert answer.topics[0].name == name


def test_an_error_has_its_place_in_the_answer_or_the_connection_is_closed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of ours in a handler: fetches before version 7 cannot be told, as their answer has no such field."""
    monkeypatch.setattr(type(core(broker).replica_manager), "leader_of", lambda *_: 1 // 0)
    with Wire(broker.bootstrap_servers) as wire, pytest.raises(ConnectionClosed):
        wire.ask(waiting_fetch(), 4)
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.ask(waiting_fetch(), 7).error_code == -1
        assert wire.ask(MetadataRequest(topics=[])).cluster_id


def test_a_partition_that_is_named_again_is_answered_once(broker: Broker) -> None:
    """Kafka's rule for Fetch; what an answer costs is bounded by the partitions there are."""
    fetch = waiting_fetch(max_wait_ms=0)
    fetch.topics = fetch.topics * 500
    with Wire(broker.bootstrap_servers) as wire:
        answer = wire.ask(fetch, 12)
        assert [len(topic.partitions) for topic in answer.responses] == [1]


def test_limits_below_zero_are_zero(broker: Broker) -> None:
    broker.produce("t", b"v")
    fetch = waiting_fetch(max_wait_ms=0)
    fetch.topics[0].partitions[0].partition_max_bytes = -5
    fetch.max_bytes = -5
    with Wire(broker.bootstrap_servers) as wire:
        answer = wire.ask(fetch, 12).responses[0].partitions[0]
    assert answer.error_code == 0
    assert answer.records  # the first batch is sent whole, whatever the limits

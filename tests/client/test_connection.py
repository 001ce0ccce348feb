"""One connection: what goes over the wire, in which order, and what ends it."""

from __future__ import annotations

import asyncio
import gc
import struct

import pytest

from kmini.broker.network.event_loop import new_event_loop
from kmini.client import Address, ConnectionSettings, Disconnected, NotAKafkaBroker
from kmini.client.connection import Connection, negotiate_versions
from kmini.protocol.errors import RequestTimedOut, UnsupportedVersion
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kmini.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.protocol.messages.produce import ProduceRequest
from support.until import PATIENCE, until_async

NO_TOPICS = MetadataRequest(topics=[])


def metadata(number: int = 0) -> MetadataResponse:
    return MetadataResponse(brokers=[], cluster_id=str(number), topics=[])


def list_offsets(timeout_ms: int = 0) -> ListOffsetsRequest:
    return ListOffsetsRequest(topics=[], timeout_ms=timeout_ms)


async def raw_exchange(answers: list[bytes], received: list[bytes]) -> asyncio.Server:
    """A server that reads one frame for each answer, and writes the answer byte by byte."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            size = await reader.readexactly(4)
            received.append(size + await reader.readexactly(int.from_bytes(size, "big")))
            for byte in answer:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def address_of(server: asyncio.Server) -> Address:
    return Address(*server.sockets[0].getsockname())


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


async def test_the_first_request_asks_for_the_versions_in_our_newest_version(connect) -> None:
    received: list[bytes] = []
    answer = struct.pack(">ih", 0, 0) + b"\x02" + struct.pack(">hhh", 18, 0, 4) + b"\0" + bytes(4) + b"\0"
    async with await raw_exchange([frame(answer)], received) as server:
        connection = await connect(address_of(server), ConnectionSettings(client_id="me"))
    assert received == [
        frame(struct.pack(">hhih", 18, 4, 0, 2) + b"me\0" + b"\x06kmini" + b"\x060.1.0" + b"\0"),
    ]
    assert connection.versions == {18: (0, 4)}


async def test_a_broker_that_knows_older_questions_only_is_asked_one_of_those(connect) -> None:
    received: list[bytes] = []
    refusal = struct.pack(">ihihhh", 0, UnsupportedVersion.code, 1, 18, 0, 2)
    answer = struct.pack(">ihihhhhhhi", 1, 0, 2, 18, 0, 2, 3, 0, 5, 0)
    async with await raw_exchange([frame(refusal), frame(answer)], received) as server:
        connection = await connect(address_of(server), ConnectionSettings(client_id="me"))
    assert [struct.unpack_from(">hhi", request, 4) for request in received] == [(18, 4, 0), (18, 2, 1)]
    assert connection.versions == {18: (0, 2), 3: (0, 5)}


async def test_a_request_goes_out_in_the_newest_version_that_both_sides_have(broker, connect, serves) -> None:
    broker.answers[ApiVersionsRequest] = lambda _: serves(Metadata=(0, 7))
    broker.answers[MetadataRequest] = lambda _: metadata()
    connection = await connect(broker.address)
    await connection.send(NO_TOPICS)
    assert broker.versions == [7]


@pytest.mark.parametrize("range_", [(99, 100), (-5, -1)])
async def test_without_a_version_in_common_nothing_is_sent(broker, connect, serves, range_: tuple[int, int]) -> None:
    broker.answers[ApiVersionsRequest] = lambda _: serves(Metadata=range_)
    connection = await connect(broker.address)
    with pytest.raises(UnsupportedVersion, match="Metadata"):
        await connection.send(NO_TOPICS)
    assert not broker.requests


async def test_requests_under_way_together_get_their_own_answers(broker, connect) -> None:
    broker.answers[MetadataRequest] = lambda _: metadata(len(broker.requests))
    connection = await connect(broker.address)
    answers = await asyncio.gather(*(connection.send(NO_TOPICS) for _ in range(100)))
    assert [answer.cluster_id for answer in answers] == [str(number) for number in range(1, 101)]


async def test_a_caller_that_leaves_does_not_disturb_the_order(broker, connect) -> None:
    release = asyncio.Event()

    async def answer(_: MetadataRequest) -> MetadataResponse:
        await release.wait()
        return metadata(len(broker.requests))

    broker.answers[MetadataRequest] = answer
    connection = await connect(broker.address)
    leaver = asyncio.ensure_future(connection.send(NO_TOPICS))
    stayer = asyncio.ensure_future(connection.send(NO_TOPICS))
    await asyncio.sleep(0)
    leaver.cancel()
    release.set()
    assert (await stayer).cluster_id == "2"


async def test_a_request_that_is_not_answered_in_time_costs_the_connection(broker, connect) -> None:
    broker.answers[MetadataRequest] = lambda _: None
    connection = await connect(broker.address)
    behind = asyncio.ensure_future(connection.send(list_offsets()))
    with pytest.raises(RequestTimedOut, match="Metadata"):
        await connection.send(NO_TOPICS, timeout_ms=20)
    with pytest.raises(Disconnected):
        await behind
    assert not connection.is_open


async def test_a_short_time_out_counts_behind_a_request_with_a_long_one(broker, connect) -> None:
    broker.answers[MetadataRequest] = broker.answers[ListOffsetsRequest] = lambda _: None
    connection = await connect(broker.address)
    patient = connection.ask(list_offsets(), 1, timeout_ms=3_600_000)
    with pytest.raises(RequestTimedOut):
        await asyncio.wait_for(connection.send(NO_TOPICS, timeout_ms=20), 30)
    with pytest.raises(Disconnected):
        await patient


async def test_when_the_broker_hangs_up_everything_under_way_fails(broker, connect) -> None:
    def hang_up(_: object) -> None:
        raise broker.HangUp

    broker.answers[MetadataRequest] = lambda _: None
    broker.answers[ListOffsetsRequest] = hang_up
    connection = await connect(broker.address)
    failures = await asyncio.gather(connection.send(NO_TOPICS), connection.send(list_offsets()), return_exceptions=True)
    assert [type(failure) for failure in failures] == [Disconnected] * 2
    with pytest.raises(Disconnected):
        await connection.send(NO_TOPICS)


async def test_a_closed_connection_sends_nothing(broker, connect) -> None:
    connection = await connect(broker.address)
    await connection.close()
    with pytest.raises(Disconnected, match="closed"):
        await connection.send(NO_TOPICS)


@pytest.mark.parametrize(
    "nonsense",
    [
        frame(struct.pack(">i", 77) + bytes(10)),
        frame(b"\0"),
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        frame(struct.pack(">ih", 0, 0) + b"\xff\xff\xff\xff\x0f"),
    ],
    ids=["another request's answer", "no header", "negative size", "huge size", "huge array"],
)
async def test_a_broker_that_breaks_the_protocol_is_left(connect, nonsense: bytes) -> None:
    async with await raw_exchange([nonsense], []) as server:
        with pytest.raises(Disconnected, match="no Kafka broker"):
            await connect(address_of(server))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers in HTTP, so it is no Kafka broker"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "answers with a TLS alert: it expects TLS, which this client does not speak"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "answers b'SSH-"),
        (b"", "it may still be starting, expect TLS, or be no Kafka broker"),
    ],
    ids=["HTTP", "TLS", "SSH", "nothing"],
)
async def test_a_server_that_is_no_kafka_broker_is_named_by_its_first_bytes(connect, answer: bytes, said: str) -> None:
    async with await raw_exchange([answer], []) as server:
        address = address_of(server)
        with pytest.raises(Disconnected) as raised:
            await connect(address)
    assert raised.value.message.startswith(f"{address}: it ")
    assert said in raised.value.message
    assert isinstance(raised.value, NotAKafkaBroker) is bool(answer)


async def test_a_silent_server_is_described_as_accepting_connections(connect) -> None:
    accepted = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await reader.read()  # the request
        await reader.read()  # the end
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        with pytest.raises(Disconnected, match="accepts connections but does not answer as a Kafka broker"):
            await connect(address_of(server), timeout_ms=300 * PATIENCE)
    assert accepted.is_set()


async def test_an_unreachable_broker_is_named_with_the_reason(broker, connect) -> None:
    await broker.stop()
    with pytest.raises(Disconnected, match=rf"cannot connect to {broker.address}: Connection refused"):
        await connect(broker.address)


async def test_a_broker_that_accepts_and_stays_silent_times_out(broker, connect) -> None:
    broker.answers[ApiVersionsRequest] = lambda _: None
    with pytest.raises(Disconnected, match="does not answer"):
        await connect(broker.address, ConnectionSettings(connect_timeout_ms=300 * PATIENCE))


async def test_set_up_steps_run_in_order_before_anything_else(broker, connect) -> None:
    broker.answers[ListOffsetsRequest] = lambda _: ListOffsetsResponse(topics=[])
    broker.answers[MetadataRequest] = lambda _: metadata()

    async def authenticate(connection) -> None:
        await connection.send(list_offsets())

    connection = await connect(broker.address, ConnectionSettings(set_up=(negotiate_versions, authenticate)))
    await connection.send(NO_TOPICS)
    assert [type(request) for request in broker.requests] == [ListOffsetsRequest, MetadataRequest]


async def test_a_connection_whose_set_up_fails_is_closed(broker, connect) -> None:
    class Refused(Exception):
        pass

    seen = []

    async def refuse(connection) -> None:
        seen.append(connection)
        raise Refused

    with pytest.raises(Refused):
        await connect(broker.address, ConnectionSettings(set_up=(refuse,)))
    assert not seen[0].is_open


async def test_a_set_up_that_fails_when_it_is_called_off_is_not_reported_by_asyncio(broker, connect) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    waiting = asyncio.Event()

    async def fail_at_the_end(connection) -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise Disconnected("the peer hung up")

    opening = asyncio.ensure_future(connect(broker.address, ConnectionSettings(set_up=(fail_at_the_end,))))
    await waiting.wait()
    opening.cancel()
    await asyncio.wait([opening])
    assert opening.cancelled()
    del opening
    gc.collect()
    assert reported == []


async def test_a_request_that_expects_no_answer_does_not_wait_for_one(broker, connect) -> None:
    broker.answers[ProduceRequest] = lambda _: None
    broker.answers[MetadataRequest] = lambda _: metadata(5)
    connection = await connect(broker.address)
    request = ProduceRequest(acks=0, timeout_ms=0, topic_data=[])
    assert await connection.send(request, expects_answer=False) is None
    assert (await connection.send(NO_TOPICS)).cluster_id == "5"


async def test_an_error_of_the_version_negotiation_is_raised(broker, connect) -> None:
    broker.answers[ApiVersionsRequest] = lambda _: ApiVersionsResponse(error_code=42, api_keys=[])
    with pytest.raises(Exception, match="INVALID_REQUEST"):
        await connect(broker.address)


async def test_what_was_sent_is_out_when_the_connection_is_closed(broker, connect) -> None:
    broker.answers[ProduceRequest] = lambda _: None
    connection = await connect(broker.address)
    data = ProduceRequest.Topic.Partition(index=0, records=bytes(900_000))
    topic = ProduceRequest.Topic(name="t", partition_data=[data])
    for _ in range(5):
        await connection.send(ProduceRequest(acks=0, timeout_ms=0, topic_data=[topic]), expects_answer=False)
    await connection.close()
    await until_async(lambda: len(broker.requests) == 5)


async def test_a_broker_that_does_not_read_does_not_hold_up_the_end(connect, monkeypatch) -> None:
    monkeypatch.setattr("kmini.client.connection.FLUSH_MS", 20)
    blocked = asyncio.Event()

    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await blocked.wait()
        writer.close()

    async with await asyncio.start_server(never_read, "127.0.0.1", 0) as server:
        connection = await connect(address_of(server), ConnectionSettings(set_up=()))
        data = ProduceRequest.Topic.Partition(index=0, records=bytes(30_000_000))
        topic = ProduceRequest.Topic(name="t", partition_data=[data])
        request = ProduceRequest(acks=0, timeout_ms=0, topic_data=[topic])
        await connection.send(request, version=9, expects_answer=False)
        await connection.close()
        blocked.set()


def test_connecting_can_be_called_off_at_any_moment_on_the_loop_of_the_broker() -> None:
    """uvloop does not tell the connection of its end if it is interrupted between making it and handing it over."""

    async def call_off(turns: int) -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            opening = asyncio.ensure_future(Connection.open(address_of(server)))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            done, _ = await asyncio.wait([opening], timeout=30)
            assert done, f"called off after {turns} turns, it never ends"
            if not opening.cancelled() and opening.exception() is None:
                await opening.result().close()

    loop = new_event_loop()
    try:
        for turns in range(12):
            loop.run_until_complete(call_off(turns))
    finally:
        loop.close()

"""The client's end of a connection, against the broker's."""

from typing import Any

import pytest

from kmini.protocol.errors import FrameTooLarge, MalformedMessage, UnsupportedVersion
from kmini.protocol.framing import NEED_DATA, ClientConnection, ServerConnection, frame_of, response_frame
from kmini.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
)
from kmini.protocol.messages.headers import encode_response_header
from kmini.protocol.schema import Response
from support.extension_modules import FORMS, load_form
from support.for_each import for_each

MIB = 1024 * 1024
ASK = DeleteRecordsRequest(topics=[], timeout_ms=1)


@pytest.fixture(params=FORMS, autouse=True)
def framing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test takes framing compiled and interpreted."""
    module = load_form("kmini.protocol.framing", request.param)
    for name in ("NEED_DATA", "ClientConnection", "ServerConnection", "frame_of", "response_frame"):
        monkeypatch.setitem(globals(), name, getattr(module, name))


def pair() -> tuple[ClientConnection, ServerConnection]:
    return ClientConnection("me", max_frame_bytes=MIB), ServerConnection(MIB)


def answer(server: ServerConnection, response: Response, version: int) -> bytes:
    """Take the next request, and answer it."""
    frame = server.next_frame()
    assert frame is not NEED_DATA
    buffers = response_frame(frame.header.correlation_id, response, version)
    frame.release()
    return b"".join(buffers)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_request_arrives_and_its_response_comes_back(version: int) -> None:
    client, server = pair()
    server.receive_data(b"".join(client.request(ASK, version)))
    response = DeleteRecordsResponse(topics=[DeleteRecordsResponse.Topic(name="t", partitions=[])])
    assert list(client.receive_data(answer(server, response, version))) == [response]


def test_the_request_says_who_asks() -> None:
    client, server = pair()
    server.receive_data(b"".join(client.request(ASK, 2)))
    frame = server.next_frame()
    assert frame is not NEED_DATA
    assert frame.header == (21, 2, 0, "me")
    assert DeleteRecordsRequest.decode(frame.body, 2) == ASK


def test_pipelined_requests_are_answered_in_order_however_the_bytes_are_cut() -> None:
    client, server = pair()
    data = b""
    for n in range(3):
        server.receive_data(b"".join(client.request(ASK, 2)))
        data += answer(server, DeleteRecordsResponse(throttle_time_ms=n, topics=[]), 2)
    received: list[Any] = []
    for at in range(0, len(data), 5):
        received += client.receive_data(data[at : at + 5])
    assert [response.throttle_time_ms for response in received] == [0, 1, 2]


@for_each("kind", [bytes, bytearray])
@for_each("pieces", [(1, 0), (2, 0), (1, 3), (3, 1), (1, -3)])
def test_answers_that_arrive_whole_are_the_same_as_those_in_pieces(pieces: tuple[int, int], kind: type) -> None:
    """Cut behind a number of whole answers, and so many bytes before or after that."""
    client, server = pair()
    answers = []
    for n in range(6):
        server.receive_data(b"".join(client.request(ASK, 2)))
        answers.append(answer(server, DeleteRecordsResponse(throttle_time_ms=n, topics=[]), 2))
    data, cut = b"".join(answers), pieces[0] * len(answers[0]) + pieces[1]
    received: list[Any] = []
    for at in range(0, len(data), cut):
        piece = kind(data[at : at + cut])
        received += client.receive_data(piece)
        if kind is bytearray:
            piece[:] = bytes(len(piece))  # the caller uses it again
    assert [response.throttle_time_ms for response in received] == [*range(6)]


def test_produce_without_acks_expects_no_answer() -> None:
    client, server = pair()
    silent = ProduceRequest(acks=0, timeout_ms=0, topic_data=[])
    server.receive_data(b"".join(client.request(silent, 9, expects_answer=False)))
    frame = server.next_frame()
    assert frame is not NEED_DATA
    frame.release()
    server.receive_data(b"".join(client.request(ASK, 2)))
    response = DeleteRecordsResponse(topics=[])
    assert list(client.receive_data(answer(server, response, 2))) == [response]


def test_an_api_versions_request_that_is_too_new_is_answered_in_version_0() -> None:
    client, server = pair()
    server.receive_data(b"".join(client.request(ApiVersionsRequest(), 4)))
    refusal = ApiVersionsResponse(
        error_code=UnsupportedVersion.code,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)],
    )
    assert list(client.receive_data(answer(server, refusal, 0))) == [refusal]


def test_records_stay_valid_when_more_arrives() -> None:
    client, server = pair()
    fetched: list[Any] = []
    for n in range(3):
        server.receive_data(b"".join(client.request(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 12)))
        partition = FetchResponse.Partition(partition_index=0, records=bytes([n]) * 1_000)
        response = FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=[partition])])
        fetched += client.receive_data(answer(server, response, 12))
    records = [response.responses[0].partitions[0].records for response in fetched]
    assert records == [bytes([n]) * 1_000 for n in range(3)]


def test_an_answer_to_nothing_is_malformed() -> None:
    client, _ = pair()
    with pytest.raises(MalformedMessage, match="no request"):
        list(client.receive_data(b"".join(frame_of(encode_response_header(0, 0), []))))


def test_an_answer_to_another_request_is_malformed() -> None:
    client, _ = pair()
    client.request(ASK, 2)
    with pytest.raises(MalformedMessage, match="response came to request 5"):
        list(client.receive_data(b"".join(frame_of(encode_response_header(5, 1), [b"\0\0\0\0\1\0"]))))


def test_an_answer_that_is_too_large_is_refused() -> None:
    client, _ = pair()
    client.request(ASK, 2)
    with pytest.raises(FrameTooLarge):
        list(client.receive_data((MIB + 1).to_bytes(4, "big")))


def test_a_request_that_cannot_be_encoded_is_not_expected_to_be_answered() -> None:
    client, server = pair()
    with pytest.raises(ValueError, match="timeout_ms"):
        client.request(DeleteRecordsRequest(topics=[], timeout_ms=1 << 40), 2)
    server.receive_data(b"".join(client.request(ASK, 2)))
    response = DeleteRecordsResponse(topics=[])
    assert list(client.receive_data(answer(server, response, 2))) == [response]

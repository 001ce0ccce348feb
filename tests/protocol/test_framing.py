"""The broker's end of a connection, with bytes in and bytes out."""

import random
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.protocol.errors import FrameTooLarge, MalformedMessage
from kmini.protocol.frame_reader import KEPT_BYTES, READ_BYTES
from kmini.protocol.framing import NEED_DATA, Frame, ServerConnection, frame_of, response_frame
from kmini.protocol.messages.fetch import FetchResponse
from kmini.protocol.messages.headers import RequestHeader, encode_response_header
from support.extension_modules import FORMS, load_form
from support.for_each import for_each

MIB = 1024 * 1024
PRODUCE, API_VERSIONS, DELETE_RECORDS = 0, 18, 21


@pytest.fixture(params=FORMS, autouse=True)
def framing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test takes framing compiled and interpreted."""
    module = load_form("kmini.protocol.framing", request.param)
    for name in ("NEED_DATA", "ServerConnection", "frame_of", "response_frame"):
        monkeypatch.setitem(globals(), name, getattr(module, name))


def connection(max_frame_bytes: int = 100 * MIB) -> ServerConnection:
    return ServerConnection(max_frame_bytes)


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def request(body: bytes, correlation_id: int = 7, *, api_key: int = PRODUCE, version: int = 7) -> bytes:
    return framed(RequestHeader(api_key, version, correlation_id, "me").encode(1) + body)


def next_frame(connection: ServerConnection) -> Frame:
    frame = connection.next_frame()
    assert frame is not NEED_DATA
    return frame


def capacity(connection: ServerConnection) -> int:
    return connection.owned_bytes


# ------------------------------------------------------------------------------------------------ frames


def test_a_request_comes_out_as_header_and_body() -> None:
    server = connection()
    server.receive_data(request(b"body"))
    frame = next_frame(server)
    assert frame.header == RequestHeader(api_key=PRODUCE, api_version=7, correlation_id=7, client_id="me")
    assert bytes(frame.body) == b"body"


def test_nothing_comes_out_before_the_last_byte_is_in() -> None:
    server = connection()
    data = request(b"body")
    for byte in data[:-1]:
        server.receive_data(bytes([byte]))
        assert server.next_frame() is NEED_DATA
    server.receive_data(data[-1:])
    assert bytes(next_frame(server).body) == b"body"


def test_pipelined_requests_come_out_one_by_one_in_order() -> None:
    server = connection()
    server.receive_data(b"".join(request(b"body", n) for n in range(5)))
    for n in range(5):
        frame = next_frame(server)
        assert frame.header.correlation_id == n
        frame.release()
    assert server.next_frame() is NEED_DATA


@pytest.mark.parametrize("more", [b"", b"\0", b"\0\0\0\x09abc"], ids=["nothing", "a-byte", "a-start"])
def test_bytes_that_are_in_no_frame_yet_can_be_taken(more: bytes) -> None:
    server = connection()
    server.receive_data(request(b"whole") + more)
    next_frame(server).release()
    assert server.take_pending() == more
    assert server.pending_bytes == 0
    server.receive_data(request(b"next"))
    assert bytes(next_frame(server).body) == b"next"


def test_a_second_frame_is_not_handed_out_while_the_first_is() -> None:
    server = connection()
    server.receive_data(request(b"one") + request(b"two"))
    frame = next_frame(server)
    with pytest.raises(RuntimeError, match="not released"):
        server.next_frame()
    frame.release()
    assert bytes(next_frame(server).body) == b"two"


def test_releasing_twice_does_no_harm() -> None:
    server = connection()
    server.receive_data(request(b"one") + request(b"two"))
    first = next_frame(server)
    first.release()
    second = next_frame(server)
    first.release()
    with pytest.raises(RuntimeError):
        server.next_frame()
    second.release()


def test_the_body_is_writable() -> None:
    server = connection()
    server.receive_data(request(b"body"))
    body = next_frame(server).body
    body[:4] = b"BODY"
    assert bytes(body) == b"BODY"


def test_pending_bytes_are_those_that_nobody_has_taken() -> None:
    server = connection()
    assert server.pending_bytes == 0
    server.receive_data(request(b"one") + request(b"two")[:5])
    assert server.pending_bytes == len(request(b"one")) + 5
    frame = next_frame(server)
    assert server.pending_bytes == 5
    frame.release()
    assert server.pending_bytes == 5


def test_missing_bytes_are_those_that_have_not_arrived_of_the_next_frame() -> None:
    server = connection()
    one = request(b"one")
    assert server.missing_bytes == 0
    for arrived, missing in ((3, 0), (4, len(one) - 4), (len(one) - 1, 1), (len(one), 0), (len(one) + 4, 0)):
        server = connection()
        server.receive_data((one + one)[:arrived])
        assert server.missing_bytes == missing
    frame = next_frame(server)
    assert server.missing_bytes == len(one) - 4
    frame.release()


@pytest.mark.parametrize("more", [1, READ_BYTES, 5 * READ_BYTES])
def test_a_frame_handed_out_stays_where_it_is_while_more_arrives(more: int) -> None:
    server = connection()
    server.receive_data(request(b"x" * 10_000))
    frame = next_frame(server)
    later = b"".join(request(bytes([n]) * 1_000, n) for n in range(more // 1_000 + 1))
    server.receive_data(later)
    assert bytes(frame.body) == b"x" * 10_000
    frame.release()
    for n in range(more // 1_000 + 1):
        following = next_frame(server)
        assert bytes(following.body) == bytes([n]) * 1_000
        following.release()
    assert server.next_frame() is NEED_DATA


@settings(max_examples=150, deadline=None)
@given(sizes=st.lists(st.integers(0, 60_000), max_size=8), seed=st.integers(0, 1 << 32), hold=st.booleans())
def test_however_the_bytes_are_cut_the_same_frames_come_out(sizes: list[int], seed: int, hold: bool) -> None:
    dice = random.Random(seed)
    bodies = [dice.randbytes(size) for size in sizes]
    data = b"".join(request(body, n) for n, body in enumerate(bodies))
    server, seen = connection(), []
    held: Frame | None = None
    while data or held is not None:
        free = server.get_buffer()
        assert len(free) > 0
        count = min(len(free), len(data), dice.choice([1, 7, 1_000, 20_000, 100_000]))
        free[:count], data = data[:count], data[count:]
        server.buffer_updated(count)
        if held is not None and (not hold or not data or dice.random() < 0.3):
            seen.append(bytes(held.body))
            held.release()
            held = None
        if held is None:
            frame = server.next_frame()
            held = None if frame is NEED_DATA else frame
    assert seen == bodies[: len(seen)]
    while (frame := server.next_frame()) is not NEED_DATA:
        seen.append(bytes(frame.body))
        frame.release()
    assert seen == bodies
    assert server.pending_bytes == 0


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("size", [-1, -(1 << 31)])
def test_a_negative_size_is_malformed(size: int) -> None:
    server = connection()
    server.receive_data(struct.pack(">i", size))
    with pytest.raises(MalformedMessage, match=str(size)):
        server.next_frame()


def test_a_size_above_the_limit_is_refused_before_anything_of_the_frame_is_there() -> None:
    server = connection(max_frame_bytes=1_000)
    server.receive_data(struct.pack(">i", 1_001))
    with pytest.raises(FrameTooLarge, match="1001 bytes"):
        server.next_frame()


def test_a_frame_of_the_largest_size_is_served() -> None:
    server = connection(max_frame_bytes=1_000)
    server.receive_data(request(bytes(1_000 - 12)))
    assert len(next_frame(server).body) == 988


@pytest.mark.parametrize("size", range(8))
def test_a_frame_without_room_for_a_header_is_malformed(size: int) -> None:
    server = connection()
    server.receive_data(framed(bytes(size)))
    with pytest.raises(MalformedMessage, match="no header"):
        server.next_frame()


def test_a_broken_header_of_a_request_that_we_serve_is_malformed() -> None:
    server = connection()
    server.receive_data(framed(struct.pack(">hhih", PRODUCE, 7, 1, 100) + b"short"))
    with pytest.raises(MalformedMessage, match="client id"):
        server.next_frame()


# ------------------------------------------------------------------------------------------------ headers


@pytest.mark.parametrize(
    ("api_key", "version", "header_version"),
    [(PRODUCE, 8, 1), (PRODUCE, 9, 2), (DELETE_RECORDS, 1, 1), (DELETE_RECORDS, 2, 2), (API_VERSIONS, 2, 1)],
)
def test_the_version_of_the_header_follows_from_the_request(api_key: int, version: int, header_version: int) -> None:
    server = connection()
    server.receive_data(framed(RequestHeader(api_key, version, 1, "me").encode(header_version) + b"body"))
    assert bytes(next_frame(server).body) == b"body"


def test_an_api_versions_request_of_a_version_to_come_is_handed_out() -> None:
    server = connection()
    server.receive_data(framed(RequestHeader(API_VERSIONS, 99, 5, "me").encode(2) + b"?"))
    frame = next_frame(server)
    assert frame.header == (API_VERSIONS, 99, 5, "me")
    assert bytes(frame.body) == b"?"


@for_each("rest", ["", "00", "7fff", "000261", "00016180", "000161ffffffff"])
@for_each("api_key", [API_VERSIONS, 999])
def test_what_we_do_not_serve_is_handed_out_though_its_header_cannot_be_read(api_key: int, rest: str) -> None:
    server = connection()
    server.receive_data(framed(struct.pack(">hhi", api_key, 99, 5) + bytes.fromhex(rest)))
    header = next_frame(server).header
    assert (header.api_key, header.api_version, header.correlation_id) == (api_key, 99, 5)


# ------------------------------------------------------------------------------------------------ memory


def test_a_connection_that_has_not_spoken_has_no_buffer() -> None:
    assert capacity(connection()) == 0


def test_a_small_request_needs_a_small_buffer() -> None:
    server = connection()
    server.receive_data(request(b"body"))
    assert capacity(server) == READ_BYTES


def test_an_announcement_reserves_nothing() -> None:
    tracemalloc.start()
    try:
        servers = [connection() for _ in range(60)]
        for server in servers:
            server.receive_data(struct.pack(">i", 100 * MIB) + b"x" * 100)
            assert server.next_frame() is NEED_DATA
            server.get_buffer()
        assert tracemalloc.get_traced_memory()[0] < 60 * (READ_BYTES + 4096)
    finally:
        tracemalloc.stop()


def test_the_buffer_is_at_most_twice_what_has_arrived_and_ends_one_read_behind_the_frame() -> None:
    server = connection()
    body = bytes(3 * MIB)
    data = request(body)
    sent = 0
    while sent < len(data):
        free = server.get_buffer()
        assert capacity(server) <= max(READ_BYTES, 2 * max(sent, READ_BYTES))
        assert capacity(server) <= len(data) + READ_BYTES
        count = min(len(free), len(data) - sent, 10_000)
        free[:count] = data[sent : sent + count]
        server.buffer_updated(count)
        sent += count
    assert len(next_frame(server).body) == len(body)


def test_a_buffer_for_frames_of_up_to_a_mebibyte_is_kept() -> None:
    server = connection()
    for _ in range(3):
        server.receive_data(request(bytes(900_000)))
        frame = next_frame(server)
        frame.release()
        assert 900_000 < capacity(server) <= KEPT_BYTES


def test_a_larger_one_is_dropped_when_it_is_empty() -> None:
    server = connection()
    server.receive_data(request(bytes(4 * MIB)))
    next_frame(server).release()
    assert capacity(server) == 0


def test_small_requests_in_a_row_bring_a_small_buffer_back() -> None:
    server = connection()
    server.receive_data(request(bytes(900_000)))
    next_frame(server).release()
    for _ in range(40):
        server.receive_data(request(b"body"))
        next_frame(server).release()
    assert capacity(server) <= READ_BYTES


def test_a_connection_that_rests_gives_its_buffer_back_and_goes_on() -> None:
    server = connection()
    server.receive_data(request(bytes(900_000)))
    next_frame(server).release()
    server.trim()
    assert capacity(server) == 0
    server.receive_data(request(b"body"))
    assert bytes(next_frame(server).body) == b"body"


def test_a_client_that_changes_its_header_is_understood() -> None:
    """What it repeats is not read again; every change is seen, also behind the same bytes."""
    server = connection()
    headers = [(PRODUCE, 7, "me"), (PRODUCE, 7, "me"), (PRODUCE, 9, "me"), (DELETE_RECORDS, 1, "me")]
    headers += [(DELETE_RECORDS, 1, "you"), (DELETE_RECORDS, 1, None), (DELETE_RECORDS, 1, "yo"), (PRODUCE, 7, "yo")]
    for correlation_id, (api_key, version, client_id) in enumerate(headers):
        flexible = 2 if (api_key, version) == (PRODUCE, 9) else 1
        header = RequestHeader(api_key, version, correlation_id, client_id)
        server.receive_data(framed(header.encode(flexible) + b"body"))
        frame = next_frame(server)
        assert (frame.header, bytes(frame.body)) == (header, b"body")
        frame.release()
        if correlation_id == 4:
            server.trim()


def test_a_repeated_header_does_not_reach_beyond_its_frame() -> None:
    server = connection()
    whole = request(b"", 1)
    server.receive_data(whole)
    next_frame(server).release()
    server.receive_data(struct.pack(">i", len(whole) - 4 - 1) + whole[4:])
    with pytest.raises(MalformedMessage):
        server.next_frame()


def test_trimming_takes_nothing_that_is_in_use() -> None:
    server = connection()
    data = request(b"body")
    server.receive_data(data[:5])
    server.trim()
    server.receive_data(data[5:])
    frame = next_frame(server)
    server.trim()
    assert capacity(server) == READ_BYTES
    assert bytes(frame.body) == b"body"


# ------------------------------------------------------------------------------------------------ responses


@pytest.mark.parametrize(("header_version", "header"), [(0, "00000007"), (1, "0000000700")])
def test_a_response_is_size_header_and_parts(header_version: int, header: str) -> None:
    buffers = frame_of(encode_response_header(7, header_version), [b"one", memoryview(b"two"), bytearray(b"three")])
    content = bytes.fromhex(header) + b"onetwothree"
    assert b"".join(buffers) == struct.pack(">i", len(content)) + content
    assert len(buffers) == 1


def test_large_parts_are_passed_on_and_small_ones_joined() -> None:
    large = bytes(8 * 1024)
    parts = [b"a", large, b"b", b"c", large]
    buffers = frame_of(encode_response_header(7, 0), parts)
    assert [len(buffer) for buffer in buffers] == [9, len(large), 2, len(large)]
    assert buffers[1] is large
    assert b"".join(buffers)[4:] == struct.pack(">i", 7) + b"".join(parts)


def test_a_response_may_have_no_body() -> None:
    assert b"".join(frame_of(encode_response_header(7, 0), [])) == bytes.fromhex("00000004 00000007")


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("size", [0, 100, 100_000])
def test_a_response_frame_is_the_frame_of_what_the_response_encodes(version: int, size: int) -> None:
    partitions = [FetchResponse.Partition(partition_index=n, records=bytes([n]) * size) for n in range(2)]
    response = FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=partitions)])
    header = encode_response_header(7, response.header_version(version))
    expected = b"".join(frame_of(header, response.encode(version)))
    assert b"".join(response_frame(7, response, version)) == expected

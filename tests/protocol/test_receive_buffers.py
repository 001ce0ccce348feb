"""The buffers of connections: one that they share, and those that they own for what has to stay. `test_framing.py`
tests which sizes of frames are refused."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.protocol.errors import MalformedMessage
from kmini.protocol.frame_reader import GROWTH_BYTES, KEPT_BYTES, READ_BYTES, SMALL_FRAMES_BEFORE_SHRINKING
from kmini.protocol.messages.headers import RequestHeader
from support.extension_modules import FORMS, load_form
from support.fuzz.mutations import mutated

MIB = 1024 * 1024
PRODUCE, FETCH, HEARTBEAT = 0, 1, 12


@pytest.fixture(params=FORMS, scope="module")
def framing(request: pytest.FixtureRequest) -> Any:
    """Framing compiled, and interpreted."""
    return load_form("kmini.protocol.framing", request.param)


@pytest.fixture
def shared(framing: Any) -> Any:
    return framing.ReceiveBuffer()


@pytest.fixture
def server(framing: Any, shared: Any) -> Any:
    return framing.ServerConnection(100 * MIB, shared)


@pytest.fixture
def other(framing: Any, shared: Any) -> Any:
    """Another connection of the same server."""
    return framing.ServerConnection(100 * MIB, shared)


def request(body: bytes, correlation_id: int = 7, *, api_key: int = PRODUCE, version: int = 7) -> bytes:
    content = RequestHeader(api_key, version, correlation_id, "me").encode(1) + body
    return struct.pack(">i", len(content)) + content


def receive(connection: Any, data: bytes) -> None:
    """Let bytes arrive as a loop does: in as many reads as it takes."""
    while data:
        free = connection.get_buffer()
        assert len(free) > 0
        count = min(len(free), len(data))
        free[:count], data = data[:count], data[count:]
        connection.buffer_updated(count)


def is_frame(frame: Any) -> bool:
    return hasattr(frame, "body")


# ------------------------------------------------------------------------------------------------ the shared buffer


def test_a_request_that_is_answered_leaves_its_connection_without_a_buffer(server: Any, other: Any) -> None:
    for connection in (server, other, server):
        receive(connection, request(b"body"))
        frame = connection.next_frame()
        assert bytes(frame.body) == b"body"
        frame.release()
        assert (connection.owned_bytes, connection.pending_bytes) == (0, 0)


def test_connections_at_rest_are_read_into_one_buffer(server: Any, other: Any) -> None:
    assert server.get_buffer() is other.get_buffer() is server.get_buffer()
    assert len(server.get_buffer()) == READ_BYTES


def test_a_frame_in_service_keeps_its_bytes_while_another_connection_is_read(server: Any, other: Any) -> None:
    receive(server, request(b"x" * 10_000))
    frame = server.next_frame()
    view = frame.body[5_000:]
    receive(other, request(b"y" * 16_000))
    assert bytes(other.next_frame().body) == b"y" * 16_000
    assert bytes(frame.body) == b"x" * 10_000
    assert bytes(view) == b"x" * 5_000
    assert server.owned_bytes == READ_BYTES
    frame.release()
    assert server.owned_bytes == 0


def test_the_records_of_a_small_request_are_never_copied(server: Any, other: Any) -> None:
    """A write through the body of before shows in the body that is handed out."""
    free = server.get_buffer()
    data = request(b"body")
    free[: len(data)] = data
    server.buffer_updated(len(data))
    frame = server.next_frame()
    free[len(data) - 4 : len(data)] = b"BODY"
    assert bytes(frame.body) == b"BODY"
    other.get_buffer()
    frame.body[:4] = b"BooK"
    assert bytes(free[len(data) - 4 : len(data)]) == b"BooK"


def test_a_body_that_is_forgotten_costs_no_buffer_and_its_request_stays_in_service(server: Any, other: Any) -> None:
    receive(server, request(b"fetch", 1, api_key=FETCH))
    frame = server.next_frame()
    frame.forget_body()
    assert (bytes(frame.body), frame.header) == (b"", (FETCH, 7, 1, "me"))
    receive(other, request(b"body"))
    assert server.owned_bytes == 0
    with pytest.raises(RuntimeError, match="not released"):
        server.next_frame()
    frame.release()
    frame.forget_body()
    receive(server, request(b"more", 2))
    assert server.next_frame().correlation_id == 2


def test_requests_behind_one_in_service_stay_whoever_is_read_meanwhile(server: Any, other: Any) -> None:
    receive(server, request(b"fetch", 1, api_key=FETCH) + request(b"produce", 2))
    frame = server.next_frame()
    frame.forget_body()
    receive(other, request(b"y" * 16_000))
    receive(server, request(b"heartbeat", 3, api_key=HEARTBEAT, version=1))
    frame.release()
    bodies = []
    for _ in range(2):
        frame = server.next_frame()
        bodies.append(bytes(frame.body))
        frame.release()
    assert bodies == [b"produce", b"heartbeat"]
    assert server.owned_bytes == 0


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11, 12, 13, 900, 1_015])
def test_a_frame_that_comes_in_two_pieces_is_whole_whoever_is_read_meanwhile(server: Any, other: Any, cut: int) -> None:
    data = request(b"x" * 1_000)
    receive(server, data[:cut])
    assert not is_frame(server.next_frame())
    receive(other, request(b"y" * 16_000))
    assert server.owned_bytes == READ_BYTES
    receive(server, data[cut:])
    frame = server.next_frame()
    assert bytes(frame.body) == b"x" * 1_000
    frame.release()
    assert server.owned_bytes == 0


def test_a_free_space_that_gets_no_bytes_changes_nothing(server: Any, other: Any) -> None:
    receive(server, request(b"one")[:-1])
    for connection in (other, server, other):
        connection.get_buffer()
        connection.buffer_updated(0)
    other.get_buffer()
    receive(server, request(b"one")[-1:])
    assert bytes(server.next_frame().body) == b"one"
    assert not is_frame(other.next_frame())


def test_a_connection_that_ends_in_the_middle_of_a_frame_harms_no_other(framing: Any, shared: Any, other: Any) -> None:
    ending = framing.ServerConnection(MIB, shared)
    receive(ending, request(b"never whole")[:-1])
    del ending
    receive(other, request(b"body"))
    assert bytes(other.next_frame().body) == b"body"


def test_a_malformed_frame_harms_no_other_connection(server: Any, other: Any) -> None:
    receive(server, struct.pack(">i", -7) + b"more")
    with pytest.raises(MalformedMessage):
        server.next_frame()
    receive(other, request(b"body"))
    assert bytes(other.next_frame().body) == b"body"


# ------------------------------------------------------------------------------------------------ buffers of its own


def test_a_large_frame_comes_together_in_a_buffer_of_its_own_that_is_kept(server: Any, other: Any) -> None:
    for _ in range(3):
        receive(server, request(bytes(900_000)))
        receive(other, request(b"body"))
        other.next_frame().release()
        frame = server.next_frame()
        assert len(frame.body) == 900_000
        frame.release()
        assert 900_000 < server.owned_bytes <= KEPT_BYTES
    before = server.get_buffer()
    receive(server, request(bytes(900_000)))
    assert server.next_frame().body.obj is before.obj, "the frame is in the buffer that was kept: nothing was copied"


def test_small_frames_in_a_row_bring_a_connection_back_to_the_shared_buffer(server: Any) -> None:
    receive(server, request(bytes(900_000)))
    server.next_frame().release()
    for _ in range(SMALL_FRAMES_BEFORE_SHRINKING):
        assert server.owned_bytes > 900_000
        receive(server, request(b"body"))
        server.next_frame().release()
    assert server.owned_bytes == 0


def test_small_frames_in_one_flood_leave_no_buffer(server: Any, other: Any) -> None:
    """They never needed a large one: it came from what had not been served yet."""
    receive(server, b"".join(request(b"x" * 1_000, n) for n in range(30)))
    receive(other, request(b"body"))
    assert server.owned_bytes > READ_BYTES
    for n in range(30):
        frame = server.next_frame()
        assert (frame.correlation_id, bytes(frame.body)) == (n, b"x" * 1_000)
        frame.release()
    assert server.owned_bytes == 0


def test_half_frames_of_many_connections_take_one_read_each_and_announcements_nothing(
    framing: Any, shared: Any
) -> None:
    tracemalloc.start()
    try:
        connections = [framing.ServerConnection(100 * MIB, shared) for _ in range(60)]
        for connection in connections:
            receive(connection, struct.pack(">i", 90 * MIB) + b"x" * 100)
            assert not is_frame(connection.next_frame())
        assert tracemalloc.get_traced_memory()[0] < 60 * (READ_BYTES + 4096)
        del connections
    finally:
        tracemalloc.stop()


def test_connections_at_rest_take_next_to_no_memory(framing: Any, shared: Any) -> None:
    tracemalloc.start()
    try:
        connections = [framing.ServerConnection(100 * MIB, shared) for _ in range(500)]
        for n, connection in enumerate(connections):
            receive(connection, request(b"body", n))
            connection.next_frame().release()
        assert tracemalloc.get_traced_memory()[0] < 500 * 1_000 + 50_000
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------------------ all together


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 4))
def test_however_the_streams_are_cut_and_mixed_the_same_frames_come_out_and_held_ones_stay(
    framing: Any, seed: int, count: int
) -> None:
    dice = random.Random(seed)
    shared = framing.ReceiveBuffer()
    connections = [framing.ServerConnection(MIB, shared) for _ in range(count)]
    bodies = [
        [dice.randbytes(dice.choice([0, 3, 500, 6_000, 16_370, 60_000])) for _ in range(dice.randrange(9))]
        for _ in connections
    ]
    left = [b"".join(request(body, n) for n, body in enumerate(of_one)) for of_one in bodies]
    seen: list[list[bytes]] = [[] for _ in connections]
    held: list[Any] = [None] * count
    steps = 0
    while any(left) or any(held) or any(connection.pending_bytes for connection in connections):
        steps += 1
        assert steps < 100_000
        number = dice.randrange(count)
        connection = connections[number]
        if left[number] and dice.random() < 0.7:
            free = connection.get_buffer()
            assert len(free) > 0
            arrived = min(len(free), len(left[number]), dice.choice([1, 7, 1_000, 20_000, 100_000]))
            free[:arrived], left[number] = left[number][:arrived], left[number][arrived:]
            connection.buffer_updated(arrived)
        if held[number] is not None and (not any(left) or dice.random() < 0.4):
            frame, expected = held[number]
            assert bytes(frame.body) == expected, "a frame that is held was overwritten"
            frame.release()
            held[number] = None
        if held[number] is None:
            frame = connection.next_frame()
            if is_frame(frame):
                assert frame.correlation_id == len(seen[number])
                seen[number].append(bytes(frame.body))
                if dice.random() < 0.2:
                    frame.forget_body()
                held[number] = (frame, bytes(frame.body))
    assert seen == bodies
    for connection in connections:
        connection.trim()
        assert (connection.pending_bytes, connection.owned_bytes) == (0, 0)


def outcomes_of(module: Any, streams: list[bytes], seed: int) -> list[Any]:
    """What two connections make of two streams that arrive in turn, piece by piece: frames, errors and buffers."""
    dice = random.Random(seed)
    shared = module.ReceiveBuffer()
    connections = [module.ServerConnection(200_000, shared) for _ in streams]
    left, outcomes, ended = list(streams), [], [False] * len(streams)
    while any(left):
        number = dice.randrange(len(streams))
        connection = connections[number]
        free = connection.get_buffer()
        count = min(len(free), len(left[number]), dice.choice([1, 40, 900, 100_000]))
        free[:count], left[number] = left[number][:count], left[number][count:]
        connection.buffer_updated(count)
        hold = dice.random() < 0.3
        while not ended[number]:
            try:
                frame = connection.next_frame()
            except (MalformedMessage, RuntimeError) as error:
                outcomes.append((number, type(error).__name__, str(error)))
                ended[number] = True
                break
            if not is_frame(frame):
                break
            outcomes.append((number, tuple(frame.header), bytes(frame.body)))
            if hold:
                break
            frame.release()
        outcomes.append((connection.pending_bytes, connection.owned_bytes))
    return outcomes


def test_both_forms_make_the_same_of_mutated_frames_and_headers() -> None:
    compiled, interpreted = (load_form("kmini.protocol.framing", form) for form in FORMS)
    dice = random.Random("forms")
    clients: list[str | None] = ["me", "you", None, "é" * 40]
    errors = 0
    for round_number in range(400):
        streams = []
        for _ in range(2):
            requests = []
            for n in range(dice.randrange(1, 12)):
                api_key, version, flexible = dice.choice([(0, 7, 1), (0, 9, 2), (1, 12, 2), (18, 99, 1), (999, 0, 1)])
                header = RequestHeader(api_key, version, n, dice.choice(clients)).encode(flexible)
                content = header + bytes(dice.choice([0, 5, 300, 17_000]))
                requests.append(struct.pack(">i", len(content)) + content)
            stream = b"".join(requests * dice.choice([1, 2]))
            streams.append(bytes(mutated(stream, dice)) if dice.random() < 0.7 else stream)
        expected = outcomes_of(interpreted, streams, round_number)
        assert outcomes_of(compiled, streams, round_number) == expected
        errors += sum(isinstance(outcome[1], str) for outcome in expected)
    assert errors > 50


def test_both_forms_write_the_same_response_frames() -> None:
    from kmini.protocol.messages.api_versions import ApiVersionsResponse
    from kmini.protocol.messages.fetch import FetchResponse

    compiled, interpreted = (load_form("kmini.protocol.framing", form) for form in FORMS)
    for correlation_id in (0, 7, -1, 2**31 - 1, -(2**31)):
        for size in (0, 100, 20_000):
            partition = FetchResponse.Partition(partition_index=1, records=bytes(size))
            fetched = FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=[partition])])
            for response, version in ((fetched, 4), (fetched, 12), (ApiVersionsResponse(), 3)):
                written = [
                    module.response_frame(correlation_id, response, version) for module in (compiled, interpreted)
                ]
                assert written[0] == written[1]
                assert b"".join(written[0])[4:8] == struct.pack(">i", correlation_id)


# ------------------------------------------------------------------------------------------------ very large frames


def arrive_in_steps(connection: Any, data: bytes) -> list[tuple[int, int]]:
    """Let bytes arrive, each read as large as it may be; return the size of each, and the identity of its buffer."""
    reads, at = [], 0
    while at < len(data):
        free = connection.get_buffer()
        count = min(len(free), len(data) - at)
        free[:count] = data[at : at + count]
        reads.append((count, id(free.obj)))
        del free
        connection.buffer_updated(count)
        at += count
    return reads


def test_a_very_large_frame_grows_in_small_steps_without_moving(server: Any) -> None:
    body = random.Random(1).randbytes(10 * MIB)
    reads = arrive_in_steps(server, request(body))
    beyond = [read for number, read in enumerate(reads) if sum(count for count, _ in reads[:number]) >= 2 * KEPT_BYTES]
    assert sum(count for count, _ in beyond) > 7 * MIB
    assert max(count for count, _ in beyond) <= GROWTH_BYTES
    assert len({buffer for _, buffer in beyond}) == 1
    frame = server.next_frame()
    assert bytes(frame.body) == body
    frame.release()
    assert server.owned_bytes == 0


def test_a_very_large_frame_moves_where_a_view_of_its_buffer_is_in_use(server: Any) -> None:
    body = random.Random(1).randbytes(6 * MIB)
    data = request(body)
    arrive_in_steps(server, data[: 3 * MIB])
    view = server.get_buffer()
    before = bytes(view.obj[: 3 * MIB])
    arrive_in_steps(server, data[3 * MIB :])
    assert bytes(view.obj[: 3 * MIB]) == before == data[: 3 * MIB]
    assert bytes(server.next_frame().body) == body


def test_a_very_large_frame_behind_another_one_comes_out_whole(server: Any) -> None:
    bodies = [random.Random(seed).randbytes(size) for seed, size in enumerate((2 * MIB, 5 * MIB, 100, 3 * MIB))]
    arrive_in_steps(server, b"".join(map(request, bodies)))
    for body in bodies:
        frame = server.next_frame()
        assert bytes(frame.body) == body
        frame.release()


def test_the_buffer_of_a_very_large_frame_ends_one_step_behind_what_has_arrived(server: Any) -> None:
    data = request(bytes(32 * MIB))
    arrive_in_steps(server, data[: 16 * MIB])
    assert server.owned_bytes <= 16 * MIB + GROWTH_BYTES

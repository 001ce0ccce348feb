"""Connections in memory: order, back-pressure, and the end of a connection from either side."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable

import pytest

from kmini.broker import scheduler
from kmini.broker.network.memory_transport import HIGH_WATER_BYTES, LOW_WATER_BYTES, MemoryNetwork, MemoryTransport
from support.until import until_async

CLIENT, SERVER = ("127.0.0.1", 0), ("127.0.0.1", 9092)


class End(asyncio.Protocol):
    """Notes what happens to it."""

    def __init__(self) -> None:
        self.transport: MemoryTransport
        self.received = bytearray()
        self.events: list[object] = []
        self.on_data: Callable[[bytes], None] = lambda data: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.received += data
        self.on_data(data)

    def eof_received(self) -> None:
        self.events.append("end")

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append(("lost", error))

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class BufferedEnd(End, asyncio.BufferedProtocol):
    """Reads into buffers of seven bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray(7)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))


def connected(near: End, far: End) -> None:
    MemoryNetwork().connect(near, far, client_name=CLIENT, server_name=SERVER)


async def carried(passes: int = 4) -> None:
    """Return when what was written, and the end of a connection, has arrived."""
    for _ in range(passes):
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", [End, BufferedEnd])
async def test_bytes_arrive_in_the_order_in_which_they_were_written(kind: type[End]) -> None:
    near, far = End(), kind()
    connected(near, far)
    near.transport.write(b"one, ")
    near.transport.writelines([bytearray(b"two, "), b"", memoryview(b"three, ")])
    near.transport.write(b"and more bytes than a buffer has")
    assert not far.received
    await carried()
    assert far.received == b"one, two, three, and more bytes than a buffer has"


async def test_each_end_has_its_name_and_that_of_the_other() -> None:
    near, far = End(), End()
    connected(near, far)
    names = [
        (end.transport.get_extra_info("sockname"), end.transport.get_extra_info("peername")) for end in (near, far)
    ]
    assert names == [(CLIENT, SERVER), (SERVER, CLIENT)]
    assert near.events == far.events == ["made"]


@pytest.mark.sockets
async def test_a_conversation_takes_one_turn_of_the_loop_and_no_call_inside_a_call() -> None:
    """Ten thousand answers to answers: each one inside the other, they would exceed the limit of recursion."""
    near, far = End(), End()
    connected(near, far)
    count = 10_000
    assert count > sys.getrecursionlimit()
    depths = {near: 0, far: 0}

    def answer(end: End, data: bytes) -> None:
        assert not depths[near]
        assert not depths[far]
        depths[end] += 1
        number = int.from_bytes(data, "big")
        if number < count:
            end.transport.write((number + 1).to_bytes(4, "big"))
        depths[end] -= 1

    near.on_data = lambda data: answer(near, data)
    far.on_data = lambda data: answer(far, data)
    near.transport.write((1).to_bytes(4, "big"))
    await until_async(lambda: len(near.received) + len(far.received) == 4 * count)
    assert near.received[-4:] == count.to_bytes(4, "big")


async def test_a_few_requests_and_answers_share_a_turn() -> None:
    near, far = End(), End()
    connected(near, far)
    far.on_data = lambda data: far.transport.write(data.upper())
    near.on_data = lambda data: near.transport.write(b"b") if data == b"A" else None
    near.transport.write(b"a")
    await asyncio.sleep(0)
    assert (far.received, near.received) == (b"ab", b"AB")


async def test_an_endless_conversation_leaves_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_TURN_S", 0.001)
    near, far = End(), End()
    connected(near, far)
    near.on_data = near.transport.write
    far.on_data = far.transport.write
    near.transport.write(b"x")
    await asyncio.wait_for(carried(20), 30)
    assert near.received
    near.transport.abort()


async def test_a_writer_pauses_until_the_reader_has_caught_up() -> None:
    near, far = End(), BufferedEnd()
    connected(near, far)
    far.transport.pause_reading()
    near.transport.write(bytes(HIGH_WATER_BYTES))
    assert near.events == ["made"]
    near.transport.write(b"x")
    assert near.events == ["made", "pause"]
    near.transport.write(b"y")
    await carried()
    assert near.events == ["made", "pause"]
    assert near.transport.get_write_buffer_size() == HIGH_WATER_BYTES + 2
    assert not far.received

    def read_until(left: int) -> Callable[[bytes], None]:
        def pause(_: bytes) -> None:
            if HIGH_WATER_BYTES + 2 - len(far.received) <= left:
                far.transport.pause_reading()

        return pause

    far.on_data = read_until(LOW_WATER_BYTES + 7)
    far.transport.resume_reading()
    await carried()
    assert near.events == ["made", "pause"]
    assert near.transport.get_write_buffer_size() > LOW_WATER_BYTES
    far.on_data = read_until(0)
    far.transport.resume_reading()
    await carried()
    assert near.events == ["made", "pause", "resume"]
    assert far.received == bytes(HIGH_WATER_BYTES) + b"xy"


async def test_a_reader_that_pauses_inside_a_write_gets_the_rest_of_it_later() -> None:
    near, far = End(), BufferedEnd()
    connected(near, far)
    far.on_data = lambda data: far.transport.pause_reading()
    near.transport.write(b"0123456789")
    await carried()
    assert far.received == b"0123456"
    assert not far.transport.is_reading()
    far.transport.resume_reading()
    await carried()
    assert far.received == b"0123456789"


@pytest.mark.parametrize("ends", ["near", "far"])
async def test_what_is_written_before_a_close_arrives_before_the_end(ends: str) -> None:
    near, far = End(), End()
    connected(near, far)
    closing, other = (near, far) if ends == "near" else (far, near)
    other.on_data = lambda data: other.events.append(data)
    closing.transport.write(b"last words")
    closing.transport.close()
    closing.transport.write(b"too late")
    assert closing.transport.is_closing()
    await carried()
    assert closing.events == ["made", ("lost", None)]
    assert other.events == ["made", b"last words", "end", ("lost", None)]


async def test_the_end_of_a_connection_is_noticed_only_by_reading() -> None:
    near, far = End(), End()
    connected(near, far)
    far.transport.pause_reading()
    near.transport.write(b"last words")
    near.transport.close()
    await carried()
    assert far.events == ["made"]
    far.transport.resume_reading()
    await carried()
    assert far.received == b"last words"
    assert far.events == ["made", "end", ("lost", None)]


async def test_an_abort_takes_back_what_the_other_end_has_not_read() -> None:
    near, far = End(), End()
    connected(near, far)
    far.transport.write(b"never read")
    near.transport.write(b"never read")
    near.transport.abort()
    near.transport.abort()
    await carried()
    assert near.events == ["made", ("lost", None)]
    assert far.events == ["made", "end", ("lost", None)]
    assert not near.received
    assert not far.received


async def test_both_ends_may_close_at_once() -> None:
    near, far = End(), End()
    connected(near, far)
    near.transport.close()
    far.transport.close()
    await carried()
    assert near.events == far.events == ["made", ("lost", None)]


async def test_a_writer_whose_reader_is_gone_goes_on_and_notices_the_end() -> None:
    near, far = End(), End()
    connected(near, far)
    far.transport.pause_reading()
    near.transport.write(bytes(HIGH_WATER_BYTES + 1))
    near.transport.pause_reading()
    far.transport.abort()
    await carried()
    assert near.events == ["made", "pause", "resume"]
    near.transport.write(b"unread")
    assert near.transport.get_write_buffer_size() == 0
    near.transport.resume_reading()
    await carried()
    assert near.events == ["made", "pause", "resume", "end", ("lost", None)]


async def test_a_server_may_refuse_a_connection_when_it_is_made() -> None:
    class Refusing(End):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.abort()

    near, far = End(), Refusing()
    connected(near, far)
    assert near.events == ["made"]
    await carried()
    assert near.events == ["made", "end", ("lost", None)]
    assert far.events == ["made", ("lost", None)]


async def test_a_protocol_that_fails_loses_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    near, far, other_near, other_far = End(), End(), End(), End()
    network = MemoryNetwork()
    network.connect(near, far, client_name=CLIENT, server_name=SERVER)
    network.connect(other_near, other_far, client_name=CLIENT, server_name=SERVER)

    def fail(data: bytes) -> None:
        raise ValueError("this protocol has a fault")

    far.on_data = fail
    near.transport.write(b"x")
    other_near.transport.write(b"y")
    with caplog.at_level(logging.ERROR, "asyncio"):
        await carried()
    assert "this protocol has a fault" in caplog.text
    assert near.events == ["made", "end", ("lost", None)]
    assert far.events == ["made", ("lost", None)]
    assert other_far.received == b"y"
    assert other_near.events == other_far.events == ["made"]

"""Old requests as clients write them that speak a fixed version, such as kafka-go's: byte by byte, without any table.

Its connection asks for Metadata 1, Produce 2, Fetch 2 and ListOffsets 1; older ones for version 0 of each.
"""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from support.client_adapters import create_topic
from support.server_process import ServerProcess

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _not_kafka(against_kafka: bool) -> None:
    if against_kafka:
        pytest.skip("Apache Kafka 4 has forgotten these versions")


class Reader:
    """Fields of an answer, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __call__(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)


Ask = Callable[[int, int, bytes], Reader]


@pytest.fixture
def ask(server: ServerProcess) -> Iterator[Ask]:
    with socket.create_connection((server.host, server.port), 20) as connection:

        def exactly(count: int) -> bytes:
            data = b""
            while len(data) < count:
                data += connection.recv(count - len(data)) or pytest.fail("the connection was closed")
            return data

        def ask(api_key: int, version: int, body: bytes) -> Reader:
            request = struct.pack(">hhi", api_key, version, 77) + text("kafka-go") + body
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = Reader(exactly(struct.unpack(">i", exactly(4))[0]))
            assert answer("i") == 77
            return answer

        yield ask


@pytest.fixture
def topic(server: ServerProcess, topic_names: Callable[[str], str]) -> str:
    name = topic_names("kafka-go")
    create_topic(server.bootstrap_servers, name)
    return name


class Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def sized(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def message(magic: int, value: bytes, key: bytes | None = None) -> bytes:
    content = struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW_MS) if magic else b"") + sized(key) + sized(value)
    return struct.pack(">qiI", 0, len(content) + 4, zlib.crc32(content)) + content


def messages(data: bytes) -> Iterator[Message]:
    reader = Reader(data)
    while not reader.is_at_end:
        offset, size, crc = reader("q"), reader("i"), reader("I")
        content = reader.take(size - 4)
        assert zlib.crc32(content) == crc
        fields = Reader(content)
        magic, attributes = fields("b"), fields("b")
        timestamp = fields("q") if magic else None
        key, value = ((fields.take(length) if (length := fields("i")) >= 0 else None) for _ in range(2))
        assert fields.is_at_end
        yield Message(offset, magic, attributes, timestamp, key, value)


def partition_of(answer: Reader, topic: str) -> Reader:
    """Past the names, to the fields of the only partition."""
    assert answer("i") == 1
    assert answer.take(answer("h")) == topic.encode()
    assert (answer("i"), answer("i")) == (1, 0)
    return answer


def produce(ask: Ask, topic: str, version: int, data: bytes) -> int:
    """The offset that the first message got."""
    body = struct.pack(">hii", -1, 10_000, 1) + text(topic) + struct.pack(">iii", 1, 0, len(data)) + data
    answer = partition_of(ask(PRODUCE, version, body), topic)
    assert answer("h") == 0
    offset = answer("q")
    if version >= 2:
        assert answer("q") == -1  # log append time
    if version >= 1:
        assert answer("i") == 0  # throttle time
    assert answer.is_at_end
    return offset


def fetch(ask: Ask, topic: str, version: int, offset: int) -> tuple[int, list[Message]]:
    """The high watermark, and what there is."""
    body = struct.pack(">iii", -1, 100, 1) + (struct.pack(">i", 1 << 20) if version >= 3 else b"")
    body += struct.pack(">i", 1) + text(topic) + struct.pack(">iiqi", 1, 0, offset, 1 << 20)
    answer = ask(FETCH, version, body)
    if version >= 1:
        assert answer("i") == 0  # throttle time
    partition_of(answer, topic)
    assert answer("h") == 0
    high_watermark = answer("q")
    data = answer.take(answer("i"))
    assert answer.is_at_end
    return high_watermark, [*messages(data)]


@pytest.mark.parametrize(("produce_version", "fetch_version"), [(0, 0), (1, 1), (2, 2), (2, 3), (0, 2), (2, 0)])
def test_what_is_produced_is_fetched(ask: Ask, topic: str, produce_version: int, fetch_version: int) -> None:
    magic = int(produce_version == 2)
    sent = message(magic, b"first", b"key") + message(magic, b"second")
    assert [produce(ask, topic, produce_version, sent) for _ in range(2)] == [0, 2]
    high_watermark, read = fetch(ask, topic, fetch_version, 1)
    assert high_watermark == 4
    magic_read = int(fetch_version >= 2)
    timestamp = (NOW_MS if magic else -1) if magic_read else None
    assert (
        read
        == [
            Message(1, magic_read, 0, timestamp, None, b"second"),
            Message(2, magic_read, 0, timestamp, b"key", b"first"),
            Message(3, magic_read, 0, timestamp, None, b"second"),
        ][: len(read)]
    )
    assert read


def test_list_offsets_names_both_ends(ask: Ask, topic: str) -> None:
    produce(ask, topic, 2, message(1, b"one") + message(1, b"two"))
    for timestamp, expected in ((-1, 2), (-2, 0)):
        where = text(topic) + struct.pack(">iiq", 1, 0, timestamp)
        old = ask(LIST_OFFSETS, 0, struct.pack(">ii", -1, 1) + where + struct.pack(">i", 1))
        assert (partition_of(old, topic)("h"), old("i"), old("q")) == (0, 1, expected)
        assert old.is_at_end
        new = ask(LIST_OFFSETS, 1, struct.pack(">ii", -1, 1) + where)
        assert (partition_of(new, topic)("h"), new("q"), new("q")) == (0, -1, expected)
        assert new.is_at_end

"""floor.py PORT DIR [PEM]: a bare server in Python that answers librdkafka and checks only checksums: a broker's floor.

It has what no broker can do without: frames from the socket, the records' checksum, a write to a file, an index in
memory, an answer. It has no validation, no settings, no topics but those that are asked for, no second version of
anything. One partition a topic. What kmini takes beyond its times is the price of being a broker.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from bisect import bisect_right
from collections.abc import Callable
from struct import Struct
from typing import Any

import crc32c
import uvloop

HEADER = Struct(">hhih")
"""API key, API version, correlation id, length of the client id."""
SERVED = {0: (3, 7), 1: (4, 4), 2: (1, 1), 3: (1, 1), 18: (0, 0)}
"""By API key, the versions of Produce, Fetch, ListOffsets, Metadata and ApiVersions."""
UNSUPPORTED_VERSION = 35
INT16, INT32, INT64, UINT32 = Struct(">h"), Struct(">i"), Struct(">q"), Struct(">I")
LENGTH_AT, CRC_AT, CHECKED_AT, LAST_OFFSET_DELTA_AT = 8, 17, 21, 23
"""Of a record batch: where its length and its checksum are, what the checksum covers, its last offset."""
BUFFER_BYTES = 1 << 20


class Partition:
    """A file of record batches."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.size = self.end_offset = 0
        self.base_offsets: list[int] = []
        self.positions: list[int] = []
        self.waiting: list[Callable[[], None]] = []

    def append(self, batches: memoryview) -> int:
        """Give the batches their offsets and write them; return the first offset."""
        at, first = 0, self.end_offset
        while at < len(batches):
            end = at + 12 + INT32.unpack_from(batches, at + LENGTH_AT)[0]
            if crc32c.crc32c(batches[at + CHECKED_AT : end]) != UINT32.unpack_from(batches, at + CRC_AT)[0]:
                raise ValueError("a wrong checksum")
            INT64.pack_into(batches, at, self.end_offset)
            self.base_offsets.append(self.end_offset)
            self.positions.append(self.size + at)
            self.end_offset += INT32.unpack_from(batches, at + LAST_OFFSET_DELTA_AT)[0] + 1
            at = end
        os.write(self.file, batches)
        self.size += len(batches)
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            answer()
        return first

    def read(self, offset: int, max_bytes: int) -> bytes:
        if offset >= self.end_offset:
            return b""
        position = self.positions[bisect_right(self.base_offsets, offset) - 1]
        return os.pread(self.file, min(max_bytes, self.size - position), position)


class Connection(asyncio.BufferedProtocol):
    def __init__(self, partition_of: Callable[[bytes], Partition], port: int) -> None:
        self.partition_of = partition_of
        self.port = port
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self.received = 0
        self.answers = {0: self.produce, 1: self.fetch, 2: self.list_offsets, 3: self.metadata, 18: self.api_versions}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer[self.received :]

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        at = 0
        while self.received - at >= 4:
            size: int = INT32.unpack_from(self.buffer, at)[0]
            if self.received - at - 4 < size:
                break
            self.serve(self.buffer[at + 4 : at + 4 + size])
            at += 4 + size
        rest = bytes(self.buffer[at : self.received])
        if len(rest) >= 4 and (needed := 4 + INT32.unpack_from(rest)[0]) > len(self.buffer):
            self.buffer = memoryview(bytearray(needed + BUFFER_BYTES))
        self.buffer[: len(rest)] = rest
        self.received = len(rest)

    def serve(self, request: memoryview) -> None:
        api_key, version, correlation_id, client_id_length = HEADER.unpack_from(request)
        self.answers[api_key](version, correlation_id, request, HEADER.size + max(client_id_length, 0))

    def send(self, correlation_id: int, *parts: bytes) -> None:
        if self.transport.is_closing():
            return
        size = 4 + sum(map(len, parts))
        self.transport.writelines((INT32.pack(size) + INT32.pack(correlation_id), *parts))

    def api_versions(self, version: int, correlation_id: int, request: memoryview, at: int) -> None:
        ranges = b"".join(Struct(">hhh").pack(api_key, *versions) for api_key, versions in SERVED.items())
        error = UNSUPPORTED_VERSION if version else 0
        self.send(correlation_id, INT16.pack(error), INT32.pack(len(SERVED)), ranges)

    def metadata(self, version: int, correlation_id: int, request: memoryview, at: int) -> None:
        (count,) = INT32.unpack_from(request, at)
        at += 4
        topics = []
        for _ in range(max(count, 0)):
            name, at = text(request, at)
            self.partition_of(name)
            one_partition = Struct(">i hii ii ii").pack(1, 0, 0, 1, 1, 1, 1, 1)
            topics.append(INT16.pack(0) + sized(name) + b"\0" + one_partition)
        brokers = Struct(">ii").pack(1, 1) + sized(b"127.0.0.1") + INT32.pack(self.port) + INT16.pack(-1)
        self.send(correlation_id, brokers, INT32.pack(1), INT32.pack(len(topics)), *topics)

    def produce(self, version: int, correlation_id: int, request: memoryview, at: int) -> None:
        _, at = text(request, at)
        acks, _, topic_count = Struct(">hii").unpack_from(request, at)
        at += 10
        out = [INT32.pack(topic_count)]
        for _ in range(topic_count):
            name, at = text(request, at)
            (partition_count,) = INT32.unpack_from(request, at)
            at += 4
            out += [sized(name), INT32.pack(partition_count)]
            for _ in range(partition_count):
                number, size = Struct(">ii").unpack_from(request, at)
                at += 8
                first = self.partition_of(name).append(request[at : at + size])
                at += size
                out.append(Struct(">ihqq").pack(number, 0, first, -1) + (INT64.pack(0) if version >= 5 else b""))
        if acks:
            self.send(correlation_id, *out, INT32.pack(0))

    def list_offsets(self, version: int, correlation_id: int, request: memoryview, at: int) -> None:
        name, at = text(request, at + 8)
        number, timestamp = Struct(">iq").unpack_from(request, at + 4)
        offset = 0 if timestamp == -2 else self.partition_of(name).end_offset
        one = Struct(">i ihqq").pack(1, number, 0, -1, offset)
        self.send(correlation_id, INT32.pack(1), sized(name), one)

    def fetch(self, version: int, correlation_id: int, request: memoryview, at: int) -> None:
        (max_wait_ms,) = INT32.unpack_from(request, at + 4)
        name, at = text(request, at + 21)
        number, offset, max_bytes = Struct(">iqi").unpack_from(request, at + 4)
        partition = self.partition_of(name)

        def answer() -> None:
            timer.cancel()
            if answer in partition.waiting:
                partition.waiting.remove(answer)
            records = partition.read(offset, max_bytes)
            ends = partition.end_offset
            found = Struct(">i ihqq ii").pack(1, number, 0, ends, ends, 0, len(records))
            self.send(correlation_id, INT32.pack(0), INT32.pack(1), sized(name), found, records)

        timer = asyncio.get_running_loop().call_later(max_wait_ms / 1000, answer)
        if offset < partition.end_offset:
            answer()
        else:
            partition.waiting.append(answer)


def text(request: memoryview, at: int) -> tuple[bytes, int]:
    """A string, and where it ends."""
    (length,) = INT16.unpack_from(request, at)
    end = at + 2 + max(length, 0)
    return bytes(request[at + 2 : end]), end


def sized(value: bytes) -> bytes:
    return INT16.pack(len(value)) + value


async def serve(port: int, directory: str, pem: str = "") -> None:
    """`pem` is a file with the key and the certificate of a server with TLS."""
    context = None
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
    os.makedirs(directory, exist_ok=True)
    partitions: dict[bytes, Partition] = {}

    def partition_of(name: bytes) -> Partition:
        if name not in partitions:
            partitions[name] = Partition(os.path.join(directory, f"{len(partitions)}.log"))
        return partitions[name]

    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(partition_of, port), "127.0.0.1", port, ssl=context
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), *sys.argv[2:]))

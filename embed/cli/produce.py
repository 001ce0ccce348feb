"""`kmini produce`: lines in, records out."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import click

from kmini.cli.asking import ask, bootstrap_option

if TYPE_CHECKING:
    from kmini.client import Client
    from kmini.protocol.records.compression import Codec
    from kmini.protocol.records.record import Record

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}

READ_BYTES = 64 * 1024
BATCH_BYTES = 512 * 1024
"""About half of what brokers take by default (`message.max.bytes`), for what the batch adds to its records."""
RECORD_OVERHEAD = 20
"""The most that a record of ordinary size adds to its key, value and headers."""


class Shape(NamedTuple):
    """What a line means."""

    key_separator: bytes | None
    null_marker: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@click.command()
@click.argument("topic")
@click.option("--file", "path", metavar="FILE", help="Read lines from here.  [default: stdin]")
@click.option("-K", "--key-separator", metavar="TEXT", help="What stands between key and value in a line.")
@click.option("--null-marker", metavar="TEXT", help="A key or value that is exactly this stands for null.")
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header for every record.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send all records here.  [default: by key]")
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Whose word to wait for.")
@bootstrap_option
def produce(
    topic: str,
    path: str | None,
    key_separator: str | None,
    null_marker: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    bootstrap_server: str,
) -> None:
    """Send lines to a topic, each as a record. What comes at once goes out at once, in batches.

    Keys choose partitions as in Kafka's own producer; lines without a key go to the partitions in turn.

    \b
    echo hello | kmini produce orders
    kmini produce profiles -K : --null-marker '' < profiles.txt     lines like  alice:{"age": 7}
    kmini produce orders --file orders.jsonl -z zstd -H source=import
    """
    if key_separator == "":
        raise click.UsageError("--key-separator: at least one character was expected")
    shape = Shape(
        None if key_separator is None else key_separator.encode(),
        None if null_marker is None else null_marker.encode(),
        tuple(map(_header, headers)),
    )

    async def work(client: Client) -> int:
        from kmini.protocol.records.compression import Codec

        sender = Sender(client, topic, partition, acks=ACKS[acks], codec=Codec[compression.upper()])
        sent = 0
        async for lines in _chunks(source):
            await sender.send([_record(number, line, shape) for number, line in enumerate(lines, sent + 1)])
            sent += len(lines)
        return sent

    with _open(path) if path else nullcontext(sys.stdin.buffer) as source:
        sent = ask(bootstrap_server, work)
    click.echo(f"{sent} record{'' if sent == 1 else 's'} produced to {topic}", err=True)


class Sender:
    """Sends records to the partitions they belong to, those of different partitions at the same time."""

    def __init__(self, client: Client, topic: str, partition: int | None, *, acks: int, codec: Codec) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._acks = acks
        self._codec = codec
        self._count = 0
        """Partitions of the topic, once known."""
        self._turn = random.randrange(1 << 16)

    async def send(self, records: list[Record]) -> None:
        """Return when all are acknowledged. Order is kept within a partition."""
        by_partition: dict[int, list[Record]] = defaultdict(list)
        self._turn += 1
        for record in records:
            by_partition[await self._choose(record.key)].append(record)
        await asyncio.gather(*(self._send_to(partition, some) for partition, some in by_partition.items()))

    async def _choose(self, key: bytes | None) -> int:
        from kmini.client.partitioner import partition_for_key

        if self._partition is not None:
            return self._partition
        if not self._count:
            self._count = len(await self._client.partitions(self._topic, create_missing=True))
        return self._turn % self._count if key is None else partition_for_key(key, self._count)

    async def _send_to(self, partition: int, records: list[Record]) -> None:
        for batch in _batches(records):
            await self._client.produce(self._topic, partition, batch, acks=self._acks, codec=self._codec)


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        headers = sum(len(name) + len(value or b"") + RECORD_OVERHEAD for name, value in record.headers)
        bytes_more = len(record.key or b"") + len(record.value or b"") + headers + RECORD_OVERHEAD
        if batch and size + bytes_more > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += bytes_more
    if batch:
        yield batch


def _record(number: int, line: bytes, shape: Shape) -> Record:
    from kmini.client import record

    key: bytes | None = None
    value: bytes | None = line
    if shape.key_separator is not None:
        key, separator, value = line.partition(shape.key_separator)
        if not separator:
            expected = shape.key_separator.decode()
            raise click.UsageError(f"line {number} has no key: {expected!r} was expected between key and value")
    if shape.null_marker is not None:
        key = None if key == shape.null_marker else key
        value = None if value == shape.null_marker else value
    return record(value, key=key, headers=shape.headers)


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"--header {text}: NAME=VALUE was expected")
    return name, value.encode()


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error


async def _chunks(source: BinaryIO) -> AsyncIterator[list[bytes]]:
    """The lines of a file, pipe or terminal as they come, those that are there at once together."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    free = threading.Semaphore(2)  # so many chunks are read ahead
    read = _reader_of(source)

    def pump() -> None:
        chunk: bytes | OSError = b"\n"
        while chunk and not isinstance(chunk, OSError):
            free.acquire()
            try:
                chunk = read()
            except OSError as error:
                chunk = error
            try:
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
            except RuntimeError:
                return  # the loop is closed: nobody wants to know any more

    # A daemon, because nothing can wake a thread that waits for a terminal when the command is interrupted.
    threading.Thread(target=pump, name="input", daemon=True).start()
    rest: list[bytes] = []
    while chunk := await queue.get():
        if isinstance(chunk, OSError):
            raise click.ClickException(f"cannot read on: {chunk.strerror}") from chunk
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield b"".join((*rest, head)).split(b"\n")
            rest = []
        rest.append(tail)
        free.release()
    if last := b"".join(rest):
        yield [last]


def _reader_of(source: BinaryIO) -> Callable[[], bytes]:
    """Reads what is there, waiting only if there is nothing: past Python's buffer where there is a descriptor, because
    a thread inside that buffer's lock would keep the interpreter from ending."""
    import io
    import os

    try:
        descriptor = source.fileno()
    except io.UnsupportedOperation:
        return lambda: source.read(READ_BYTES)
    return lambda: os.read(descriptor, READ_BYTES)

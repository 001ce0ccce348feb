"""`kmini produce`: send lines as records."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, BinaryIO

import click

from kmini.cli.broker_call import ask, bootstrap_option, error_sentence
from kmini.cli.escaping import escaped
from kmini.cli.progress import progress
from kmini.testkit.phrases import counted

if TYPE_CHECKING:
    from kmini.cli.line_sender import LineRefused, LineSender
    from kmini.client import Client

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}

MOST_TOLD = 10
"""Skipped lines that are reported one by one; further ones are counted."""


@click.command()
@click.argument("topic")
@click.option("--file", "path", metavar="FILE", help="Read lines from here.  [default: stdin]")
@click.option("-K", "--key-separator", metavar="TEXT", help="Separator of key and value in a line.")
@click.option("--null-marker", metavar="TEXT", help="A key or value that equals this text is null.")
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header for every record.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send all records here.  [default: by key]")
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option(
    "--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Acknowledgements to wait for."
)
@click.option(
    "--on-error",
    type=click.Choice(("stop", "skip")),
    default="stop",
    show_default=True,
    help="Action for a line that is no record, or whose record the broker refuses.",
)
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
    on_error: str,
    bootstrap_server: str,
) -> None:
    """Send lines to a topic, each as a record. Lines that arrive together are sent together, in batches.

    Keys choose partitions as in Kafka's own producer; lines without a key go to the partitions in turn.

    A line that is no record ends the command, which reports it with the number of stored records; all earlier lines of
    its partition are stored. With --on-error skip such lines are reported and skipped, and the exit code is 0.

    \b
    echo hello | kmini produce orders
    kmini produce profiles -K : --null-marker '' < profiles.txt     lines like  alice:{"age": 7}
    kmini produce orders --file orders.jsonl -z zstd -H source=import
    """
    if key_separator == "":
        raise click.UsageError("--key-separator: at least one character was expected")
    if path is None and sys.stdin is None:
        raise click.UsageError("standard input is closed: --file FILE, or an input that is open, was expected")
    from kmini.cli.line_sender import LineSender, Shape
    from kmini.protocol.records.compression import Codec

    shape = Shape(
        None if key_separator is None else key_separator.encode(),
        None if null_marker is None else null_marker.encode(),
        tuple(map(_header, headers)),
    )
    skipped = Skipped()

    async def work(client: Client) -> LineSender:
        sender = LineSender(
            client,
            topic,
            partition,
            shape,
            acks=ACKS[acks],
            codec=Codec[compression.upper()],
            on_refused=skipped.tell if on_error == "skip" else None,
        )
        await _send_all(sender, source, topic)
        if not sender.lines:
            await _check(client, topic, partition)
        return sender

    with _open(path) if path else nullcontext(sys.stdin.buffer) as source:
        sender = ask(bootstrap_server, work)
    left_out = f", {counted(skipped.count, 'line')} skipped" if skipped.count else ""
    click.echo(f"{counted(sender.stored, 'record')} produced to {topic}{left_out}", err=True)


async def _send_all(sender: LineSender, source: BinaryIO, topic: str) -> None:
    """Send the lines of a file. An error is reported with the number of stored records."""
    from kmini.cli.line_input import lines_of, size_of
    from kmini.cli.line_sender import LineRefused
    from kmini.client import NoBrokerAnswers
    from kmini.protocol.errors import KafkaError

    read_bytes = 0
    with progress(topic, total=size_of(source), in_bytes=True, shown=not source.isatty()) as update:
        try:
            try:
                async for text in lines_of(source):
                    await sender.send(text)
                    read_bytes += len(text)
                    update(read_bytes)
            finally:
                await sender.finish()
        except NoBrokerAnswers:
            raise
        except LineRefused as refusal:
            kind = click.ClickException if refusal.by_broker else click.UsageError
            raise kind(f"line {refusal.line} {refusal.reason}; {_stored(sender, topic)}") from None
        except click.ClickException as error:
            raise click.ClickException(f"{error.message}; {_stored(sender, topic)}") from error
        except KafkaError as error:
            raise click.ClickException(f"{error_sentence(error)}; {_stored(sender, topic)}") from error


async def _check(client: Client, topic: str, partition: int | None) -> None:
    """Raise the error that sending would raise. A missing topic is no error: a record may create it."""
    from kmini.client.errors import check
    from kmini.protocol.errors import UnknownTopicOrPartition

    (found,) = (await client.metadata([topic])).topics
    if found.error_code == UnknownTopicOrPartition.code:
        return
    check(found.error_code, topic)
    if partition is not None and partition >= len(found.partitions):
        raise UnknownTopicOrPartition(f"{topic} has no partition {partition}, it has {len(found.partitions)} of them")


class Skipped:
    """The skipped lines: the first ones are reported one by one."""

    def __init__(self) -> None:
        self.count = 0

    def tell(self, refusal: LineRefused) -> None:
        self.count += 1
        if self.count <= MOST_TOLD:
            click.echo(escaped(f"kmini: line {refusal.line} {refusal.reason}; it is skipped"), err=True)
        elif self.count == MOST_TOLD + 1:
            click.echo("kmini: more lines are skipped, and counted at the end", err=True)


def _stored(sender: LineSender, topic: str) -> str:
    """The stored part of the input, once known."""
    unsure = f", and {sender.unsure} more may be" if sender.unsure else ""
    return f"{counted(sender.stored, 'record')} {'is' if sender.stored == 1 else 'are'} stored in {topic}{unsure}"


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

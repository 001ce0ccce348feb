"""`kmini consume`: records out, for people or for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import click

from kmini.cli.arguments import parse_time
from kmini.cli.asking import ask, bootstrap_option
from kmini.cli.group_progress import GroupProgress
from kmini.cli.tables import json_text, time_of
from kmini.cli.visible import visible_bytes, visible_json

if TYPE_CHECKING:
    from kmini.client import Client, ConsumedRecord
    from kmini.protocol.topics import TopicPartition


class Start(NamedTuple):
    """Where to begin. Exactly one is set."""

    landmark: str = ""
    """"beginning" or "end"."""
    offset: int = -1
    timestamp_ms: int = -1


class Printing(NamedTuple):
    """How records are printed."""

    as_json: bool
    key_separator: bytes | None
    null_marker: bytes
    with_timestamps: bool
    with_headers: bool
    escaped: bool
    """Whether control characters are escaped, because the output is a terminal."""


@click.command()
@click.argument("topic")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this one.  [default: all]"
)
@click.option("--from", "start", metavar="WHERE", default="beginning", show_default=True,
              help="beginning, end, an offset, or a time like 2026-01-31T12:00:00Z.")  # fmt: skip
@click.option("-g", "--group", metavar="GROUP", help="Go on where this group has stopped, and keep how far it comes.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more at the end instead of stopping there.")
@click.option("--format", "output", type=click.Choice(("value", "json")), default="value", show_default=True)
@click.option("-K", "--key-separator", metavar="TEXT", help="Print the key too, with this before the value.")
@click.option("--timestamps", is_flag=True, help="Print when the record was made, before all else.")
@click.option("--headers", is_flag=True, help="Print the headers, before the key.")
@click.option("--null-marker", metavar="TEXT", default="null", show_default=True, help="What a null is printed as.")
@bootstrap_option
def consume(
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    group: str | None,
    count: int | None,
    follow: bool,
    output: str,
    key_separator: str | None,
    timestamps: bool,
    headers: bool,
    null_marker: str,
    bootstrap_server: str,
) -> None:
    """Print the records of a topic, up to what was there at the start of the command.

    As json, each record is an object on a line with topic, partition, offset, timestamp, key, value and headers; bytes
    that are no text are {"base64": ...}. On a terminal, control characters are printed as escape sequences.

    \b
    kmini consume orders
    kmini consume orders --partition 0 --from 100 --count 10
    kmini consume orders --from end --follow --format json
    kmini consume profiles -K :
    kmini consume orders --group billing --count 10

    With --group, --from is for partitions in which the group has committed nothing. Nobody may be in the group
    meanwhile. No record is missed; after a kill some may be printed again.
    """
    wanted_start = _parse_start(start)
    separator = None if key_separator is None else key_separator.encode()
    printing = Printing(output == "json", separator, null_marker.encode(), timestamps, headers, sys.stdout.isatty())

    async def work(client: Client) -> None:
        from kmini.protocol.topics import TopicPartition

        chosen = [TopicPartition(topic, partition) for partition in dict.fromkeys(partitions)]
        wanted = chosen or await client.partitions(topic)
        beginning, end = await client.beginning(wanted), await client.end(wanted)
        positions = await _positions(client, wanted_start, beginning, end)
        out = sys.stdout.buffer
        progress = None if group is None else GroupProgress(client, group, out)
        if progress is not None:
            positions = await progress.resume(positions, beginning, end)
        async with (
            progress.kept() if progress is not None else nullcontext(),
            aclosing(client.consume(positions, until=None if follow else end)) as records,
        ):
            left = count
            async for record in records:
                _print(record, printing, out)
                if progress is not None:
                    progress.printed(record)
                if follow:
                    out.flush()
                if left is not None:
                    left -= 1
                    if not left:
                        return
            if progress is not None:
                progress.finished(end)

    ask(bootstrap_server, work)


def _parse_start(text: str) -> Start:
    if text in ("beginning", "end"):
        return Start(landmark=text)
    if text.isascii() and text.isdigit():
        return Start(offset=int(text))
    expected = "beginning, end, an offset, or a time like 2026-01-31T12:00:00Z"
    return Start(timestamp_ms=parse_time("--from", text, expected=expected))


async def _positions(
    client: Client, start: Start, beginning: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    """The first offset of each partition."""
    if start.landmark:
        return beginning if start.landmark == "beginning" else end
    if start.timestamp_ms >= 0:
        found = await client.list_offsets(dict.fromkeys(beginning, start.timestamp_ms))
        return {partition: at.offset if at.offset >= 0 else end[partition] for partition, at in found.items()}
    for at, first in beginning.items():
        if not first <= start.offset <= end[at]:
            there = f"partition {at.partition} of {at.topic} has the offsets {first} to {end[at]}"
            raise click.ClickException(f"{there}, there is no offset {start.offset}")
    return dict.fromkeys(beginning, start.offset)


def _print(record: ConsumedRecord, printing: Printing, out: BinaryIO) -> None:
    shown = visible_bytes if printing.escaped else bytes
    if printing.as_json:
        out.write((visible_json(_as_json(record)) if printing.escaped else _as_json(record)).encode() + b"\n")
        return
    if printing.with_timestamps:
        out.write(f"{time_of(record.timestamp)}\t".encode())
    if printing.with_headers:
        pairs = (
            shown(name.encode()) + b"=" + (printing.null_marker if value is None else shown(value))
            for name, value in record.headers
        )
        out.write(b",".join(pairs) + b"\t")
    if printing.key_separator is not None:
        out.write((printing.null_marker if record.key is None else shown(record.key)) + printing.key_separator)
    out.write((printing.null_marker if record.value is None else shown(record.value)) + b"\n")


def _as_json(record: ConsumedRecord) -> str:
    import json

    fields = record._asdict()
    fields["key"], fields["value"] = json_text(record.key), json_text(record.value)
    fields["headers"] = [[name, json_text(value)] for name, value in record.headers]
    return json.dumps(fields, ensure_ascii=False)

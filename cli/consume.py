"""`kmini consume`: print records, as text or as JSON."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import click

from kmini.cli.broker_call import ask, bootstrap_option
from kmini.cli.group_progress import GroupProgress
from kmini.cli.option_values import parse_time
from kmini.cli.progress import progress
from kmini.cli.record_text import Printing, text_of

if TYPE_CHECKING:
    from kmini.client import Client
    from kmini.protocol.records.record import Record
    from kmini.protocol.topics import TopicPartition


PRINTED_AT_ONCE = 4096
"""Records whose text is in memory at a time."""


class Start(NamedTuple):
    """The offset to begin at. Exactly one field is set."""

    landmark: str = ""
    """"beginning" or "end"."""
    offset: int = -1
    timestamp_ms: int = -1


@click.command()
@click.argument("topic")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this one.  [default: all]"
)
@click.option("--from", "start", metavar="WHERE", default="beginning", show_default=True,
              help="beginning, end, an offset, or a time like 2026-01-31T12:00:00Z.")  # fmt: skip
@click.option(
    "--isolation-level",
    type=click.Choice(("read_committed", "read_uncommitted")),
    default="read_committed",
    show_default=True,
    help="read_committed leaves out records of aborted and of open transactions.",
)
@click.option(
    "-g", "--group", metavar="GROUP", help="Continue at this group's committed offsets, and commit the printed ones."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more at the end instead of stopping there.")
@click.option("--format", "output", type=click.Choice(("value", "json")), default="value", show_default=True)
@click.option("-K", "--key-separator", metavar="TEXT", help="Print the key too, with this before the value.")
@click.option("--timestamps", is_flag=True, help="Print the timestamp of each record first.")
@click.option("--headers", is_flag=True, help="Print the headers, before the key.")
@click.option("--null-marker", metavar="TEXT", default="null", show_default=True, help="Text that stands for a null.")
@bootstrap_option
def consume(
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    isolation_level: str,
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
    """Print the records of a topic, up to the end that it had when the command began.

    As json, each record is an object on a line with topic, partition, offset, timestamp, key, value and headers; bytes
    that are not UTF-8 are {"base64": ...}. On a terminal, control characters are printed as escape sequences.

    \b
    kmini consume orders
    kmini consume orders --partition 0 --from 100 --count 10
    kmini consume orders --from end --follow --format json
    kmini consume profiles -K :
    kmini consume orders --group billing --count 10

    With --group, --from applies to partitions without a committed offset of the group. The group
    must have no members meanwhile. No record is missed; after a kill some may be printed again.
    """
    if group == "":
        raise click.UsageError("--group: at least one character was expected")
    requested = _parse_start(start)
    separator = None if key_separator is None else key_separator.encode()
    printing = Printing(output == "json", separator, null_marker.encode(), timestamps, headers, sys.stdout.isatty())

    ask(
        bootstrap_server,
        lambda client: _consume(
            client, topic, partitions, requested, isolation_level, group, printing, count=count, follow=follow
        ),
    )


async def _consume(
    client: Client,
    topic: str,
    partitions: Sequence[int],
    start: Start,
    isolation_level: str,
    group: str | None,
    printing: Printing,
    *,
    count: int | None,
    follow: bool,
) -> None:
    from kmini.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
    from kmini.protocol.topics import TopicPartition

    isolation = READ_COMMITTED if isolation_level == "read_committed" else READ_UNCOMMITTED
    chosen = [TopicPartition(topic, partition) for partition in dict.fromkeys(partitions)]
    selected = chosen or await client.partitions(topic)
    beginning, written = await client.beginning(selected), await client.end(selected)
    end = await client.end(selected, isolation_level=isolation)
    positions = await _positions(client, start, beginning, end)
    kept = None if group is None else GroupProgress(client, group, sys.stdout.buffer)
    if kept is not None:
        positions = await kept.resume(positions, beginning, end)
    total = sum(max(0, end[at] - offset) for at, offset in positions.items())
    async with (
        kept.kept() if kept is not None else nullcontext(),
        aclosing(
            client.consume_batches(positions, until=None if follow else end, isolation_level=isolation)
        ) as batches,
    ):
        if await _print(topic, batches, printing, total=total, count=count, flushed=follow, kept=kept):
            return
        if kept is not None:
            kept.finished(end)
    if not follow:
        _report_open(written, end)


async def _print(
    topic: str,
    batches: AsyncIterator[tuple[TopicPartition, Sequence[Record]]],
    printing: Printing,
    *,
    total: int,
    count: int | None,
    flushed: bool,
    kept: GroupProgress | None,
) -> bool:
    """Print at most `count` records; return whether that many were printed. `total` is the expected number."""
    out = sys.stdout.buffer
    printed = 0
    total = total if count is None else min(total, count)
    with progress(topic, total=total, shown=not flushed and not sys.stdout.isatty()) as update:
        async for partition, batch in batches:
            records = batch if count is None else batch[: count - printed]
            for first in range(0, len(records), PRINTED_AT_ONCE):
                out.write(text_of(partition, records[first : first + PRINTED_AT_ONCE], printing))
            printed += len(records)
            if kept is not None:
                kept.printed(partition, records[-1].offset + 1)
            if flushed:
                out.flush()
            if printed == count:
                return True
            update(printed)
    return False


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


def _report_open(written: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    """Report the partitions with records that are not printed because a transaction is open."""
    for at, offset in written.items():
        if offset > end[at]:
            click.echo(
                f"kmini: in {at}, a transaction is open that holds back what follows offset {end[at] - 1}, "
                f"up to {offset - 1}; --isolation-level read_uncommitted shows it",
                err=True,
            )

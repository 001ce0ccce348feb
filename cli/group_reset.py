"""`kmini group reset`: change the committed offsets of a group, which must have no members."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from kmini.cli.broker_call import ask, bootstrap_option
from kmini.cli.option_values import parse_time, parse_topics
from kmini.cli.several_names import report
from kmini.cli.tables import format_option, show
from kmini.testkit.phrases import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kmini.client import Client, CommittedOffset
    from kmini.protocol.errors import KafkaError
    from kmini.protocol.topics import TopicPartition

Topics = dict[str, "list[int] | None"]


async def must_be_idle(client: Client, group: str, why: str) -> None:
    """End the command with an error if the group has members. A group that does not exist has none."""
    from kmini.protocol.errors import GroupIdNotFound

    try:
        described = await client.describe_group(group)
    except GroupIdNotFound:
        return
    if not described.is_idle:
        members = counted(len(described.members), "member")
        raise click.ClickException(f"group {group} is {described.state} with {members}: {why}")


class Target(NamedTuple):
    """The new position of the group. Exactly one field is set."""

    landmark: str | None = None
    """"earliest" or "latest"."""
    offset: int | None = None
    shift_by: int | None = None
    timestamp_ms: int | None = None


class Move(NamedTuple):
    """The effect of a reset on one partition."""

    partition: TopicPartition
    old: int | None
    """The committed offset; None without one."""
    new: int
    requested: int
    """The offset before it was limited to those of the partition."""


@click.command()
@click.argument("name", metavar="GROUP")
@click.argument("topics", metavar="[TOPIC[:PARTITION,...]...]", nargs=-1)
@click.option("--to-earliest", is_flag=True, help="Read everything again.")
@click.option("--to-latest", is_flag=True, help="Skip all present records.")
@click.option("--to-offset", metavar="OFFSET", type=click.IntRange(min=0), help="Continue at this offset.")
@click.option("--shift-by", metavar="N", type=int, help="Move N records forward or, below 0, back.")
@click.option("--to-datetime", metavar="TIME", help="Continue at the first record since 2026-01-31T12:00:00Z.")
@click.option("--execute/--dry-run", default=False, show_default=True, help="Reset the group, or only show the effect.")
@format_option
@bootstrap_option
def reset(
    name: str,
    topics: tuple[str, ...],
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_datetime: str | None,
    execute: bool,
    output: str,
    bootstrap_server: str,
) -> None:
    """Change the committed offsets of a group without members.

    Without topics, all partitions with committed offsets are reset. An offset outside a partition becomes the
    partition's first or last offset. A group that does not exist is created.

    \b
    kmini group reset billing --to-earliest                    show what it would do
    kmini group reset billing orders --to-earliest --execute   read all of orders again
    kmini group reset billing orders:0,1 --shift-by -100 --execute
    kmini group reset billing --to-datetime 2026-01-31T12:00:00Z --execute
    """
    target = _target(to_earliest, to_latest, to_offset, shift_by, to_datetime)
    if not name:
        raise click.UsageError("GROUP: at least one character was expected")
    selected = parse_topics(topics)

    async def work(client: Client) -> tuple[list[Move], Mapping[TopicPartition, KafkaError | None]]:
        await must_be_idle(client, name, "only an idle one can be reset")
        moves = await _moves(client, name, selected, target)
        if not execute:
            return moves, {}
        return moves, await client.commit_offsets(name, {move.partition: move.new for move in moves})

    moves, outcomes = ask(bootstrap_server, work)
    done = [move for move in moves if outcomes.get(move.partition) is None]
    show(("group", "topic", "partition", "old", "new"), [(name, *m.partition, m.old, m.new) for m in done], output)
    for move in moves:
        if move.requested != move.new:
            click.echo(f"kmini: {move.partition} has no offset {move.requested}: {move.new} is the nearest", err=True)
    if not execute:
        click.echo("kmini: nothing has changed: --execute does it", err=True)
    report({f"{name}: {partition}": error for partition, error in outcomes.items()})


def _target(
    to_earliest: bool, to_latest: bool, to_offset: int | None, shift_by: int | None, to_datetime: str | None
) -> Target:
    """The one target among the options. UsageError lists the given ones if there are several."""
    targets = {
        "--to-earliest": to_earliest,
        "--to-latest": to_latest,
        "--to-offset": to_offset is not None,
        "--shift-by": shift_by is not None,
        "--to-datetime": to_datetime is not None,
    }
    given = [option for option, is_given in targets.items() if is_given]
    if len(given) != 1:
        but = f", not {' and '.join(given)}" if given else ""
        raise click.UsageError(f"exactly one of {', '.join(targets)} was expected{but}")
    landmark = "earliest" if to_earliest else "latest" if to_latest else None
    timestamp_ms = None if to_datetime is None else parse_time("--to-datetime", to_datetime)
    return Target(landmark, to_offset, shift_by, timestamp_ms)


async def _moves(client: Client, name: str, topics: Topics, target: Target) -> list[Move]:
    committed = await client.committed_offsets(name)
    partitions = await _partitions(client, name, topics, committed)
    beginning, end = await client.beginning(partitions), await client.end(partitions)
    requested = await _requested_offsets(client, target, committed, beginning, end)
    return [
        Move(at, committed[at].offset if at in committed else None, min(max(beginning[at], offset), end[at]), offset)
        for at, offset in requested.items()
    ]


async def _partitions(
    client: Client, name: str, topics: Topics, committed: Mapping[TopicPartition, CommittedOffset]
) -> list[TopicPartition]:
    """The named partitions; else those with a committed offset."""
    from kmini.protocol.topics import TopicPartition

    if topics:
        chosen = []
        for topic, indexes in topics.items():
            known = await client.partitions(topic)
            chosen += known if indexes is None else [TopicPartition(topic, index) for index in indexes]
        return chosen
    if not committed:
        raise click.ClickException(f"group {name} has committed nothing: name the topics to be read")
    return list(committed)


async def _requested_offsets(
    client: Client,
    target: Target,
    committed: Mapping[TopicPartition, CommittedOffset],
    beginning: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """The target offset in each partition; it may be outside the partition."""
    if target.landmark is not None:
        return beginning if target.landmark == "earliest" else end
    if target.offset is not None:
        return dict.fromkeys(beginning, target.offset)
    if target.timestamp_ms is not None:
        found = await client.list_offsets(dict.fromkeys(beginning, target.timestamp_ms))
        return {partition: at.offset if at.offset >= 0 else end[partition] for partition, at in found.items()}
    missing = [str(partition) for partition in beginning if partition not in committed]
    if missing:
        raise click.ClickException(f"--shift-by: nothing is committed for {', '.join(missing)}")
    return {partition: committed[partition].offset + (target.shift_by or 0) for partition in beginning}

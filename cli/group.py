"""`kmini group`: list, describe, reset and delete groups."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import click

from kmini.cli import Commands
from kmini.cli.broker_call import ask, bootstrap_option
from kmini.cli.group_reset import reset
from kmini.cli.option_values import AnyCase, parse_topics
from kmini.cli.several_names import each, report
from kmini.cli.tables import format_option, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kmini.client import Client, GroupDescription
    from kmini.protocol.errors import KafkaError
    from kmini.protocol.topics import TopicPartition

Row = tuple[object, ...]

STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
"""The states of groups of every type in Apache Kafka 4."""
TYPES = ("classic", "consumer", "share", "streams")

OFFSET_COLUMNS = ("group", "topic", "partition", "offset", "end", "lag", "member", "host", "client")
MEMBER_COLUMNS = (
    "group",
    "member",
    "instance",
    "host",
    "client",
    "partitions",
    "protocol",
    "epoch",
    "target",
    "topics",
    "regex",
)
STATE_COLUMNS = (
    "group",
    "state",
    "protocol",
    "assignor",
    "coordinator",
    "members",
    "type",
    "epoch",
    "assignment_epoch",
)


@click.group(cls=Commands)
def group() -> None:
    """List, describe, reset and delete groups.

    \b
    kmini group list                                         all groups
    kmini group describe billing                             offsets, lag and members
    kmini group reset billing orders --to-earliest           show the effect of reading again
    kmini group reset billing orders --to-earliest --execute reset the group
    """


@group.command("list")
@click.option("--state", "states", type=AnyCase(STATES), multiple=True, help="Only in this state.")
@click.option("--type", "types", type=AnyCase(TYPES), multiple=True, help="Only of this type.")
@format_option
@bootstrap_option
def list_(states: tuple[str, ...], types: tuple[str, ...], output: str, bootstrap_server: str) -> None:
    """Print all groups with their protocol, type and state.

    \b
    kmini group list
    kmini group list --state Empty --format json
    """
    groups = ask(bootstrap_server, lambda client: client.list_groups(states=states, types=types))
    rows = [(group.group_id, group.state or None, group.protocol_type or None, group.type or None) for group in groups]
    show(("group", "state", "protocol", "type"), rows, output)


@group.command()
@click.argument("names", metavar="[GROUP...]", nargs=-1)
@click.option("--members", is_flag=True, help="Members, the partitions of each, and their epochs and targets.")
@click.option("--state", is_flag=True, help="State, assignor, coordinator and epochs.")
@click.option("--offsets", is_flag=True, help="Committed offsets and lag; of share groups start offsets.  [default]")
@format_option
@bootstrap_option
def describe(
    names: tuple[str, ...], members: bool, state: bool, offsets: bool, output: str, bootstrap_server: str
) -> None:
    """Print the committed offset, the lag and the owner of every partition of groups.

    Lag is the distance from the committed offset to the end of the partition. Without a name, all groups are
    described. Epochs, targets and subscriptions are those of consumer groups (KIP-848) and streams groups (KIP-1071);
    classic groups do not tell them. Share groups (KIP-932) have no owners and no targets; their offset is the first one
    whose delivery has not ended, their lag the number of those.

    \b
    kmini group describe billing
    kmini group describe billing --members
    kmini group describe --state --format json
    """
    views = {"members": members, "state": state, "offsets": offsets}
    chosen = [view for view, is_given in views.items() if is_given] or ["offsets"]
    if len(chosen) > 1:
        raise click.UsageError(f"one of --members, --state, --offsets was expected, not --{' and --'.join(chosen)}")
    view = chosen[0]

    async def work(client: Client) -> tuple[list[Row], dict[str, KafkaError | None]]:
        selected = names or [group.group_id for group in await client.list_groups()]
        described, outcomes = await each(selected, client.describe_group)
        rows = [row for group in described.values() for row in await _rows_of(client, group, view)]
        return rows, outcomes

    rows, outcomes = ask(bootstrap_server, work)
    columns = {"members": MEMBER_COLUMNS, "state": STATE_COLUMNS, "offsets": OFFSET_COLUMNS}[view]
    if rows or not any(outcomes.values()):
        show(columns, rows, output)
    report(outcomes)


async def _rows_of(client: Client, described: GroupDescription, view: str) -> list[Row]:
    if view == "members":
        return _member_rows(described)
    if view == "state":
        return [_state_row(described)]
    return await _offset_rows(client, described)


def _member_rows(described: GroupDescription) -> list[Row]:
    return [
        (
            *(described.group_id, m.member_id, m.group_instance_id, m.client_host, m.client_id, m.partitions),
            *(m.type, m.epoch, m.target, m.topics, m.topic_regex or None),
        )
        for m in sorted(described.members, key=attrgetter("client_id", "member_id"))
    ]


def _state_row(described: GroupDescription) -> Row:
    coordinator = f"{described.coordinator.address} ({described.coordinator.node_id})"
    protocol, assignor = described.protocol_type or None, described.protocol or None
    count, epochs = len(described.members), (described.epoch, described.assignment_epoch)
    return described.group_id, described.state, protocol, assignor, coordinator, count, described.type, *epochs


async def _offset_rows(client: Client, described: GroupDescription) -> list[Row]:
    """Make a row for each partition with an owner or a committed offset, or that a share group reads."""
    if described.type == "share":
        return await _share_rows(client, described.group_id)
    committed = await client.committed_offsets(described.group_id)
    owners = {partition: member for member in described.members for partition in member.partitions}
    partitions = sorted({*committed, *owners})
    ends = await client.end(await _led(client, partitions))
    rows: list[Row] = []
    for at in partitions:
        offset = committed[at].offset if at in committed else None
        end, owner = ends.get(at), owners.get(at)
        lag = None if offset is None or end is None else max(0, end - offset)
        owner_columns = (owner.member_id, owner.client_host, owner.client_id) if owner else (None, None, None)
        rows.append((described.group_id, *at, offset, end, lag, *owner_columns))
    return rows


async def _share_rows(client: Client, group_id: str) -> list[Row]:
    shared = await client.share_group_offsets(group_id)
    ends = await client.end(await _led(client, [*shared]))
    return [(group_id, *at, found.offset, ends.get(at), found.lag, None, None, None) for at, found in shared.items()]


async def _led(client: Client, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions that exist and have a leader; a group may have offsets of deleted topics."""
    from kmini.protocol.topics import TopicPartition

    if not partitions:
        return []
    metadata = await client.metadata(sorted({partition.topic for partition in partitions}))
    led = {
        TopicPartition(topic.name or "", partition.partition_index)
        for topic in metadata.topics
        for partition in topic.partitions
        if partition.leader_id >= 0
    }
    return [partition for partition in partitions if partition in led]


@group.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:PARTITION,...]",
    multiple=True,
    help="Delete only the offsets committed here, and keep the group.",
)
@bootstrap_option
def delete(names: tuple[str, ...], topics: tuple[str, ...], bootstrap_server: str) -> None:
    """Delete groups without members, with their committed offsets.

    \b
    kmini group delete billing
    kmini group delete billing --topic orders          only its offsets in orders
    kmini group delete billing --topic orders:0,1      or in two of its partitions
    """
    selected = parse_topics(topics)
    if not selected:
        report(ask(bootstrap_server, lambda client: client.delete_groups(names)))
        return

    async def work(client: Client) -> dict[str, KafkaError | None]:
        outcomes: dict[str, KafkaError | None] = {}
        for name in names:
            committed = await client.committed_offsets(name)
            partitions = [at for at in committed if at.topic in selected and _chosen(selected[at.topic], at.partition)]
            if not partitions:
                raise click.ClickException(f"group {name} has committed nothing there")
            results: Mapping[TopicPartition, KafkaError | None] = await client.delete_offsets(name, partitions)
            outcomes.update({f"{name}: {partition}": error for partition, error in results.items()})
        return outcomes

    report(ask(bootstrap_server, work))


def _chosen(partitions: list[int] | None, partition: int) -> bool:
    return partitions is None or partition in partitions


group.add_command(reset)

"""`kmini txn`: list, describe and abort transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kmini.cli import Commands
from kmini.cli.broker_call import ask, bootstrap_option
from kmini.cli.option_values import AnyCase, parse_partitions
from kmini.cli.several_names import each, report
from kmini.cli.tables import format_option, show, time_of

if TYPE_CHECKING:
    from kmini.client import Client, TransactionDescription
    from kmini.protocol.errors import KafkaError

Row = tuple[object, ...]

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)

LIST_COLUMNS = ("transaction", "state", "producer", "coordinator")
COLUMNS = ("transaction", "state", "producer", "epoch", "timeout_ms", "began", "coordinator", "partitions")


@click.group(cls=Commands)
def txn() -> None:
    """List, describe and abort transactions.

    \b
    kmini txn list --state Ongoing                    list open transactions
    kmini txn describe payments                       show the partitions of one, and its start
    kmini txn abort payments                          abort it, and fence its producer
    kmini txn abort --partition orders:0 --offset 42  abort one that no coordinator knows
    """


@txn.command("list")
@click.option("--state", "states", type=AnyCase(STATES), multiple=True, help="Only in this state.")
@format_option
@bootstrap_option
def list_(states: tuple[str, ...], output: str, bootstrap_server: str) -> None:
    """Print all transactional ids, with their state.

    \b
    kmini txn list
    kmini txn list --state Ongoing --format json
    """
    found = ask(bootstrap_server, lambda client: client.list_transactions(states=states))
    show(LIST_COLUMNS, found, output)


@txn.command()
@click.argument("names", metavar="[ID...]", nargs=-1)
@format_option
@bootstrap_option
def describe(names: tuple[str, ...], output: str, bootstrap_server: str) -> None:
    """Print the partitions of transactions, their start and their time-out.

    Without an id, all transactions are described.

    \b
    kmini txn describe payments
    kmini txn describe --format json
    """

    async def work(client: Client) -> tuple[list[Row], dict[str, KafkaError | None]]:
        selected = names or [one.transactional_id for one in await client.list_transactions()]
        described, outcomes = await each(selected, client.describe_transaction)
        return [_row(one) for one in described.values()], outcomes

    rows, outcomes = ask(bootstrap_server, work)
    if rows or not any(outcomes.values()):
        show(COLUMNS, rows, output)
    report(outcomes)


def _row(described: TransactionDescription) -> Row:
    coordinator = f"{described.coordinator.address} ({described.coordinator.node_id})"
    return (
        described.transactional_id,
        described.state,
        described.producer_id,
        described.producer_epoch,
        described.timeout_ms,
        None if described.start_ms < 0 else time_of(described.start_ms),
        coordinator,
        sorted(described.partitions),
    )


@txn.command()
@click.argument("names", metavar="[ID...]", nargs=-1)
@click.option("--partition", metavar="TOPIC:PARTITION", help="Partition of a hanging transaction.")
@click.option("--offset", type=click.IntRange(min=0), help="Offset at which the transaction began there.")
@bootstrap_option
def abort(names: tuple[str, ...], partition: str | None, offset: int | None, bootstrap_server: str) -> None:
    """Abort open transactions by their ids; their producers are fenced.

    A transaction hangs in a partition if no coordinator knows it any more. It is named by the offset at which it
    began: `kafka-transactions find-hanging` finds it, and so does DescribeProducers.

    \b
    kmini txn abort payments
    kmini txn abort --partition orders:0 --offset 42
    """
    if bool(names) == (partition is not None) or (partition is None) != (offset is None):
        raise click.UsageError("either ID... or --partition and --offset was expected")
    if partition is None:
        _, outcomes = ask(bootstrap_server, lambda client: each(names, client.abort_transaction))
        report(outcomes)
        return
    topic, numbers = parse_partitions(partition)
    if numbers is None or len(numbers) != 1:
        raise click.UsageError(f"--partition {partition}: one partition was expected, as in orders:0")
    at, began = (topic, numbers[0]), offset or 0
    ask(bootstrap_server, lambda client: client.abort_hanging_transaction(at, began))

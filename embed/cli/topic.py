"""`kmini topic`: create, list, describe and delete topics."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import click

from kmini.cli.asking import ask, bootstrap_option, reads
from kmini.cli.tables import format_option, show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kmini.client import Client
    from kmini.protocol.errors import KafkaError


@click.group()
def topic() -> None:
    """Create, list, describe and delete topics."""


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), help="How many.  [default: the broker's num.partitions]"
)
@click.option(
    "-r", "--replication-factor", type=click.IntRange(min=1), help="How many replicas.  [default: the broker's]"
)
@click.option("-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A setting of the topic.")
@click.option("--if-not-exists", is_flag=True, help="Say nothing if it is there already.")
@bootstrap_option
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap_server: str,
) -> None:
    """Create topics.

    \b
    kmini topic create orders --partitions 3
    kmini topic create profiles -c cleanup.policy=compact
    """
    settings = dict(_setting(text) for text in configs)

    async def work(client: Client) -> Mapping[str, KafkaError | None]:
        from kmini.client import NewTopic

        wanted = NewTopic(partitions or -1, replication_factor or -1, settings)
        return await client.create_topics(dict.fromkeys(names, wanted))

    _report(ask(bootstrap_server, work), tolerated="TOPIC_ALREADY_EXISTS" if if_not_exists else "")


@topic.command("list")
@click.option("--internal", is_flag=True, help="Also the topics that brokers keep for themselves.")
@format_option
@bootstrap_option
def list_(internal: bool, output: str, bootstrap_server: str) -> None:
    """Print the names of all topics."""
    metadata = ask(bootstrap_server, lambda client: client.metadata())
    names = sorted(topic.name or "" for topic in metadata.topics if internal or not topic.is_internal)
    if output == "json":
        import json

        click.echo(json.dumps(names))
        return
    for name in names:
        click.echo(name)


@topic.command()
@click.argument("names", metavar="[NAME...]", nargs=-1)
@format_option
@bootstrap_option
def describe(names: tuple[str, ...], output: str, bootstrap_server: str) -> None:
    """Say of every partition who leads it, who follows, and which offsets it holds.

    \b
    kmini topic describe orders
    kmini topic describe --format json
    """
    columns = ("topic", "partition", "leader", "replicas", "isr", "beginning", "end")
    show(columns, ask(bootstrap_server, lambda client: _partitions(client, names)), output)


async def _partitions(client: Client, names: tuple[str, ...]) -> list[tuple[object, ...]]:
    from kmini.client.errors import check
    from kmini.protocol.topics import TopicPartition

    metadata = await client.metadata(names or None)
    for topic in metadata.topics:
        check(topic.error_code, f"there is no topic {topic.name}" if topic.error_code == 3 else topic.name)
    described = {
        TopicPartition(topic.name or "", partition.partition_index): partition
        for topic in metadata.topics
        for partition in topic.partitions
    }
    led = [at for at, partition in described.items() if partition.leader_id >= 0]
    beginning, end = await client.beginning(led), await client.end(led)
    return [
        (*at, p.leader_id, p.replica_nodes, p.isr_nodes, beginning.get(at, "-"), end.get(at, "-"))
        for at, p in sorted(described.items(), key=itemgetter(0))
    ]


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@bootstrap_option
def delete(names: tuple[str, ...], bootstrap_server: str) -> None:
    """Delete topics and all their records."""
    _report(ask(bootstrap_server, lambda client: client.delete_topics(names)))


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.UsageError(f"-c {text}: KEY=VALUE was expected")
    return key, value


def _report(outcomes: Mapping[str, KafkaError | None], tolerated: str = "") -> None:
    """Say which topics failed; the exit code is 1 if any did."""
    failed = False
    for name, error in outcomes.items():
        if error is not None and error.kafka_name != tolerated:
            click.echo(f"kmini: {name}: {reads(error)}", err=True)
            failed = True
    if failed:
        raise click.exceptions.Exit(1)

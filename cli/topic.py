"""`kmini topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import click

from kmini.cli import Commands
from kmini.cli.broker_call import ask, bootstrap_option
from kmini.cli.escaping import escaped
from kmini.cli.option_values import changes_options, parse_changes, parse_setting
from kmini.cli.several_names import report
from kmini.cli.tables import format_option, show
from kmini.cli.wanted_topics import NewTopic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kmini.client import Client
    from kmini.protocol.errors import KafkaError


@click.group(cls=Commands)
def topic() -> None:
    """Create, list, describe, alter and delete topics.

    \b
    kmini topic create orders --partitions 3
    kmini topic describe orders
    kmini topic alter orders --partitions 6 -c retention.ms=60000
    """


@topic.command()
@click.argument("names", metavar="NAME[:PARTITIONS[:compact]]...", nargs=-1, required=True)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions.  [default: the broker's num.partitions]",
)
@click.option(
    "-r", "--replication-factor", type=click.IntRange(min=1), help="Number of replicas.  [default: the broker's]"
)
@click.option("-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A setting of the topic.")
@click.option("--if-not-exists", is_flag=True, help="Succeed silently if it exists.")
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
    kmini topic create orders:3 profiles:1:compact
    kmini topic create profiles -c cleanup.policy=compact
    """
    settings = dict(parse_setting("-c", text) for text in configs)
    wanted = [parse_topic(name, "") if ":" in name else NewTopic(name, partitions or -1) for name in names]

    async def work(client: Client) -> Mapping[str, KafkaError | None]:
        from kmini.client import NewTopic as CreatedTopic

        return await client.create_topics(
            {
                topic.name: CreatedTopic(topic.partitions, replication_factor or -1, {**topic.configs, **settings})
                for topic in wanted
            }
        )

    report(ask(bootstrap_server, work), tolerated="TOPIC_ALREADY_EXISTS" if if_not_exists else "")


@topic.command("list")
@click.option("--internal", is_flag=True, help="Also the internal topics.")
@format_option
@bootstrap_option
def list_(internal: bool, output: str, bootstrap_server: str) -> None:
    """Print the names of all topics.

    \b
    kmini topic list
    kmini topic list --internal --format json
    """
    metadata = ask(bootstrap_server, lambda client: client.metadata())
    names = sorted(topic.name or "" for topic in metadata.topics if internal or not topic.is_internal)
    if output == "json":
        import json

        click.echo(json.dumps(names))
        return
    for name in names:
        click.echo(escaped(name))


@topic.command()
@click.argument("names", metavar="[NAME...]", nargs=-1)
@format_option
@bootstrap_option
def describe(names: tuple[str, ...], output: str, bootstrap_server: str) -> None:
    """Print the leader, the replicas, the ISR and the offsets of every partition.

    \b
    kmini topic describe orders
    kmini topic describe --format json
    """
    columns = ("topic", "partition", "leader", "replicas", "isr", "beginning", "end")
    show(columns, ask(bootstrap_server, lambda client: _partitions(client, names)), output)


async def _partitions(client: Client, names: tuple[str, ...]) -> list[tuple[object, ...]]:
    from kmini.client.errors import check
    from kmini.protocol.errors import UnknownTopicOrPartition
    from kmini.protocol.topics import TopicPartition

    metadata = await client.metadata(names or None)
    for topic in metadata.topics:
        is_unknown = topic.error_code == UnknownTopicOrPartition.code
        check(topic.error_code, f"there is no topic {topic.name}" if is_unknown else topic.name)
    described = {
        TopicPartition(topic.name or "", partition.partition_index): partition
        for topic in metadata.topics
        for partition in topic.partitions
    }
    led = [at for at, partition in described.items() if partition.leader_id >= 0]
    beginning, end = await client.beginning(led), await client.end(led)
    return [
        (*at, p.leader_id, p.replica_nodes, p.isr_nodes, beginning.get(at), end.get(at))
        for at, p in sorted(described.items(), key=itemgetter(0))
    ]


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), help="New total number of partitions; it cannot decrease."
)
@changes_options
@bootstrap_option
def alter(
    names: tuple[str, ...],
    partitions: int | None,
    configs: tuple[str, ...],
    deletions: tuple[str, ...],
    dry_run: bool,
    bootstrap_server: str,
) -> None:
    """Change settings of topics, or give them more partitions.

    With more partitions, keys may move to other partitions. Settings that are not named stay unchanged.

    \b
    kmini topic alter orders --partitions 6
    kmini topic alter orders returns -c retention.ms=3600000
    kmini topic alter orders --delete-config retention.ms
    """
    changes = parse_changes(configs, deletions)
    if partitions is None and not changes:
        raise click.UsageError("nothing to change: --partitions, --config or --delete-config was expected")

    async def work(client: Client) -> dict[str, KafkaError | None]:
        from kmini.client import ConfigResource

        outcomes: dict[str, KafkaError | None] = dict.fromkeys(names)
        if changes:
            alterations = {ConfigResource.topic(name): changes for name in names}
            altered = await client.alter_configs(alterations, validate_only=dry_run)
            outcomes = {resource.name: error for resource, error in altered.items()}
        counts = {name: partitions for name, error in outcomes.items() if partitions is not None and error is None}
        if counts:
            outcomes.update(await client.create_partitions(counts, validate_only=dry_run))
        return outcomes

    report(ask(bootstrap_server, work))


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@bootstrap_option
def delete(names: tuple[str, ...], bootstrap_server: str) -> None:
    """Delete topics and all their records.

    \b
    kmini topic delete orders
    """
    report(ask(bootstrap_server, lambda client: client.delete_topics(names)))

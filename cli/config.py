"""`kmini config`: describe and alter settings of topics, brokers and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kmini.cli import Commands
from kmini.cli.broker_call import ask, bootstrap_option
from kmini.cli.option_values import changes_options, parse_changes
from kmini.cli.several_names import report
from kmini.cli.tables import format_option, show

if TYPE_CHECKING:
    from kmini.client import Client, ConfigEntry, ConfigResource
    from kmini.protocol.errors import KafkaError

KINDS = ("topic", "broker", "group")


@click.group(cls=Commands)
def config() -> None:
    """Describe and alter settings of topics, brokers and groups.

    \b
    kmini config describe topic orders
    kmini config alter topic orders -c retention.ms=60000
    kmini config alter broker -c log.retention.ms=60000      the default of all brokers
    kmini config alter group billing -c consumer.session.timeout.ms=50000
    """


@config.command()
@click.argument("kind", metavar="topic|broker|group", type=click.Choice(KINDS))
@click.argument("name", metavar="NAME")
@click.option("--all", "all_", is_flag=True, help="Also settings with their default values.")
@format_option
@bootstrap_option
def describe(kind: str, name: str, all_: bool, output: str, bootstrap_server: str) -> None:
    """Print the settings and where each was set: for this topic, broker or group, for all brokers, or at their start.

    \b
    kmini config describe topic orders
    kmini config describe broker 1 --all --format json
    """

    async def work(client: Client) -> list[ConfigEntry]:
        entries = set(await client.describe_configs(_resource(kind, name)))
        if all_:
            entries.update(await client.describe_configs(_resource(kind, name), _own_settings(kind)))
        return sorted(entries)

    entries = ask(bootstrap_server, work)
    rows = [(one.name, one.value, one.source or None) for one in entries if all_ or one.source != "default"]
    show(("name", "value", "source"), rows, output)


@config.command()
@click.argument("kind", metavar="topic|broker|group", type=click.Choice(KINDS))
@click.argument("name", metavar="[NAME]", default="")
@changes_options
@bootstrap_option
def alter(
    kind: str,
    name: str,
    configs: tuple[str, ...],
    deletions: tuple[str, ...],
    dry_run: bool,
    bootstrap_server: str,
) -> None:
    """Change single settings of a topic, a broker or a group, which need not exist. `broker` without a name stands for
    the default of all brokers.

    \b
    kmini config alter topic orders -c cleanup.policy=compact -c min.compaction.lag.ms=0
    kmini config alter topic orders --delete-config cleanup.policy
    kmini config alter broker 1 -c log.retention.ms=60000
    kmini config alter group billing -c consumer.heartbeat.interval.ms=1000
    """
    changes = parse_changes(configs, deletions)
    if not changes:
        raise click.UsageError("nothing to change: --config or --delete-config was expected")
    if kind != "broker" and not name:
        raise click.UsageError(f"the name of a {kind} was expected")

    async def work(client: Client) -> dict[str, KafkaError | None]:
        outcomes = await client.alter_configs({_resource(kind, name): changes}, validate_only=dry_run)
        return {f"{kind} {name}".rstrip(): error for error in outcomes.values()}

    report(ask(bootstrap_server, work))


def _own_settings(kind: str) -> list[str]:
    """Names of kmini's own settings, which a broker lists only where they are set."""
    from kmini.broker.settings.broker_config import BROKER_KEYS
    from kmini.storage.config_key import OWN_PREFIX
    from kmini.storage.log_config import LogConfig

    tables = {"topic": LogConfig.KEYS, "broker": BROKER_KEYS, "group": {}}
    return [key for key in tables[kind] if key.startswith(OWN_PREFIX)]


def _resource(kind: str, name: str) -> ConfigResource:
    from kmini.client import ConfigResource

    if kind == "topic":
        return ConfigResource.topic(name)
    if kind == "group":
        return ConfigResource.group(name)
    if name and not (name.isascii() and name.isdigit()):
        raise click.UsageError(f"broker {name}: the number of a broker was expected")
    return ConfigResource.broker(int(name) if name else None)

"""What the commands that talk to a broker share: which broker, for how long, and how its refusals read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kmini.client import Client, Sasl
    from kmini.protocol.errors import KafkaError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_SASL = "kmini.sasl"
"""Where a command's context keeps who to be."""

address_option = click.option(
    "-b",
    "--bootstrap-server",
    "--bootstrap-servers",
    "bootstrap_server",
    metavar="HOST:PORT",
    envvar="KAFKA_BOOTSTRAP_SERVERS",
    default="127.0.0.1:9092",
    show_default=True,
    help="The broker to ask; several separated by commas.",
)


def _remember_sasl(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is not None:
        from kmini.cli.command_config import read_command_config, sasl_of

        context.meta[_SASL] = sasl_of(path, read_command_config(path))


def bootstrap_option(command: F) -> F:
    """Which broker to ask, and who to be there: what every command needs that asks one."""
    with_config = click.option(
        "--command-config",
        metavar="FILE",
        envvar="KMINI_COMMAND_CONFIG",
        expose_value=False,
        callback=_remember_sasl,
        help="Settings of the client, as a properties file: security.protocol, sasl.mechanism, sasl.jaas.config.",
    )
    return address_option(with_config(command))


timeout_option = click.option(
    "--timeout-ms",
    metavar="MS",
    type=click.IntRange(min=1),
    default=30_000,
    show_default=True,
    help="How long to try.",
)


def ask(
    bootstrap_server: str,
    work: Callable[[Client], Awaitable[T]],
    *,
    timeout_ms: int = 30_000,
    client_id: str = "kmini-cli",
    sasl: Sasl | None = None,
) -> T:
    """What `work` returns, given a client that is closed afterwards; a KafkaError it raises ends the command."""
    from kmini.client import Client, NoBrokerAnswers
    from kmini.protocol.errors import KafkaError

    context = click.get_current_context(silent=True)
    if sasl is None and context is not None:
        sasl = context.meta.get(_SASL)

    async def asking() -> T:
        try:
            client = Client(bootstrap_server, client_id=client_id, timeout_ms=timeout_ms, sasl=sasl)
        except ValueError as error:
            raise click.UsageError(f"--bootstrap-server: {error}") from error
        async with client:
            return await work(client)

    try:
        return asyncio.run(asking())
    except NoBrokerAnswers as error:
        remedy = "kmini serve starts a broker, --bootstrap-server HOST:PORT names another one"
        raise click.ClickException(f"no broker answers: {error.message}; {remedy}") from error
    except KafkaError as error:
        raise click.ClickException(reads(error)) from error


def reads(error: KafkaError) -> str:
    """An error as people read it: Kafka's name for it, and what it means here or in general."""
    meaning = error.message or (type(error).__doc__ or "").split("\n\n")[0]
    return " ".join(f"{error.kafka_name}: {meaning}".split()).rstrip(".: ")

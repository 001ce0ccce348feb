"""Options and helpers of the commands that call a broker: address, time-out, credentials and error texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kmini.cli.escaping import escaped

if TYPE_CHECKING:
    from kmini.cli.command_config import Security
    from kmini.client import Client
    from kmini.protocol.errors import KafkaError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT_MS = 10_000
"""Milliseconds that a command waits for brokers by default."""

_SECURITY = "kmini.security"
"""Key of the credentials in a command's context."""
_TIMEOUT_MS = "kmini.timeout_ms"
"""Key of --timeout-ms in a command's context."""

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


def _remember_security(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is not None:
        from kmini.cli.command_config import read_command_config, security_of

        context.meta[_SECURITY] = security_of(path, read_command_config(path))


def timeout_option(
    default: int = TIMEOUT_MS, text: str = "How long to wait for a broker.", **options: Any
) -> Callable[[F], F]:
    """`--timeout-ms`; `options` are those of click."""
    return click.option(
        "--timeout-ms",
        metavar="MS",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help=text,
        **options,
    )


def _remember_timeout(context: click.Context, parameter: click.Parameter, timeout_ms: int) -> None:
    context.meta[_TIMEOUT_MS] = timeout_ms


remembered_timeout_option = timeout_option(expose_value=False, callback=_remember_timeout)
"""`--timeout-ms` for `ask`, without an argument of the command."""


command_config_option = click.option(
    "--command-config",
    metavar="FILE",
    envvar="KMINI_COMMAND_CONFIG",
    expose_value=False,
    callback=_remember_security,
    help="Settings of the client, as a properties file: security.protocol, sasl.jaas.config, ssl.truststore.location.",
)
"""`--command-config`, without an argument of the command: `remembered_security` has what it says."""


def bootstrap_option(command: F) -> F:
    """Add the options of every command that calls `ask`: broker, credentials and time-out."""
    result: F = address_option(command_config_option(remembered_timeout_option(command)))
    return result


def remembered_security() -> Security:
    """The credentials and the TLS that the command's options name."""
    from kmini.cli.command_config import Security

    context = click.get_current_context(silent=True)
    found = None if context is None else context.meta.get(_SECURITY)
    return Security() if found is None else found


def ask(
    bootstrap_server: str,
    work: Callable[[Client], Awaitable[T]],
    *,
    timeout_ms: int | None = None,
    client_id: str = "kmini-cli",
    security: Security | None = None,
) -> T:
    """Run `work` with a client that is closed afterwards; return its result. A KafkaError ends the command.

    Time-out and credentials come from the command's options unless they are given.
    """
    from kmini.client import Client, NoBrokerAnswers
    from kmini.protocol.errors import KafkaError

    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    timeout_ms = meta.get(_TIMEOUT_MS, TIMEOUT_MS) if timeout_ms is None else timeout_ms
    security = security or remembered_security()

    def report_unreachable(sentence: str) -> None:
        click.echo(f"kmini: {sentence} (still trying)", err=True)

    async def asking() -> T:
        try:
            client = Client(
                bootstrap_server,
                client_id=client_id,
                timeout_ms=timeout_ms,
                sasl=security.sasl,
                tls=security.tls,
                on_unreachable=report_unreachable,
            )
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
        raise click.ClickException(error_sentence(error)) from error


def error_sentence(error: KafkaError) -> str:
    """An error as a sentence: a broker's error as `error_text` gives it, a connection's error as it is."""
    from kmini.client import Disconnected

    return error.message if isinstance(error, Disconnected) else error_text(error)


def error_text(error: KafkaError) -> str:
    """An error as text: Kafka's name of it, and its message or general meaning."""
    meaning = error.message or (type(error).__doc__ or "").split("\n\n")[0]
    return escaped(" ".join(f"{error.kafka_name}: {meaning}".split()).rstrip(".: "))

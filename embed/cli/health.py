"""`kmini health`: check whether a broker answers; the exit code tells. For HEALTHCHECK and for scripts that wait.

It sends ApiVersions, the first request of every client, and imports little, because it runs every few seconds.
"""

from __future__ import annotations

import os
import socket
import struct

import click

from kmini.cli.broker_call import address_option

API_VERSIONS = 18
CORRELATION_ID = 0x6B6D696E
CLIENT_ID = b"kmini-health"


class Unhealthy(Exception):
    """No broker answers at the address; the message describes the failure."""


@click.command()
@address_option
@click.option(
    "--env", "from_environment", is_flag=True, help="Ask the broker that kmini serve --env started in this container."
)
@click.option(
    "--timeout-ms",
    metavar="MS",
    type=click.IntRange(min=1),
    default=2_000,
    show_default=True,
    help="Time limit.",
)
def health(bootstrap_server: str, from_environment: bool, timeout_ms: int) -> None:
    """Check whether a broker answers: exit code 0 if it does, 1 if not.

    A broker opens its port when its topics are there, those of --topic and KAFKA_CREATE_TOPICS too: healthy is ready.

    \b
    kmini health -b localhost:9092
    until kmini health; do sleep 0.1; done
    """
    address = _address_in_container() if from_environment else bootstrap_server.split(",")[0].strip()
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit()):
        raise click.UsageError(f"--bootstrap-server {address}: HOST:PORT was expected")
    try:
        check(host.strip("[]"), int(port), timeout_ms / 1000)
    except Unhealthy as error:
        raise click.ClickException(f"{address} does not answer: {error}") from error
    click.echo(f"{address} answers")


def check(host: str, port: int, timeout_s: float) -> None:
    """Return once the broker at this address has answered. Raises Unhealthy."""
    fields = struct.pack(">hhih", API_VERSIONS, 0, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack(">i", len(fields)) + fields)
            answer = connection.makefile("rb").read(10)
    except (OSError, OverflowError) as error:
        raise Unhealthy(getattr(error, "strerror", None) or str(error)) from error
    if answer[4:] != struct.pack(">ih", CORRELATION_ID, 0):
        raise Unhealthy("this is no Kafka broker" if answer else "the connection was closed")


def _address_in_container() -> str:
    """The address at which `kmini serve --env` listens with this environment. Raises click.UsageError without one."""
    from kmini.broker.settings.broker_config import BrokerConfig, ConfigError
    from kmini.cli.environment import read_environment
    from kmini.cli.serve import settings_of

    try:
        config = BrokerConfig.parse(settings_of(None, read_environment(os.environ), is_container=True))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    listener = config.listeners[0]
    if listener.port == 0:
        raise click.UsageError(f"{listener} stands for any free port, which kmini health cannot know; give it a number")
    return listener.address

"""`kmini health`: check whether a broker answers; the exit code tells. For scripts that wait, and for HEALTHCHECK
(`docker/bin/kmini-healthy`).

It sends ApiVersions, the first request of every client, and asks the control API of a container for `/health`. It
imports little, because it runs every few seconds.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

import click

from kmini.cli.broker_call import address_option

if TYPE_CHECKING:
    from kmini.broker.network.listeners import Endpoint

API_VERSIONS = 18
CORRELATION_ID = 0x6B6D696E
CLIENT_ID = b"kmini-health"
READINESS = b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n"
READY = (b"HTTP/1.0 200 ", b"HTTP/1.1 200 ")
MOST_READ_BYTES = 1 << 16


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
    With --env, a control API (KMINI_HTTP) must say so too.

    \b
    kmini health -b localhost:9092
    until kmini health; do sleep 0.1; done
    """
    http: Endpoint | None = None
    address, has_tls = bootstrap_server.split(",")[0].strip(), False
    if from_environment:
        address, has_tls, http = _addresses_in_container()
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit()):
        raise click.UsageError(f"--bootstrap-server {address}: HOST:PORT was expected")
    try:
        check(host.strip("[]"), int(port), timeout_ms / 1000, has_tls=has_tls)
    except Unhealthy as error:
        raise click.ClickException(f"{address} does not answer: {error}") from error
    if http is not None:
        try:
            check_readiness(http, timeout_ms / 1000)
        except Unhealthy as error:
            raise click.ClickException(f"{http.name.lower()}://{http.address}/health: {error}") from error
    click.echo(f"{address} answers")


def check(host: str, port: int, timeout_s: float, *, has_tls: bool = False) -> None:
    """Return once the broker at this address has answered. Raises Unhealthy."""
    fields = struct.pack(">hhih", API_VERSIONS, 0, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            if has_tls:
                _secured(connection).close()  # it may want a certificate before it answers more
                return
            connection.sendall(struct.pack(">i", len(fields)) + fields)
            answer = connection.makefile("rb").read(10)
    except (OSError, OverflowError) as error:
        raise Unhealthy(getattr(error, "strerror", None) or str(error)) from error
    if answer[4:] != struct.pack(">ih", CORRELATION_ID, 0):
        raise Unhealthy("this is no Kafka broker" if answer else "the connection was closed")


def _secured(connection: socket.socket) -> socket.socket:
    """The same connection, after a TLS handshake. Raises OSError."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False  # whose certificate it is does not matter to whether it answers
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def check_readiness(http: Endpoint, timeout_s: float) -> None:
    """Return once the control API there has said that everything is ready. Raises Unhealthy."""
    host, _, port = http.address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout_s) as connection:
            connection.settimeout(timeout_s)
            with _secured(connection) if http.name == "HTTPS" else connection as asked:
                asked.sendall(READINESS)
                answer = asked.makefile("rb").read(MOST_READ_BYTES)
    except OSError as error:
        raise Unhealthy(error.strerror or str(error)) from error
    if not answer.startswith(READY):
        raise Unhealthy(_missing(answer))


def _missing(answer: bytes) -> str:
    """What an answer of the control API says is missing."""
    import json

    try:
        return ", ".join(json.loads(answer.partition(b"\r\n\r\n")[2])["missing"])
    except (ValueError, KeyError, TypeError):
        return "this is no control API"


def _addresses_in_container() -> tuple[str, bool, Endpoint | None]:
    """The addresses at which `kmini serve --env` listens with this environment: the broker, and whether with TLS, and
    the control API if there is one. Raises click.UsageError for a port that cannot be known."""
    from kmini.broker.network.listeners import Endpoint, parse_endpoint, split_endpoints
    from kmini.broker.settings.broker_config import BrokerConfig, ConfigError
    from kmini.cli.environment import HTTP_PORT, complete, read_environment
    from kmini.cli.serve import settings_of
    from kmini.web.http_hosts import is_loopback

    environment = read_environment(os.environ)
    properties = settings_of(None, environment, is_container=True)
    complete(properties, os.environ)
    try:
        if any(environment.security):  # the broker makes the keys, which are no settings here
            first = parse_endpoint(split_endpoints(properties["listeners"])[0])
            has_tls = environment.security.tls is not None
        else:
            config = BrokerConfig.parse(properties)
            first = config.listeners[0]
            has_tls = config.listener_security_protocol_map[first.name].endswith("SSL")
    except (ConfigError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    http = None
    if environment.http_port is not None:
        is_secured = environment.security.tls is not None and not is_loopback(environment.http_host)
        http = Endpoint("HTTPS" if is_secured else "HTTP", environment.http_host, environment.http_port)
    for said, listener in ((str(first), first), (f"{HTTP_PORT}=0", http)):
        if listener is not None and listener.port == 0:
            raise click.UsageError(f"{said} stands for any free port, which kmini health cannot know; give it a number")
    return first.address, has_tls, http

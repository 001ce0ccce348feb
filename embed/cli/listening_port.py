"""A port beside Kafka's that listens before the broker starts: a taken one is told at once, and a client that comes
early waits for its answer. aiohttp is imported once clients of Kafka can connect, in a thread, so that their first
answer does not wait.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar

import click

from kmini.broker.network.listeners import Endpoint
from kmini.broker.network.socket_server import PortTaken, listening_socket
from kmini.cli.taken_port import remedy

BACKLOG = 128
"""Connections that wait to be accepted."""

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where OpenSSL looks for the certificates of the system."""

Port = TypeVar("Port", bound="ListeningPort")


class ListeningPort:
    """A port that listens from the beginning."""

    def __init__(self, what: str, host: str, port: int) -> None:
        """Listen. An empty host is every address, port 0 any free port. Raises PortTaken, which says what the port is
        for."""
        self._host = host
        self._listening = listening_socket(what, host, port, BACKLOG)
        self.port: int = self._listening.getsockname()[1]
        """The port that was bound."""

    @property
    def link(self) -> str:
        """The address by which a client on this machine reaches it."""
        return f"http://{Endpoint('HTTP', self._host, self.port).address}"

    def close(self) -> None:
        """Close the port."""
        self._listening.close()


@contextmanager
def opened(listen: Callable[[], Port], option: str) -> Iterator[Port]:
    """The port that `listen` makes, which listens from now on. `option` names it, and with `-host` behind it its
    address. Raises click.UsageError if it cannot be had."""
    try:
        port = listen()
    except PortTaken as error:
        raise click.UsageError(f"{error}; {remedy(error, option, f'{option}-host')}") from error
    try:
        yield port
    finally:
        port.close()


async def import_server(module: str) -> None:
    """Import a server in a thread, and with it aiohttp."""
    await asyncio.get_running_loop().run_in_executor(None, _import_without_certificates, module)


def _import_without_certificates(module: str) -> None:
    """Import a module. aiohttp's client loads the certificates of the system when it is imported: 2 MiB that nothing
    here uses. It finds none."""
    before = {name: os.environ.get(name) for name in CERTIFICATES}
    os.environ.update(dict.fromkeys(CERTIFICATES, os.devnull))
    try:
        import_module(module)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

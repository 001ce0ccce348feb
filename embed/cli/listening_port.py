"""A port beside Kafka's that listens before the broker starts: a taken one is told at once, and a client that comes
early waits for its answer. aiohttp is imported once clients of Kafka can connect, in a thread, so that their first
answer does not wait.
"""

from __future__ import annotations

import asyncio
import mimetypes
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

IMPORT_SWITCHES = {
    "SSL_CERT_FILE": os.devnull,
    "SSL_CERT_DIR": os.devnull,
    "FROZENLIST_NO_EXTENSIONS": "1",
}
"""Environment variables while aiohttp is imported, so that it leaves out of memory what the servers do not use: the
certificates of the system for aiohttp's client (2 MiB), and the C++ library under frozenlist (1 MiB), which keeps some
lists that a request only reads."""

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
    await asyncio.get_running_loop().run_in_executor(None, _import_server, module)


def _import_server(module: str) -> None:
    """Import a module, and with it aiohttp, without what of that the servers do not use."""
    mimetypes.init(files=())  # otherwise aiohttp reads the machine's tables of media types
    before = {name: os.environ.get(name) for name in IMPORT_SWITCHES}
    os.environ.update(IMPORT_SWITCHES)
    try:
        import_module(module)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

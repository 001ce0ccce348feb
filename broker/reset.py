"""A reset: brokers become as they were right after their start, behind the same listeners.

Nothing is deleted piece by piece, because a piece might be forgotten: every part of a broker is made anew, over a
controller and a log directory that are empty. What stays is what a client was told about the brokers (ports, node ids,
cluster id), and what must not repeat (producer ids). The clock goes back to the wall clock, which only an empty broker
can do. `pytest_plugin/lending.py` resets brokers between tests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from .settings.log_levels import restore_levels

if TYPE_CHECKING:
    from ..storage.filesystem import FileSystem
    from .broker import BrokerServer
    from .clock import Clock
    from .controller.controller import Controller
    from .network.connection import Connection
    from .network.socket_server import ClosedClient
    from .snapshots import Saved


class ResetReport(NamedTuple):
    """What a reset has found."""

    closed: list[ClosedClient]
    """The clients whose connections were closed, one for each connection."""

    def __str__(self) -> str:
        names = sorted({str(client) for client in self.closed})
        return f"closed {len(names)} connections: {', '.join(names)}" if names else "closed no connection"


class Emptied(NamedTuple):
    """Brokers in the middle of a reset: their parts are stopped, and nothing is left of their data."""

    closed: list[ClosedClient]
    set_back_ms: int
    """By how much the clock of liveness was set back."""


async def empty(
    brokers: Sequence[BrokerServer], clock: Clock, keep: Collection[str], saved: Saved | None = None
) -> Emptied:
    """Stop the parts of all brokers and move their data away; set the clock to that of `saved`.

    A connection stays if an earlier reset spared it, or if its client id matches one of the patterns `keep`. Raises
    OSError.
    """
    closed = []
    for broker in brokers:
        closed += await broker.server.suspend(lambda connection: _is_kept(connection, keep))
    for broker in brokers:
        await broker.empty()
    for broker in brokers:
        closed += await broker.server.finish_requests()
    restore_levels()
    return Emptied(closed, clock.set_back(0 if saved is None else saved.clock_ahead_ms))


def successor_of(controller: Controller, filesystem: FileSystem, saved: Saved | None) -> Controller:
    """The controller that the brokers have from now on. Raises what `Controller.restored` does."""
    return controller.emptied() if saved is None else controller.restored(filesystem, saved.database)


def _is_kept(connection: Connection, keep: Collection[str]) -> bool:
    client_id = connection.client_id
    return client_id is not None and any(fnmatchcase(client_id, pattern) for pattern in keep)

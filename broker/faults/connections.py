"""Rules about new connections: refuse them, or accept them and say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .active_rule import ActiveRule
from .acts import Refuse
from .matching import Asked

if TYPE_CHECKING:
    from ..network.connection import Connection
    from .faulted_broker import FaultedServices


class _NewConnection:
    """What the conditions of a rule may ask of a connection that has sent nothing yet."""

    client_id = None

    def __init__(self, services: FaultedServices, connection: Connection) -> None:
        self.services = services
        self.connection = connection


def gate_of(services: FaultedServices, rules: Sequence[ActiveRule]) -> Callable[[Connection], str | None]:
    """The function that the server asks about each new connection; the newest rule comes first."""

    def gate(connection: Connection) -> str | None:
        context: Any = _NewConnection(services, connection)
        asked = Asked("connect", 0, context, None)
        deciding = None
        for active in rules:
            if active.takes(asked) and deciding is None:
                deciding = active
        if deciding is None:
            return None
        deciding.acted()
        if isinstance(deciding.rule.do[0], Refuse):
            connection.reset()
            return f"fault rule {deciding.rule.name!r}"
        deciding.when_removed.append(_silence(connection))
        return None

    return gate


def _silence(connection: Connection) -> Callable[[], None]:
    """Serve no request of a connection. Returns the function that ends this."""
    silence: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    connection.in_service = connection.waiting = silence

    def end() -> None:
        if connection.in_service is silence:
            connection.in_service = connection.waiting = None
            silence.cancel()
            connection.serve()

    return end

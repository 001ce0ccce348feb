"""The ports of a broker that does not run for now: they are held until it comes back."""

import contextlib
import socket
from collections.abc import Iterable

from .listeners import Endpoint


class KeptPorts:
    """Ports that are bound without listening: connections are refused, the system gives the ports to no other
    connection, and the broker itself can bind them again."""

    def __init__(self, listeners: Iterable[Endpoint]) -> None:
        self._sockets: list[socket.socket] = []
        for _, host, port in listeners:
            bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            self._sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # another process took the port; the start reports it
                bound.bind((host, port))

    def give_back(self) -> None:
        """Hold the ports no more: the broker has bound them, or never will."""
        for bound in self._sockets:
            bound.close()
        self._sockets.clear()

"""Published ports: pass connections to a port of the host on to a container, as Docker's proxy does.

As a program: `published_port.py FD PORT` passes on the connections that the listening socket FD accepts, to PORT of the
network namespace that the program runs in.
"""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress


def forward(listening: socket.socket, target: tuple[str, int]) -> None:
    """Accept connections for as long as the process lives. One that the target refuses is closed."""
    while True:
        outside, _ = listening.accept()
        try:
            inside = socket.create_connection(target)
        except OSError:
            outside.close()
            continue
        for pair in ((outside, inside), (inside, outside)):
            threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    forward(socket.socket(fileno=int(sys.argv[1])), ("127.0.0.1", int(sys.argv[2])))

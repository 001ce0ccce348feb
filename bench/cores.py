"""Which core the client and the broker of a measurement run on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from peers import ServerProcess


@contextmanager
def on_one_core(*servers: ServerProcess) -> Iterator[None]:
    """Have this process and the main threads of these servers run on one core. On two, client and broker wake one
    another across cores, which takes five times as long in a virtual machine; and the system moves them when it
    likes."""
    cores = os.sched_getaffinity(0)
    processes = [0, *(server.pid for server in servers)]
    for process in processes:
        os.sched_setaffinity(process, {min(cores)})
    try:
        yield
    finally:
        for process in processes:
            os.sched_setaffinity(process, cores)

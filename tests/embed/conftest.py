"""What every test of the embedded broker may ask for."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest
import uvloop


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:  # the one of the listing itself
            continue
    return found


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """Fails a test after which there are threads or descriptors that there were not before."""
    uvloop.new_event_loop().close()  # libuv keeps one pipe a process, from its first loop on
    gc.collect()
    threads, descriptors = set(threading.enumerate()), _descriptors()
    yield
    gc.collect()
    left = set(threading.enumerate()) - threads
    assert {thread for thread in left if not thread.name.startswith("Trio thread")} == set()  # trio keeps some ready
    assert _descriptors() - descriptors == set()

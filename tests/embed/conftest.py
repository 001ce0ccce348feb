"""Fixtures for tests of the embedded broker."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from kmini import Broker, Cluster
from support.until import until


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one of the listing itself
            continue
        if not target.startswith("pipe:"):
            found.add((name, target))
    return found


def _left(threads: set[threading.Thread], descriptors: set[tuple[str, str]]) -> set[object]:
    new = {thread for thread in threading.enumerate() if thread not in threads}
    return {thread for thread in new if not thread.name.startswith("Trio thread")} | (_descriptors() - descriptors)


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """Fails a test after which there are threads or descriptors that there were not before.

    Clients that earlier tests left behind may open a socket at any time, to look for their broker: those go again.
    Pipes do not count: kmini opens none, and librdkafka makes some for each broker that it learns of.
    """
    uvloop.new_event_loop().close()  # libuv keeps one pipe a process, from its first loop on
    threads, descriptors = set(threading.enumerate()), _descriptors()
    yield

    def is_clean() -> bool:
        if not _left(threads, descriptors):
            return True
        gc.collect()
        return False

    until(is_clean, lambda: _left(threads, descriptors), timeout_s=30, poll_s=0.01)


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Any]]:
    """A broker and a cluster of two brokers, each with the topic `orders`."""
    with Broker(topics=["orders"]) as broker, Cluster(brokers=2, topics=["orders"]) as cluster:
        yield {"broker": broker, "cluster": cluster}

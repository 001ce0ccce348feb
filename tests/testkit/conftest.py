"""Fixtures for tests of the embedded broker."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from kmini import Broker, Cluster
from support.every_name import descriptors
from support.until import until


def _descriptors() -> set[tuple[str, str]]:
    """Those that are open; without pipes where librdkafka is loaded."""
    found = descriptors()
    if "confluent_kafka" not in sys.modules:
        return found
    return {(name, target) for name, target in found if not target.startswith("pipe:")}


def _left(threads: set[threading.Thread], opened: set[tuple[str, str]]) -> set[object]:
    new = {thread for thread in threading.enumerate() if thread not in threads}
    return {thread for thread in new if not thread.name.startswith("Trio thread")} | (_descriptors() - opened)


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """Fails a test after which there are threads or descriptors that there were not before.

    Clients that earlier tests left behind may open a socket at any time, to look for their broker: those go again.
    One of librdkafka that finds a cluster there keeps a pipe for each broker that is new to it, for its whole life.
    """
    uvloop.new_event_loop().close()  # libuv keeps one pipe a process, from its first loop on
    threads, opened = set(threading.enumerate()), _descriptors()
    yield

    def is_clean() -> bool:
        if not _left(threads, opened):
            return True
        gc.collect()
        return False

    until(is_clean, lambda: _left(threads, opened), timeout_s=30, poll_s=0.01)


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Any]]:
    """A broker and a cluster of two brokers, each with the topic `orders`."""
    with Broker(topics=["orders"]) as broker, Cluster(brokers=2, topics=["orders"]) as cluster:
        yield {"broker": broker, "cluster": cluster}

"""Fixtures for tests of the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker, Cluster


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Any]]:
    """A broker and a cluster of two brokers, each with the topic `orders`."""
    with Broker(topics=["orders"]) as broker, Cluster(brokers=2, topics=["orders"]) as cluster:
        yield {"broker": broker, "cluster": cluster}

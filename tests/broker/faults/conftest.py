"""A broker of each module of tests, and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kmini import Broker
from kmini.testing import Wire


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(topics=["orders", "other"], config={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    """A broker with the topics `orders` and `other`, and no rule."""
    yield running
    running.faults.clear()


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection

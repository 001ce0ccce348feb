"""How much is thrown at the broker: a fixed sample in `make test`, as much as the figures ask for in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from support.fuzz.watched_broker import WatchedBroker

IS_SOAK = bool(os.environ.get("KMINI_SOAK"))


@pytest.fixture(scope="session")
def rounds() -> Callable[[int, int], int]:
    """`rounds(sample, full)`: how often to try, here."""
    return lambda sample, full: full if IS_SOAK else sample


@pytest.fixture
def watched_broker() -> Iterator[Callable[..., WatchedBroker]]:
    """A maker of brokers in processes of their own, which tell what they hold; settings as keywords, _ for a dot.

    Tests that measure run in one worker (SHARED in tests/conftest.py): two at once would measure each other.
    """
    brokers: list[WatchedBroker] = []

    def start(**config: str | int) -> WatchedBroker:
        brokers.append(WatchedBroker({key.replace("_", "."): str(value) for key, value in config.items()}))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()

"""How much is thrown at the broker: a fixed sample in `make test`, as much as the figures ask for in `make soak`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator

import pytest

from kmini import Broker
from kmini.broker.network.peer_log import PeerLog
from support.fuzz.watched_broker import WatchedBroker

IS_SOAK = bool(os.environ.get("KMINI_SOAK"))


@pytest.fixture(scope="session")
def rounds() -> Callable[[int, int], int]:
    """`rounds(sample, full)`: how often to try, here."""
    return lambda sample, full: full if IS_SOAK else sample


@pytest.fixture
def watched_broker() -> Iterator[Callable[..., WatchedBroker]]:
    """A maker of brokers in processes of their own, which tell what they hold; settings as keywords, _ for a dot.

    Tests that measure are in the stage soak, one after the other: two at once would measure each other.
    """
    brokers: list[WatchedBroker] = []

    def start(**config: str | int) -> WatchedBroker:
        brokers.append(WatchedBroker({key.replace("_", "."): str(value) for key, value in config.items()}))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Broker]]:
    """A maker of brokers in this process; settings as keywords, _ for a dot."""
    brokers: list[Broker] = []
    # With a share of log lines that no other test has used up.
    monkeypatch.setattr("kmini.broker.network.connection.peer_log", PeerLog(logging.getLogger("kmini.connection")))

    def start(**config: str | int) -> Broker:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        brokers.append(Broker(config=dotted, topics={"t": 1}).start())
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


@pytest.fixture
def broker(start: Callable[..., Broker]) -> Broker:
    return start()

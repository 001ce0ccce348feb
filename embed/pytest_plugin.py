"""Fixtures for tests of services on Kafka. Nothing starts until a test asks for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kmini import AsyncBroker, Broker


@pytest.fixture
def kafka_broker() -> "Iterator[Broker]":
    """A broker for one test, on a free port; afterwards it and its data are gone."""
    from kmini import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def async_kafka_broker(kafka_broker: "Broker") -> "AsyncBroker":
    """The broker of `kafka_broker` with awaitable methods.

    The fixture itself is an ordinary one: it works with pytest-asyncio in either mode, and with anyio's plugin.
    """
    return kafka_broker.aio

"""Fixtures for tests of services on Kafka. Nothing starts until a test asks for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kmini import Broker


@pytest.fixture
def kafka_broker() -> "Iterator[Broker]":
    """A broker of its own for the test, on a free port, gone with all its data afterwards."""
    from kmini import Broker

    with Broker() as broker:
        yield broker

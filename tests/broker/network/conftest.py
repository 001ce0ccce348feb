"""A broker on a real port, and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kmini import Broker
from kmini.testing import Wire


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}) as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection

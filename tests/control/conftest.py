"""Brokers and a cluster with their control servers, one of each for the tests of a module, and reset after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kmini
from kmini.control.connected import ConnectedBroker
from support.control_api import ControlApi, control_api
from support.event_source import Open, streams, until_left


@pytest.fixture(scope="module")
def served_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlApi]:
    api = ControlApi(str(tmp_path_factory.mktemp("broker"))).start()
    yield api
    api.end()


@pytest.fixture(scope="module")
def served_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlApi]:
    api = ControlApi(str(tmp_path_factory.mktemp("cluster")), brokers=2).start()
    yield api
    api.end()


@pytest.fixture
def api(served_broker: ControlApi) -> Iterator[ControlApi]:
    """A broker with its control server."""
    yield served_broker
    served_broker.reset()


@pytest.fixture
def cluster_api(served_cluster: ControlApi) -> Iterator[ControlApi]:
    """A cluster of two brokers with its control server."""
    yield served_cluster
    served_cluster.reset()


@pytest.fixture(scope="module")
def server() -> Iterator[ControlApi]:
    with control_api(topics={}, config={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture(scope="module")
def connected(server: ControlApi) -> Iterator[ConnectedBroker]:
    broker = kmini.connect(server.url)
    assert isinstance(broker, ConnectedBroker)
    with broker:
        yield broker


@pytest.fixture
def broker(server: ControlApi, connected: ConnectedBroker) -> Iterator[ConnectedBroker]:
    """A broker with the topic `orders`, which has two partitions. A test leaves no stream of events there."""
    connected.create_topic("orders", 2)
    yield connected
    until_left(server)
    connected.reset()


@pytest.fixture
def stream(server: ControlApi, broker: ConnectedBroker) -> Iterator[Open]:
    """Opens streams of events, which end with the test."""
    with streams(server) as opened:
        yield opened

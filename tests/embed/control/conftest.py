"""A broker and a cluster with their control servers, one of each for the tests of a module, and reset after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.control_api import ControlApi


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

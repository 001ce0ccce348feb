"""A broker and a cluster with their schema registries, one of each for the tests of a module, and reset after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.registry_api import RegistryApi


@pytest.fixture(scope="module")
def served_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryApi]:
    api = RegistryApi(str(tmp_path_factory.mktemp("broker"))).start()
    yield api
    api.end()


@pytest.fixture(scope="module")
def served_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryApi]:
    api = RegistryApi(str(tmp_path_factory.mktemp("cluster")), brokers=3).start()
    yield api
    api.end()


@pytest.fixture
def api(served_broker: RegistryApi) -> Iterator[RegistryApi]:
    """A broker with a schema registry."""
    yield served_broker
    served_broker.control.reset()


@pytest.fixture
def cluster_api(served_cluster: RegistryApi) -> Iterator[RegistryApi]:
    """A cluster of three brokers with a schema registry."""
    yield served_cluster
    served_cluster.control.reset()

"""The examination as a whole: what it is told with, and what it leaves alone."""

from __future__ import annotations

import pytest

from kmini import Broker, Cluster
from kmini.doctor.examination import exit_code
from kmini.doctor.findings import Finding

from .conftest import Examine


@pytest.mark.parametrize(
    ("found", "code"),
    [([], 0), (["reached", "only-ipv6"], 0), (["reached", "nothing-listens"], 1), (["nothing-answers"], 3)],
    ids=["nothing", "warning", "failure", "unreachable"],
)
def test_the_exit_code_tells_failures_from_what_cannot_be_reached(found: list[str], code: int) -> None:
    assert exit_code([Finding(name, "") for name in found]) == code


def test_a_healthy_cluster_has_neither_failures_nor_warnings(diagnose: Examine) -> None:
    with Cluster(brokers=3) as cluster:
        found = diagnose(cluster.bootstrap_servers)
    assert {finding.level for finding in found.values()} == {"ok"}


def test_the_release_is_told(diagnose: Examine) -> None:
    with Broker(as_version="3.9") as broker:
        assert "kmini as Kafka 3.9" in diagnose(broker.bootstrap_servers)["reached"].text


def test_an_examination_creates_no_topic(diagnose: Examine) -> None:
    with Broker() as broker:
        diagnose(broker.bootstrap_servers)
        assert broker.topics() == []

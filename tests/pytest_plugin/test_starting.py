"""What a broker of a test is started with: ini file, then `kafka_options`, then the marker."""

from __future__ import annotations

import pytest

from kmini import Broker, Cluster
from kmini.pytest_plugin.marker import Wanted
from kmini.pytest_plugin.starting import Spec, topics_by_name


def test_the_marker_wins_over_the_options_and_these_over_the_ini_file():
    spec = Spec.of(
        "broker",
        Wanted(topics={"orders": 3}, config={"c": 3}, as_version="3.9"),
        {"a": "1", "b": "1", "c": "1"},
        {"config": {"b": 2, "c": 2}, "topics": ["orders", "users"], "as_version": "4.3", "timestamps": "append"},
    )
    assert spec.arguments == {
        "journal": True,
        "config": {"a": "1", "b": 2, "c": 3},
        "topics": {"orders": 3, "users": {}},
        "as_version": "3.9",
        "timestamps": "append",
    }


def test_a_cluster_gets_the_options_of_a_broker():
    options = {"as_version": "3.9", "timestamps": "append"}
    spec = Spec.of("cluster", Wanted(brokers=2), {}, options)
    assert spec.arguments == {"brokers": 2, "journal": True, **options, "config": {}, "topics": {}}
    cluster = spec.make()
    assert isinstance(cluster, Cluster)
    assert [config.kmini_as_version for config in cluster._lifecycle.configs] == ["3.9", "3.9"]
    assert Spec.of("cluster", Wanted()).arguments["brokers"] == 3


def test_equal_wishes_are_equal_specs():
    one, other = (Spec.of("broker", Wanted(config={"num.partitions": 2})) for _ in range(2))
    assert one == other != Spec.of("broker", Wanted())
    assert isinstance(one.make(), Broker)


def test_wrong_options_are_a_usage_error():
    with pytest.raises(pytest.UsageError, match=r"kafka_options, or kafka_config in the ini file: .*ports"):
        Spec.of("broker", Wanted(), {}, {"ports": 1}).make_of_options()


def test_topics_have_either_form():
    assert topics_by_name(None) == topics_by_name(()) == {}
    assert topics_by_name(["orders"]) == {"orders": {}}
    assert topics_by_name({"orders": 3}) == {"orders": 3}

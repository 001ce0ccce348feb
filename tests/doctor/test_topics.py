"""Misspelt and emptied topics, and a clock that is ahead, are named."""

from __future__ import annotations

from kmini import Broker

from .conftest import Examine


def test_an_empty_topic_beside_a_similar_one_with_records_is_likely_misspelt(diagnose: Examine) -> None:
    with Broker(topics=["orders", "ordres", "bills"]) as broker:
        broker.produce("orders", b"placed")
        found = diagnose(broker.bootstrap_servers)["misspelt-topic"]
    assert "'orders' has 1 record; nothing was ever written to 'ordres'" in found.text
    assert "kmini topic delete" in found.change


def test_topics_with_siblings_by_name_are_no_finding(diagnose: Examine) -> None:
    with Broker(topics=["orders", "orders-dlt", "orders-2"]) as broker:
        broker.produce("orders", b"placed")
        assert "misspelt-topic" not in diagnose(broker.bootstrap_servers)


def test_a_topic_that_was_emptied_is_told(diagnose: Examine) -> None:
    with Broker(topics=["orders"]) as broker:
        broker.produce("orders", b"placed")
        broker.delete_records("orders", 1)
        found = diagnose(broker.bootstrap_servers)["topic-emptied"]
    assert "a DeleteRecords or retention deleted what was written to 'orders'" in found.text


def test_a_clock_that_is_ahead_shows_in_what_the_broker_has_stamped(diagnose: Examine) -> None:
    with Broker(topics=["orders"]) as broker:
        broker.clock.advance("7d")
        broker.group("billing").commit({("orders", 0): 0})
        found = diagnose(broker.bootstrap_servers)["clock-ahead"]
    assert "is ahead of this machine by 7d or more" in found.text or "by 6d" in found.text


def test_a_clock_that_shows_nothing_is_unknown(diagnose: Examine) -> None:
    with Broker() as broker:
        assert diagnose(broker.bootstrap_servers)["clock-unknown"].level == "ok"


def test_partitions_beyond_the_limit_are_told_as_a_sample(diagnose: Examine, monkeypatch) -> None:
    monkeypatch.setattr("kmini.doctor.examination.MOST_PARTITIONS", 2)
    with Broker(topics={"orders": 3}) as broker:
        found = diagnose(broker.bootstrap_servers)["partitions-sampled"]
    assert found.text == "there are 3 partitions: the offsets of the first 2 were asked for"


def test_topics_beyond_the_limit_are_not_compared_with_each_other(diagnose: Examine, monkeypatch) -> None:
    monkeypatch.setattr("kmini.doctor.topics.MOST_COMPARED", 2)
    with Broker(topics=["a", "b", "c"]) as broker:
        found = diagnose(broker.bootstrap_servers)["topics-sampled"]
    assert found.text == "there are 3 topics: the names of the first 2 were compared with each other"

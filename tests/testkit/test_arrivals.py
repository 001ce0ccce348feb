"""The sentence of a wait in vain: what was there, with keys, shortened, and what is close."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker, RecordsMissing
from support.transactional_clients import Confluent


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def told(broker: Broker, topic: str, wanted: Any = 1, **chosen: Any) -> str:
    """What a wait in vain says."""
    with pytest.raises(RecordsMissing) as caught:
        broker.topic(topic).wait_for(wanted, timeout_ms=1, **chosen)
    return caught.value.message


def test_records_are_listed_with_their_keys(broker: Broker) -> None:
    broker.produce("orders", b"placed", key=b"42")
    broker.produce("orders", None, key=b"43")
    broker.produce("orders", b"no key")
    assert told(broker, "orders", 4) == (
        "orders holds 3 of 4 records after 1 ms: [b'42': b'placed', b'43': None, b'no key']"
    )


def test_long_values_and_many_records_are_shortened(broker: Broker) -> None:
    broker.produce("orders", b"x" * 1_000)
    for number in range(20):
        broker.produce("orders", b"%d" % number)
    sentence = told(broker, "orders", 30)
    assert f"[b'{'x' * 48}...' (1000 bytes), b'0', b'1'" in sentence
    assert sentence.endswith("b'8', ...]")


def test_what_is_hidden_has_room_behind_long_lists(broker: Broker) -> None:
    for number in range(10):
        broker.produce("orders", b"x" * 1_000, key=b"%d" % number * 100)
        broker.produce("orders", b"y" * 1_000, key=b"42")
    client = Confluent(broker.bootstrap_servers, "billing-1")
    client.begin()
    client.produce("orders", b"open")
    sentence = told(broker, "orders", 11, where=lambda record: record.value[:1] != b"x")
    assert "orders holds 10 of 11 records" in sentence
    assert "10 others" in sentence
    assert sentence.endswith("...]; 1 more in an open transaction of billing-1")
    client.close()


def test_records_that_are_not_meant_are_listed_with_the_most_similar_keys_first(broker: Broker) -> None:
    for key in (b"alice", b'"42"', b"bob"):
        broker.produce("orders", b"v", key=key)
    assert told(broker, "orders", key=b"42") == (
        "orders holds 0 of 1 record with key b'42' after 1 ms: []; "
        "3 others: [b'\"42\"': b'v', b'alice': b'v', b'bob': b'v']"
    )


def test_what_was_meant_is_told_in_words(broker: Broker) -> None:
    broker.create_topic("orders", 2)
    mark = broker.topic("orders").mark()
    assert told(broker, "orders", lambda record: True, key=b"42", partition=1, since=7) == (
        "orders holds 0 of 1 record with key b'42' in partition 1 since offset 7 that the predicate takes "
        "after 1 ms: []"
    )
    assert told(broker, "orders", 2, since=mark) == "orders holds 0 of 2 records since the mark after 1 ms: []"


def test_a_misspelt_topic_is_told_with_the_similar_one_and_its_records(broker: Broker) -> None:
    broker.create_topic("users")
    broker.produce("orders", b"placed", key=b"42")
    assert told(broker, "ordres") == (
        "there is no topic ordres; there are: orders, users (after 1 ms); orders holds 1 record: [b'42': b'placed']"
    )


def test_an_empty_topic_is_told_with_the_similar_one_that_has_the_records(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.create_topic("orders-dead-letters")
    broker.produce("order", b"placed")
    assert told(broker, "orders") == ("orders holds 0 of 1 record after 1 ms: []; order holds 1 record: [b'placed']")


def test_internal_topics_are_not_close_to_anything(broker: Broker) -> None:
    client = Confluent(broker.bootstrap_servers, "billing-1")
    client.begin()
    client.close()
    assert "__transaction_state" in broker.topics()
    assert told(broker, "transaction_state") == "there is no topic transaction_state; there are none (after 1 ms)"


def test_hidden_records_count_if_they_would_be_meant(broker: Broker) -> None:
    broker.create_topic("orders", 2)
    client = Confluent(broker.bootstrap_servers, "billing-1")
    client.begin()
    client.produce("orders", b"open")
    hidden = "1 more in an open transaction of billing-1"
    assert told(broker, "orders").endswith(hidden)
    assert told(broker, "orders", where=lambda record: record.value == b"open").endswith(hidden)
    assert "transaction" not in told(broker, "orders", where=lambda record: record.value != b"open")
    assert "transaction" not in told(broker, "orders", partition=1)
    client.close()

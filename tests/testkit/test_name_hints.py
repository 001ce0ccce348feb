"""A wrong attribute or keyword is refused with the one that has a similar name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import kmini
from kmini import Broker

ATTRIBUTES: list[tuple[Callable[[Any], object], str]] = [
    (lambda b: b.topic("orders").recrds(), "'Topic' object has no attribute 'recrds' (did you mean 'records'?)"),
    (lambda b: b.aio.group("billing").ofsets(), "did you mean 'offsets'?"),
    (lambda b: b.clock.now(), "'Clock' object has no attribute 'now'"),
    (lambda b: b.faults.on("Fetch").distconnect(), "did you mean 'disconnect'?"),
]


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker(topics=["orders"], journal=True) as running:
        yield running


@pytest.mark.parametrize(("call", "told"), ATTRIBUTES)
def test_an_unknown_attribute_is_refused_with_a_similar_one(
    broker: Any, call: Callable[[Any], object], told: str
) -> None:
    with pytest.raises(AttributeError, match=re.escape(told)):
        call(broker)


KEYWORDS: list[tuple[Callable[[Any], object], str]] = [
    (lambda b: b.clock.advance(days=8), "advance() missing a required argument: 'duration'"),
    (lambda b: b.topic("orders").wait_for(1, timeout=3), "did you mean 'timeout_ms'?"),
    (lambda b: b.create_topic("users", num_partitions=3), "did you mean 'partitions'?"),
    (lambda b: b.topic("orders").produce(b"placed", partitoin=1), "did you mean 'partition'?"),
    (lambda b: b.wait_for_records("orders", wanted=1, timeout=3), "did you mean 'timeout_ms'?"),
]


@pytest.mark.parametrize(("call", "told"), KEYWORDS)
def test_an_unknown_keyword_is_refused_with_a_similar_one(
    broker: Any, call: Callable[[Any], object], told: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        call(broker)


def test_settings_are_config_and_a_number_is_a_count_everywhere(broker: Any) -> None:
    broker.create_topic("a", config={"retention.ms": 1})
    broker.create_topic("b", config={"retention.ms": 1})
    assert broker.topic("a").wait_for(count=0) == broker.topic("a").wait_for(0) == []
    assert broker.requests.assert_none("Fetch") is None
    assert broker.wait_for_records("a", count=0) == []


def test_the_package_lists_what_it_has_and_says_what_is_similar() -> None:
    assert {*kmini.__all__} <= {*dir(kmini)}
    with pytest.raises(AttributeError) as error:
        kmini.Brokr  # noqa: B018  # the attribute is looked up
    assert (error.value.name, error.value.obj) == ("Brokr", kmini)  # what the interpreter seeks a similar name by


def test_units_of_time_may_be_words() -> None:
    with Broker() as broker:
        before_ms = broker.clock.now_ms()
        broker.clock.advance("7 days 1 hour")
        assert 0 <= broker.clock.now_ms() - before_ms - (7 * 24 + 1) * 3_600_000 < 60_000

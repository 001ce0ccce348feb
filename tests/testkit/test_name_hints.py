"""What users call things here: a wrong attribute or keyword is refused with the right one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import kmini
from kmini import Broker, Cluster
from kmini.testkit.name_hints import ATTRIBUTES

ATTRIBUTES_OF_A_BROKER: list[tuple[Callable[[Any], object], str]] = [
    (lambda b: b.port, 'here it is bootstrap_servers, which is "host:port"'),
    (lambda b: b.restart(), "here it is stop() and then start()"),
    (lambda b: b.topic("orders").clear(), "here it is delete_records()"),
    (lambda b: b.topic("orders").count(), "here it is len(topic.records())"),
    (lambda b: b.topic("orders").recrds(), "did you mean 'records'?"),
    (lambda b: b.group("billing").state, "here it is describe().state"),
    (lambda b: b.aio.group("billing").members(), "here it is describe().members"),
    (lambda b: b.clock.now(), "here it is now_ms()"),
    (lambda b: b.requests.list(), "here it is all()"),
    (lambda b: b.faults.on("Fetch").nth(3), "here it is on_call(3)"),
    (lambda b: b.faults.on("Fetch").distconnect(), "did you mean 'disconnect'?"),
    (lambda b: b.transactions.list(), "here it is open()"),
]


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker(topics=["orders"], journal=True) as running:
        yield running


@pytest.mark.parametrize(("call", "told"), ATTRIBUTES_OF_A_BROKER)
def test_an_attribute_of_another_name_is_refused_with_its_name_here(
    broker: Any, call: Callable[[Any], object], told: str
) -> None:
    with pytest.raises(AttributeError, match=re.escape(told)):
        call(broker)


KEYWORDS: list[tuple[Callable[[Any], object], str]] = [
    (lambda b: b.clock.advance(days=8), 'here it is advance("8d")'),
    (lambda b: b.topic("orders").produce(json={}), "here it is value=json.dumps"),
    (lambda b: b.topic("orders").wait_for(1, timeout=3), "here it is timeout_ms, in milliseconds"),
    (lambda b: b.create_topic("users", num_partitions=3), "here it is partitions"),
    (lambda b: b.topic("orders").produce(b"placed", partitoin=1), "did you mean 'partition'?"),
    (lambda b: b.wait_for_records("orders", wanted=1, timeout=3), "here it is timeout_ms, in milliseconds"),
]


@pytest.mark.parametrize(("call", "told"), KEYWORDS)
def test_a_keyword_of_another_name_is_refused_with_its_name_here(
    broker: Any, call: Callable[[Any], object], told: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        call(broker)


def test_what_is_said_to_be_here_is_here(broker: Any) -> None:
    """Each first word of an answer is an attribute of what was asked, or of the package."""
    with Cluster(brokers=1) as cluster:
        owners: dict[str, list[Any]] = {
            "SharedMethods": [broker, cluster],
            "BrokerMethods": [broker],
            "ClusterMethods": [cluster],
            "_TopicHandle": [broker.topic("orders"), broker],
            "_GroupHandle": [broker.group("billing"), broker],
            "_ClockHandle": [broker.clock],
            "_RequestsHandle": [broker.requests],
            "_Faults": [broker.faults],
            "FaultDraft": [broker.faults.on("Fetch")],
            "_TransactionsHandle": [broker.transactions],
        }
        assert owners.keys() == ATTRIBUTES.keys()
        for kind, names in ATTRIBUTES.items():
            for name, meant in names.items():
                word = re.match(r"[a-z_]+(?=[(.,]|$)", meant)
                assert not hasattr(owners[kind][0], name), (kind, name)
                if word and word[0] not in ("len", "nothing"):
                    assert any(hasattr(owner, word[0]) for owner in owners[kind]), (kind, name, meant)


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

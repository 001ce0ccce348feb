"""Which requests a rule means, and what it says of those that came near."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.faults.matching import Matcher, pattern, version_range
from kmini.protocol import messages as m
from support.fault_rules import asked, produce_request, rule

MEANT: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"topic": "orders"}, True),
    ({"topic": "ord*"}, True),
    ({"topic": "order"}, False),
    ({"topic": "orders", "partition": 0}, True),
    ({"partition": 1}, False),
    ({"client_id": "app-?"}, True),
    ({"client_id": "app"}, False),
    ({"version": "<9"}, False),
    ({"version": "8-9"}, True),
    ({"broker": 1}, True),
    ({"listener": "PLAINTEXT"}, True),
    ({"principal": "User:alice"}, False),
    ({"connection": "127.0.0.1:*"}, True),
    ({"connection": "127.0.0.1:1"}, False),
    ({"where": lambda asked: asked.version == 9 and asked.request.acks == 1}, True),
    ({"where": lambda asked: "orders" not in asked.topics}, False),
    ({"topic": "orders", "client_id": "other"}, False),
]


@pytest.mark.parametrize(("when", "is_meant"), MEANT, ids=lambda value: None if "where" in str(value) else str(value))
def test_a_rule_means_the_requests_that_meet_all_its_conditions(when: dict[str, Any], is_meant: bool) -> None:
    assert Matcher(rule(**when)).means(asked()) is is_meant


def test_a_rule_about_a_partition_means_no_request_about_this_topic_and_another_topics_partition() -> None:
    request = produce_request("orders")  # partition 0
    (other,) = produce_request("payments").topic_data
    other.partition_data[0].index = 1
    request.topic_data.append(other)
    meant = {
        (topic, number): Matcher(rule(topic=topic, partition=number)).means(asked(request))
        for topic in ("orders", "payments")
        for number in (0, 1)
    }
    assert meant == {("orders", 0): True, ("orders", 1): False, ("payments", 0): False, ("payments", 1): True}


def test_groups_and_transactional_ids_are_found_where_each_api_has_them() -> None:
    heartbeat = m.HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
    assert Matcher(rule("Heartbeat", group="bill*")).means(asked(heartbeat, version=3))
    end = m.EndTxnRequest(transactional_id="payments", producer_id=1, producer_epoch=0, committed=True)
    assert Matcher(rule("EndTxn", transactional_id="payments")).means(asked(end, version=1))
    assert not Matcher(rule("EndTxn", transactional_id="other")).means(asked(end, version=1))


def test_a_request_for_all_topics_is_meant_by_a_rule_about_one() -> None:
    matcher = Matcher(rule("Metadata", topic="orders"))
    assert matcher.means(asked(m.MetadataRequest(topics=None)))
    assert matcher.means(asked(m.MetadataRequest(topics=[]), version=0))
    assert not matcher.means(asked(m.MetadataRequest(topics=[]), version=1))


def test_requests_of_other_brokers_are_meant_only_by_a_rule_that_names_a_client() -> None:
    assert not Matcher(rule()).means(asked(port=0))
    assert Matcher(rule(client_id="*")).means(asked(port=0))


def test_the_nearest_miss_is_the_one_with_the_fewest_conditions_that_are_not_met() -> None:
    matcher = Matcher(rule(topic="orders", client_id="app-1"))
    for _ in range(3):
        assert not matcher.means(asked(produce_request("other"), client_id="app-2"))
    for _ in range(2):
        assert not matcher.means(asked(produce_request("order")))
    assert matcher.nearest() == (
        "5 Produce requests came; nearest, 2 of them: topic was 'order', the rule says topic 'orders'"
    )


def test_a_partition_that_is_missed_is_told() -> None:
    matcher = Matcher(rule(topic="orders", partition=3))
    matcher.means(asked())
    assert matcher.nearest() == "1 Produce request came: partition was 0, the rule says topic 'orders' and partition 3"


def test_a_rule_that_nothing_came_near_has_no_miss() -> None:
    assert Matcher(rule()).nearest() == ""


def test_a_function_that_fails_is_remembered_and_means_nothing() -> None:
    def fails(asked: Any) -> bool:
        raise ValueError("mistake")

    matcher = Matcher(rule(where=fails))
    assert not matcher.means(asked())
    assert repr(matcher.failure) == "ValueError('mistake')"


@pytest.mark.parametrize(
    ("text", "versions"),
    [("7", (7, 7)), ("<9", (0, 8)), ("<= 9", (0, 9)), (">4", (5, 1 << 15)), (">=4", (4, 1 << 15)), ("3-5", (3, 5))],
)
def test_versions_are_a_number_or_a_range(text: str, versions: tuple[int, int]) -> None:
    assert version_range(text) == versions


def test_only_a_star_and_a_question_mark_stand_for_other_characters() -> None:
    assert pattern("a.[b]*")("a.[b]cd")
    assert not pattern("a.b?")("aXbc")
    assert pattern("a")("a")

"""Groups that are stuck are named, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from kmini.protocol.errors import TopicAuthorizationFailed
from support.small_client import SmallClient
from support.transactional_clients import Confluent
from support.until import PATIENCE, until

from .conftest import Examine


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as running:
        for _ in range(5):
            running.produce("orders", b"placed")
        yield running


def test_a_group_without_members_whose_records_wait_is_named(diagnose: Examine, broker: Broker) -> None:
    broker.group("billing").commit({("orders", 0): 2})
    found = diagnose(broker.bootstrap_servers)["group-without-members"]
    assert found.text == "group billing has no members, and 3 records of orders wait for it"
    assert f"kmini group delete billing -b {broker.bootstrap_servers}" in found.change


def test_markers_of_transactions_and_what_is_aborted_are_no_records_that_wait(
    diagnose: Examine, broker: Broker
) -> None:
    broker.group("billing").commit({("orders", 0): 6})
    client = Confluent(broker.bootstrap_servers, "billing-1")
    for end in (client.commit, client.abort):
        client.begin()
        client.produce("orders", b"in a transaction")
        end()
    client.close()
    found = diagnose(broker.bootstrap_servers)
    assert broker.offsets("orders").high_watermark == 9
    assert "group-without-members" not in found
    assert "group billing has no members, and has committed orders-0@6" in found["group-at-the-end"].text
    broker.group("billing").commit({("orders", 0): 4})
    found = diagnose(broker.bootstrap_servers)
    assert found["group-without-members"].text == "group billing has no members, and 2 records of orders wait for it"


def test_where_records_are_not_looked_at_a_lag_is_one_of_offsets(
    diagnose: Examine, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kmini.doctor.waiting_records.MOST_OFFSETS", 2)
    broker.group("billing").commit({("orders", 0): 2})
    text = diagnose(broker.bootstrap_servers)["group-without-members"].text
    assert "3 records of orders wait for it (by offsets: markers that end transactions are among them" in text


def test_a_group_at_the_end_sees_nothing(diagnose: Examine, broker: Broker) -> None:
    broker.group("billing").commit({("orders", 0): 5})
    found = diagnose(broker.bootstrap_servers)["group-at-the-end"]
    assert "has committed orders-0@5, which is the end: a consumer of it sees nothing" in found.text
    command = f"kmini group reset billing orders --to-earliest -b {broker.bootstrap_servers} (--execute does it)"
    assert found.change.endswith(command)


def test_an_offset_whose_records_are_deleted_is_named(diagnose: Examine, broker: Broker) -> None:
    broker.group("billing").commit({("orders", 0): 1})
    broker.delete_records("orders", 4)
    found = diagnose(broker.bootstrap_servers)["committed-offset-deleted"]
    assert "group billing is at orders-0@1, and the log begins at 4: 3 records went before they were read" in found.text


def test_an_offset_beyond_the_end_is_named(diagnose: Examine, broker: Broker) -> None:
    broker.group("billing").commit({("orders", 0): 9})
    found = diagnose(broker.bootstrap_servers)["committed-offset-beyond-end"]
    assert "group billing is at orders-0@9, and the log ends at 5" in found.text


def test_a_member_without_a_partition_is_named(diagnose: Examine, broker: Broker) -> None:
    with SmallClient(broker.bootstrap_servers, "a") as one, SmallClient(broker.bootstrap_servers, "b") as two:
        two_members(broker, one, two)
        found = diagnose(broker.bootstrap_servers)["group-has-idle-members"]
    assert "group billing has 2 members and orders has 1 partition: 'b' has no partition" in found.text


def is_rebalancing(broker: Broker) -> bool:
    return broker.group("billing").describe().state == "PreparingRebalance"


def two_members(broker: Broker, one: SmallClient, two: SmallClient) -> None:
    """Two members of "billing", of which the first one has the only partition of "orders"."""
    one.subscribe("billing", "orders")
    two.join("billing", "orders", waits=False)
    until(lambda: is_rebalancing(broker))
    one.join("billing", "orders")
    two.receive_join(1)
    one.sync("billing", {one.member_id: [("orders", 0)], two.member_id: []})
    two.sync("billing", {})


def test_a_member_that_subscribes_to_a_missing_topic_is_named(diagnose: Examine, broker: Broker) -> None:
    with SmallClient(broker.bootstrap_servers, "reader") as client:
        client.subscribe("billing", "ordres")
        found = diagnose(broker.bootstrap_servers)["group-on-missing-topic"]
    assert found.text.startswith("consumer 'reader' of group billing subscribed to 'ordres', which does not exist")
    assert "nearest: 'orders'" in found.text


def test_a_group_that_goes_on_rebalancing_is_named(diagnose: Examine, broker: Broker) -> None:
    with SmallClient(broker.bootstrap_servers, "a") as one, SmallClient(broker.bootstrap_servers, "b") as two:
        one.subscribe("billing", "orders")
        two.join("billing", "orders", waits=False)
        until(lambda: is_rebalancing(broker))
        found = diagnose(broker.bootstrap_servers, timeout_ms=1_000 * PATIENCE)["group-rebalancing"]
    assert "group billing is PreparingRebalance" in found.text
    assert "waits for a member that does not join again" in found.text


def test_a_consumer_group_that_goes_on_reconciling_is_named(diagnose: Examine, broker: Broker) -> None:
    broker.create_topic("returns", 2)
    with SmallClient(broker.bootstrap_servers, "a") as one, SmallClient(broker.bootstrap_servers, "b") as two:
        one.beat("billing", "returns")
        two.beat("billing", "returns")
        broker.clock.advance("2s")
        two.beat("billing")
        assert broker.group("billing").describe().state == "Reconciling"
        found = diagnose(broker.bootstrap_servers, timeout_ms=1_000 * PATIENCE)
    assert "group billing is Reconciling: 'b' waits for returns-" in found["group-rebalancing"].text
    assert "members that do not give up their partitions" in found["group-rebalancing"].text
    assert "groups-not-described" not in found


def test_a_consumer_at_work_is_no_finding(diagnose: Examine, broker: Broker) -> None:
    with SmallClient(broker.bootstrap_servers, "a") as one:
        one.subscribe("billing", "orders")
        one.commit("billing", "orders", 2)
        found = diagnose(broker.bootstrap_servers)
    assert {finding.level for finding in found.values()} == {"ok"}
    assert found["groups-examined"].text == "1 group examined"


def test_groups_beyond_the_limit_are_told_as_a_sample(
    diagnose: Examine, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kmini.doctor.examination.MOST_GROUPS", 1)
    for name in ("a", "b"):
        broker.group(name).commit({("orders", 0): 5})
    found = diagnose(broker.bootstrap_servers)["groups-sampled"]
    assert found.text == "there are 2 groups: the first 1 by name were examined"


def test_groups_of_another_protocol_are_told_apart(diagnose: Examine, broker: Broker) -> None:
    broker.group("billing").commit({("orders", 0): 5})
    broker.faults.on("ListGroups").respond(of_the_new_protocol)
    assert "as 'billing'" in diagnose(broker.bootstrap_servers)["groups-not-described"].text


def of_the_new_protocol(request: Any, answer: Any) -> Any:
    for group in answer.groups:
        group.group_type = "share"
    return answer


def test_a_coordinator_that_does_not_list_its_groups_is_told_and_the_rest_goes_on(
    diagnose: Examine, broker: Broker
) -> None:
    broker.faults.on("ListGroups").drop()
    found = diagnose(broker.bootstrap_servers, timeout_ms=1_000 * PATIENCE)
    assert f"did not answer ListGroups within {PATIENCE} s" in found["question-unanswered"].text
    assert "replicas-in-sync" in found
    assert "clock-unknown" in found


def test_a_group_that_may_not_be_seen_is_no_failure(diagnose: Examine, broker: Broker) -> None:
    broker.group("billing").commit({("orders", 0): 5})
    broker.faults.on("DescribeGroups").error("GROUP_AUTHORIZATION_FAILED")
    found = diagnose(broker.bootstrap_servers)
    assert "GROUP_AUTHORIZATION_FAILED" in found["not-allowed-to-see"].text
    assert "fail" not in {finding.level for finding in found.values()}


def test_a_command_to_paste_quotes_the_name_of_a_group(diagnose: Examine, broker: Broker) -> None:
    broker.group("$(reboot)").commit({("orders", 0): 2})
    found = diagnose(broker.bootstrap_servers)["group-without-members"]
    assert "kmini group delete '$(reboot)' -b" in found.change


def test_many_groups_and_partitions_cost_few_requests(diagnose: Examine) -> None:
    with Broker(topics={f"topic-{number}": 2 for number in range(100)}, journal=True) as broker:
        for number in range(150):
            broker.group(f"group-{number}").commit({("topic-0", 0): 0})
        diagnose(broker.bootstrap_servers)
        asked = [entry for entry in broker.requests.all() if entry.client_id == "kmini-doctor"]
    assert len(asked) <= 20


def test_a_topic_that_is_hidden_from_this_user_is_not_said_to_be_missing(diagnose: Examine, broker: Broker) -> None:
    broker.create_topic("secret")
    broker.faults.on("Metadata").respond(without_secret)
    with SmallClient(broker.bootstrap_servers, "reader") as client:
        client.subscribe("billing", "secret")
        found = diagnose(broker.bootstrap_servers)
    assert "group-on-missing-topic" not in found
    assert "partitions of topic 'secret' (TOPIC_AUTHORIZATION_FAILED)" in found["not-allowed-to-see"].text


def without_secret(request: Any, answer: Any) -> Any:
    """As a broker answers a user without DESCRIBE for "secret": it is refused by name, and left out of a list."""
    if request.topics is None:
        answer.topics = [topic for topic in answer.topics if topic.name != "secret"]
    for topic in answer.topics:
        if topic.name == "secret":
            topic.error_code, topic.partitions = TopicAuthorizationFailed.code, []
    return answer


def test_a_consumer_of_an_internal_topic_reads_a_topic_that_exists(diagnose: Examine, broker: Broker) -> None:
    broker.group("other").commit({("orders", 0): 5})
    with SmallClient(broker.bootstrap_servers, "reader") as client:
        client.subscribe("billing", "__consumer_offsets")
        assert "group-on-missing-topic" not in diagnose(broker.bootstrap_servers)


def test_an_offset_that_is_deleted_up_to_the_end_is_not_said_to_be_the_end(diagnose: Examine, broker: Broker) -> None:
    broker.group("billing").commit({("orders", 0): 1})
    broker.delete_records("orders", 5)
    found = diagnose(broker.bootstrap_servers)
    assert "committed-offset-deleted" in found
    assert "group-at-the-end" not in found

"""What is gathered of a broker."""

from __future__ import annotations

import pytest

from kmini import Broker, Cluster
from kmini.testkit.report import gathering
from kmini.testkit.report.facts import Facts
from kmini.testkit.report.gathering import gather
from support.small_client import SmallClient
from support.turns import every_step_a_turn


def facts_of(broker: Broker | Cluster) -> Facts:
    return broker._thread.run(gather(broker._operations, broker._faults))


def test_topics_are_counted_by_what_became_of_their_records() -> None:
    with Broker(topics=["orders", "empty"], journal=True) as broker:
        broker.produce("orders", b"one")
        with SmallClient(broker.bootstrap_servers, "service") as service:
            service.begin("tx", "orders")
            assert service.produce("orders") == 0
            found = facts_of(broker)
    empty, orders = found.topics
    assert (empty.name, empty.was_written, empty.committed) == ("empty", False, 0)
    assert (orders.committed, orders.hidden, orders.was_written) == (1, 1, True)
    (partition,) = orders.partitions
    assert (partition.log_start_offset, partition.last_stable_offset, partition.high_watermark) == (0, 1, 2)
    assert partition.last is not None
    assert partition.last.value == b"one"
    assert [one.transactional_id for one in found.transactions] == ["tx"]
    assert [client.client_id for client in found.clients] == ["service"]


def test_groups_have_members_and_committed_offsets() -> None:
    with (
        Broker(topics=["orders"], journal=True) as broker,
        SmallClient(broker.bootstrap_servers, "billing-1") as client,
    ):
        client.subscribe("billing", "orders")
        client.commit("billing", "orders", 7)
        (group,) = facts_of(broker).groups
    assert [member.client_id for member in group.description.members] == ["billing-1"]
    assert group.offsets == {("orders", 0): 7}


def test_the_last_requests_are_looked_at_with_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MOST_REQUESTS", 2)
    with Broker(topics=["orders"], journal=True) as broker, SmallClient(broker.bootstrap_servers, "app") as client:
        for name in ("a", "b", "c"):
            client.metadata(name, creates=False)
        found = facts_of(broker)
    assert [entry.topics for entry in found.asked("Metadata")] == [("b",), ("c",)]
    assert found.after_s(found.requests[0]) == 0
    assert found.topic("orders") is not None
    assert found.topic("other") is None


def test_rules_are_facts_and_asking_makes_none() -> None:
    with Broker(topics=["orders"], journal=True) as broker:
        assert facts_of(broker).faults == ()
        assert broker._faults is None
        broker.faults.on("Produce", name="lost", topic="orders").error("NOT_LEADER_OR_FOLLOWER")
        (rule,) = facts_of(broker).faults
        assert (rule.name, rule.hits) == ("lost", 0)
        assert "never acted" in rule.why_not
        with SmallClient(broker.bootstrap_servers, "app") as client:
            assert client.produce("orders") == 6
        (rule,) = facts_of(broker).faults
        assert (rule.hits, rule.why_not) == (1, "")


def test_the_addresses_that_clients_are_told_are_facts() -> None:
    with Broker(journal=True) as broker:
        assert facts_of(broker).told == ()
        broker.advertise("kafka", 29092)
        assert facts_of(broker).told == ("kafka:29092",)
        broker.advertise("::1", 29092)
        assert facts_of(broker).told == ("[::1]:29092",)
        assert facts_of(broker).addresses == (broker.bootstrap_servers,)


def test_topics_that_a_request_has_created_are_told_from_others_until_a_reset() -> None:
    with Broker(topics=["orders"], journal=True) as broker, SmallClient(broker.bootstrap_servers, "app") as client:
        client.metadata("ordres")
        client.metadata("missing", creates=False)
        created = {topic.name: topic.auto_created_by for topic in facts_of(broker).topics}
        assert created == {"orders": "", "ordres": "client 'app'"}
        broker.reset()
        broker.create_topic("ordres")
        assert {topic.auto_created_by for topic in facts_of(broker).topics} == {""}


def test_members_that_have_gone_are_facts_with_the_reason() -> None:
    with (
        Broker(topics=["orders"], journal=True) as broker,
        SmallClient(broker.bootstrap_servers, "reader-1") as one,
        SmallClient(broker.bootstrap_servers, "reader-2") as two,
        SmallClient(broker.bootstrap_servers, "reader-3") as three,
    ):
        one.subscribe("billing", "orders")
        one.leave("billing")
        two.subscribe("billing", "orders")
        two.leave("billing", "x" * 1_000)
        three.subscribe("billing", "orders")
        broker.clock.advance("31s", liveness=True)
        (group,) = facts_of(broker).groups
    gone = [(one.client_id, one.generation, one.reason, one.is_expelled) for one in group.departures]
    assert gone == [
        ("reader-1", 1, "", False),
        ("reader-2", 3, "x" * 255, False),
        ("reader-3", 5, "no heartbeat for session.timeout.ms=30000", True),
    ]
    assert {one.max_poll_interval_ms for one in group.departures} == {60_000}


def test_a_group_of_a_cluster_has_its_coordinator_also_when_one_broker_is_left() -> None:
    with Cluster(brokers=2, topics=["orders"]) as cluster:
        cluster.move_coordinator("billing", 1)
        cluster.group("billing").commit({("orders", 0): 0})
        cluster.kill(2)
        (group,) = facts_of(cluster).groups
    assert group.coordinator == 1


def test_requests_and_partitions_are_read_in_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(topics={"orders": 5}, journal=True) as broker, SmallClient(broker.bootstrap_servers, "app") as client:
        client.metadata("orders", creates=False)
        count = len(facts_of(broker).requests)
        turns = every_step_a_turn(monkeypatch)
        assert [len(topic.partitions) for topic in facts_of(broker).topics] == [5]
        assert len(turns) >= count + 5


def test_a_topic_that_is_deleted_meanwhile_is_no_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(topics=["audit", "orders"]) as broker:
        operations = broker._operations
        every_step_a_turn(monkeypatch, lambda: operations.delete_topic("orders"))
        assert [topic.name for topic in facts_of(broker).topics] == ["audit"]

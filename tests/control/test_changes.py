"""What the event streams of the control API tell: each kind of change of a broker and of a cluster.

They go through control/log_events.py and control/request_events.py, too.
"""

from __future__ import annotations

import threading

import pytest

import kmini
from kmini.control import events
from kmini.control.connected import ConnectedBroker, ConnectedCluster
from support.control_api import ControlApi, control_api
from support.event_source import Open, client, streams


def test_records_are_told_with_their_offsets_and_without_their_payload(stream: Open, broker: ConnectedBroker) -> None:
    broker.produce("orders", b"before")
    source = stream("types=records")
    broker.topic("orders").produce(b"secret", partition=1)
    name, data = source.next()
    assert name == "records"
    assert data == {"topic": "orders", "partition": 1, "from": 0, "to": 0, "high_watermark": 1}
    broker.produce("orders", b"secret")
    assert source.next()[1] == {"topic": "orders", "partition": 0, "from": 1, "to": 1, "high_watermark": 2}


def test_a_burst_is_told_whole(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("types=records")
    for _ in range(50):
        broker.produce("orders", b"v")
    following = 0
    while following < 50:
        name, data = source.next()
        assert (name, data["from"]) == ("records", following)
        following = data["to"] + 1


def test_topics_are_told_created_altered_rolled_compacted_and_deleted(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("types=topics")
    broker.create_topic("users", 1, config={"cleanup.policy": "compact"})
    created = {"topic": "users", "partitions": 1, "replication_factor": 1, "is_internal": False}
    assert source.next() == ("topic-created", created)
    for value in (b"1", b"2"):
        broker.produce("users", value, key=b"k")
    broker.topic("users").compact()
    assert source.find("segments-rolled", topic="users")["active_base_offset"] == 2
    assert source.find("compacted", topic="users")["clean_up_to"] == 2
    broker.produce("orders", b"v")
    broker.topic("orders").delete_records(1, partition=0)
    assert source.find("log-start-moved", topic="orders")["to"] == 1
    broker.delete_topic("users")
    assert source.find("topic-deleted") == {"topic": "users"}


def test_answered_requests_are_told_in_short(stream: Open, server: ControlApi, broker: ConnectedBroker) -> None:
    source = stream("types=requests")
    with client(server) as app:
        assert app.produce("orders") == 0
        app.metadata("nowhere", creates=False)
        data = source.find("request", api="Produce")
        assert (data["client_id"], data["topics"], data["errors"]) == ("app", {"orders": {"0": 1}}, [])
        assert data["ms"] > 0
        assert source.find("request", api="Metadata")["errors"] == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_request_is_told_when_it_is_answered(stream: Open, server: ControlApi, broker: ConnectedBroker) -> None:
    held = broker.faults.on("Produce", name="held").hold()
    source = stream("types=requests,faults")
    with client(server, "held") as slow, client(server, "quick") as quick:
        thread = threading.Thread(target=slow.produce, args=("orders",))
        thread.start()
        held.arrived()
        assert source.find("rule-held", rule="held")["new"] == 1
        quick.metadata("orders")
        assert source.find("request")["client_id"] == "quick"
        held.release()
        assert source.find("request", api="Produce")["rules"] == ["held"]
        thread.join()


def test_groups_are_told_with_state_and_generation(stream: Open, server: ControlApi, broker: ConnectedBroker) -> None:
    source = stream("types=groups")
    with client(server) as app:
        app.subscribe("billing", "orders")
        stable = source.find("group", group="billing", state="Stable")
        assert (stable["generation"], stable["members"]) == (1, 1)
        app.leave("billing")
        empty = source.find("group", group="billing", state="Empty")
        assert (empty["was"]["state"], empty["members"]) == ("Stable", 0)


def test_consumer_groups_are_told_with_their_kind_and_group_epoch(
    stream: Open, server: ControlApi, broker: ConnectedBroker
) -> None:
    source = stream("types=groups")
    with client(server) as app:
        app.beat("shipping", "orders")
        stable = source.find("group", group="shipping", state="Stable")
        assert (stable["kind"], stable["generation"], stable["members"]) == ("consumer", 2, 1)
        app.beat("shipping", leaves=True)
        empty = source.find("group", group="shipping", state="Empty")
        assert (empty["was"]["kind"], empty["was"]["state"], empty["generation"]) == ("consumer", "Stable", 3)


def test_each_transaction_is_told_however_short(stream: Open, server: ControlApi, broker: ConnectedBroker) -> None:
    with client(server) as app:
        app.begin("tx-1", "orders")
        app.end()
        source = stream("types=transactions")
        for commits in (True, False):
            app.begin("tx-1", "orders")
            assert source.find("transaction-began")["transactional_id"] == "tx-1"
            assert app.end(commits=commits) == 0
            ended = source.find("transaction-ended", transactional_id="tx-1")
            assert ended["outcome"] == ("commit" if commits else "abort")


def test_moves_of_the_clock_are_told(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("types=clock")
    broker.clock.advance("7d")
    ahead_ms = source.find("clock-moved")["ahead_ms"]
    assert abs(ahead_ms - 7 * 86_400_000) <= 1  # the wall clock may go on by one in between
    broker.clock.turn_back("1h")
    data = source.find("clock-moved")
    assert (data["by_ms"], data["ahead_ms"]) == (-3_600_000, ahead_ms - 3_600_000)


def test_rules_are_told_set_hit_and_removed(stream: Open, server: ControlApi, broker: ConnectedBroker) -> None:
    source = stream("types=faults")
    rule = broker.faults.on("Produce", name="lost").error("NOT_LEADER_OR_FOLLOWER")
    assert source.find("rule-set") == {"rule": "lost"}
    with client(server) as app:
        app.produce("orders")
    assert source.find("rule-hit") == {"rule": "lost", "hits": 1, "new": 1}
    rule.remove()
    assert source.find("rule-removed")["hits"] == 1


def test_clients_are_told_connected_and_disconnected(stream: Open, server: ControlApi, broker: ConnectedBroker) -> None:
    source = stream("types=clients")
    with client(server, "app") as app:
        app.metadata("orders")
        data = source.find("client-connected", client_id="app")
    gone = source.find("client-disconnected", client_id="app")
    assert gone["address"] == data["address"]


def test_a_client_that_comes_and_goes_between_two_looks_is_told(
    stream: Open, server: ControlApi, broker: ConnectedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LOOK_S", 1)
    source = stream("types=clients")
    for number in range(3):
        with client(server, f"short-{number}") as app:
            app.metadata("orders")
    for number in range(3):
        assert source.find("client-connected")["client_id"] == f"short-{number}"
        assert source.find("client-disconnected")["client_id"] == f"short-{number}"


def test_a_stream_about_a_topic_is_told_of_no_other(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("topic=orders&types=records,topics,clock")
    broker.create_topic("other")
    broker.produce("other", b"v")
    broker.produce("orders", b"v")
    assert source.next()[1]["topic"] == "orders"
    broker.clock.advance("1s")
    assert source.next()[0] == "clock-moved", "what is about no topic is told"


@pytest.mark.parametrize("kind", ["topic", "client", "group"])
def test_a_hostile_name_forges_no_event(stream: Open, server: ControlApi, broker: ConnectedBroker, kind: str) -> None:
    name = 'x\n\nid: 1\nevent: forged\ndata: {"a": 1}\r\n\r\n\u2028\x00"'
    source = stream("types=requests,groups,clients")
    with client(server, name if kind == "client" else "app") as app:
        if kind == "group":
            app.subscribe(name, "orders")
        app.metadata(name if kind == "topic" else "orders", creates=False)
    member = {"topic": "topics", "client": "client_id", "group": "group"}[kind]
    while (found := source.next())[1].get(member) not in (name, {name: {}}):
        assert found[0] in ("request", "client-connected", "client-disconnected", "group")


def test_the_events_of_a_cluster_tell_leaders_isr_and_brokers() -> None:
    with control_api(3, topics={}) as server, kmini.connect(server.url) as cluster, streams(server) as opened:
        assert isinstance(cluster, ConnectedCluster)
        cluster.create_topic("orders", 1, replication_factor=3)
        leader = cluster.leader("orders")
        source = opened("types=brokers")
        cluster.kill(leader)
        seen = [source.next() for _ in range(3)]
        names = {name for name, _ in seen}
        assert names == {"broker-down", "leader-changed", "isr-changed"}
        assert next(data for name, data in seen if name == "leader-changed")["was"] == leader
        cluster.restart(leader)
        source.find("broker-up", broker=leader)
        assert leader in source.find("isr-changed")["isr"]

"""`kmini trace` in front of Apache Kafka: clients are served as without it, and fault rules act there, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kmini.trace.trace_file import TraceWriter, read_exchanges
from support.client_adapters import PYTHON_CLIENTS, Java, create_topic, why_unavailable
from support.java_clients import JavaClients
from support.java_peer import JavaPeer
from support.server_process import ServerProcess
from support.traced import traced
from support.traced_clients import commit_in_transactions, read_in_a_group, write_and_read
from support.transactional_clients import CLIENTS

Names = Callable[[str], str]


@pytest.mark.parametrize("name", PYTHON_CLIENTS)
def test_a_client_is_served_through_the_proxy_and_stays_on_it(
    apache_kafka_server: ServerProcess, topic_names: Names, name: str
) -> None:
    if reason := why_unavailable(name):
        pytest.skip(reason)
    with traced(apache_kafka_server.bootstrap_servers) as proxy:
        topic = topic_names("traced")
        write_and_read(PYTHON_CLIENTS[name](), proxy.bootstrap_servers, topic)
        assert len(read_in_a_group(name, proxy.bootstrap_servers, topic)) >= 10
        # A partition that was made a moment ago may have no leader yet: then the client writes again.
        written = [one.entry for one in proxy.of("Produce") if not one.entry.errors]
        assert sum(place.records or 0 for entry in written for place in entry.partitions) == 600
        assert proxy.of("JoinGroup") or proxy.of("ConsumerGroupHeartbeat")


@pytest.mark.parametrize("name", CLIENTS)
def test_transactions_go_through_the_proxy(apache_kafka_server: ServerProcess, topic_names: Names, name: str) -> None:
    pytest.importorskip({"confluent-kafka": "confluent_kafka", "kafka-python": "kafka"}.get(name, name))
    with traced(apache_kafka_server.bootstrap_servers) as proxy:
        commit_in_transactions(CLIENTS[name], proxy.bootstrap_servers, topic_names("traced"))
        assert proxy.of("EndTxn")


def test_kafkas_own_clients_are_served_through_the_proxy(
    apache_kafka_server: ServerProcess, java: JavaPeer, topic_names: Names, tmp_path: Path
) -> None:
    clients = JavaClients(java)
    with traced(apache_kafka_server.bootstrap_servers) as proxy:
        servers = proxy.bootstrap_servers
        write_and_read(Java(java, tmp_path), servers, topic_names("traced"))
        topic = topic_names("traced")
        create_topic(servers, topic)
        with (
            clients.producer(servers, transactional_id=f"{topic}-t") as producer,
            clients.consumer(servers, group_id=f"{topic}-group", isolation_level="read_committed") as consumer,
        ):
            producer.init_transactions()
            producer.begin()
            producer.send(topic, "placed")
            producer.commit()
            consumer.subscribe(topic)
            assert consumer.poll_some() == ["placed"]
            consumer.commit(topic, 1)
            assert consumer.committed(topic) == 1
        assert {one.entry.topics for one in proxy.of("Produce")} >= {(topic,)}
        assert proxy.of("EndTxn")
        assert not [one for one in proxy.exchanges if one.note and "does not decode" in one.note]


def leader_moved(topic: str, *acts: dict[str, Any], times: int) -> list[dict[str, Any]]:
    return [{"name": "rule", "when": {"api": ["Produce"], "topic": topic}, "which": {"times": times}, "do": [*acts]}]


def test_a_producer_retries_what_fails_twice_in_front_of_apache_kafka(
    apache_kafka_server: ServerProcess, java: JavaPeer, topic_names: Names
) -> None:
    topic = topic_names("traced")
    create_topic(apache_kafka_server.bootstrap_servers, topic)
    rules = leader_moved(topic, {"error": "NOT_LEADER_OR_FOLLOWER"}, times=2)
    with (
        traced(apache_kafka_server.bootstrap_servers, rules) as proxy,
        JavaClients(java).producer(proxy.bootstrap_servers) as producer,
    ):
        assert producer.send(topic, "placed") == 0
        errors = [one.entry.errors for one in proxy.shown("Produce", 3)]
        assert errors == [("NOT_LEADER_OR_FOLLOWER",)] * 2 + [()]


def test_an_idempotent_producer_writes_once_although_the_answer_is_lost_and_the_next_one_late(
    apache_kafka_server: ServerProcess, java: JavaPeer, topic_names: Names
) -> None:
    topic = topic_names("traced")
    create_topic(apache_kafka_server.bootstrap_servers, topic)
    lost = leader_moved(topic, {"disconnect": True, "applied": True}, times=1)
    late = [{"name": "late", "when": {"api": ["Produce"]}, "do": [{"delay": "50ms", "when": "after"}]}]
    with (
        traced(apache_kafka_server.bootstrap_servers, lost + late) as proxy,
        JavaClients(java).producer(proxy.bootstrap_servers) as producer,
    ):
        assert producer.send(topic, "placed") == 0
        assert producer.send(topic, "paid") == 1
        written = [one.entry for one in proxy.shown("Produce", 3)]
        assert written[0].closed == "fault rule 'rule'"
        assert all(one.ms is not None and one.ms >= 50 for one in written)


def test_what_was_traced_is_read_again(apache_kafka_server: ServerProcess, topic_names: Names, tmp_path: Path) -> None:
    path = tmp_path / "orders.kmtrace"
    with traced(apache_kafka_server.bootstrap_servers) as proxy:
        create_topic(proxy.bootstrap_servers, topic_names("traced"))
        proxy.shown("CreateTopics")
        shown = [*proxy.exchanges]
    with path.open("w", encoding="utf-8") as file:
        writer = TraceWriter(file, apache_kafka_server.bootstrap_servers)
        for one in shown:
            writer.write(one)
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["kmini trace"] == 1
    with path.open(encoding="utf-8") as file:
        again = [*read_exchanges(file)]
    assert [(one.entry.api, one.entry.topics, one.entry.errors) for one in again] == [
        (one.entry.api, one.entry.topics, one.entry.errors) for one in shown
    ]

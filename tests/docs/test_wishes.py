"""The table of wishes in docs/testing/README.md: each row has a test here, which does what the row says and gets it."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from kmini import Broker, Clock, Faults, PortTaken
from kmini.protocol.messages.api_versions import ApiVersionsRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import Wire

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing" / "README.md"

Test = TypeVar("Test", bound=Callable[..., None])

WISHES: dict[str, str] = {}
"""The name of the test of each row that has one."""

NOISELESS = {"log_level": 0}
PRICES = "prices"


def wish(row: str) -> Callable[[Test], Test]:
    """The test shows what the row of the table with these words promises."""

    def note(test: Test) -> Test:
        WISHES[row] = test.__name__
        return test

    return note


def test_each_row_of_the_table_has_a_test() -> None:
    table = PAGE.read_text(encoding="utf-8").partition('| "…" | |')[2]
    rows = re.findall(r"^\| (?!---)(.+?) \| ", table.partition("|---|---|\n")[2], re.MULTILINE)
    assert len(rows) > 20
    assert sorted(rows) == sorted(WISHES)


def producer(broker: Broker, **config: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, **NOISELESS, **config})


class Billing:
    """The code under test: consumes orders on threads, and commits each."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, **config: Any) -> None:
        own = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False, **config}
        fast = {"heartbeat.interval.ms": 50, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
        consumer = Consumer({"bootstrap.servers": self._servers, **NOISELESS, **fast, **own})
        self._threads.append(threading.Thread(target=self._run, args=(consumer,)))
        self._threads[-1].start()

    def _run(self, consumer: Consumer) -> None:
        consumer.subscribe(["orders"])
        while not self._is_over.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                consumer.commit(message, asynchronous=False)
        consumer.close()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def billing(kafka_broker: Broker) -> Iterator[Billing]:
    service = Billing(kafka_broker.bootstrap_servers)
    yield service
    service.stop()


@wish("It bootstraps, and then connects to the wrong host")
def test_clients_are_told_an_address_that_they_reach(kafka_broker: Broker) -> None:
    def told() -> str:
        with Wire(kafka_broker.bootstrap_servers) as wire:
            (one,) = wire.ask(MetadataRequest(topics=[])).brokers
        return f"{one.host}:{one.port}"

    assert told() == kafka_broker.bootstrap_servers
    kafka_broker.advertise("proxy.example", 19_092)
    assert told() == "proxy.example:19092"
    assert kafka_broker.report().startswith("LIKELY  clients bootstrapped at ")
    assert "never connected to the advertised address proxy.example:19092" in kafka_broker.report()


@wish("Starting Kafka takes longer than my tests")
def test_a_broker_takes_a_tenth_of_a_second_of_work_to_start() -> None:
    took_s = []
    for _ in range(3):
        began_s = time.process_time()  # of other work on this machine it knows nothing
        with Broker(topics={"orders": 3}):
            took_s.append(time.process_time() - began_s)
    assert min(took_s) < 0.1


@wish("Messages of the previous test are still there")
@pytest.mark.parametrize("order", [b"41", b"42"])
def test_each_test_finds_what_is_its_own(kafka_broker: Broker, kafka_topic: str, order: bytes) -> None:
    assert kafka_broker.topics() == [kafka_topic]
    assert kafka_broker.groups() == []
    kafka_broker.topic(kafka_topic).produce(order)
    kafka_broker.reset()
    assert kafka_broker.topics() == []


@wish("The fake does not behave like Kafka")
def test_the_same_test_runs_on_another_broker(tmp_path: Path) -> None:
    test = """
    def test_an_order(kafka_broker, kafka_topic):
        with kafka_broker.topic(kafka_topic).expect(count=1, key=b"42"):
            kafka_broker.topic(kafka_topic).produce(b"placed", key=b"42")

    def test_faults(kafka_broker, kafka_faults):
        raise AssertionError("Kafka has none")
    """
    (tmp_path / "test_shop.py").write_text(test.replace("\n    ", "\n"))
    with Broker() as elsewhere:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly"]
        command += [f"--kafka-bootstrap={elsewhere.bootstrap_servers}"]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False).stdout
    assert "1 passed, 1 skipped" in told
    assert "1 skipped (faults 1)\n" in told


@wish("The container does not start now and then; no Docker here")
def test_it_needs_nothing_but_python() -> None:
    program = "from kmini import Broker\nwith Broker() as broker: print(broker.produce('orders', b'one'))"
    environment = {"PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (told.stdout, told.stderr) == ("0\n", "")


@wish("CreateTopics has answered, and the topic is not ready")
def test_a_topic_is_ready_when_it_is_there(kafka_broker: Broker, kafka_faults: Faults) -> None:
    kafka_broker.create_topic("orders", partitions=3)
    with Wire(kafka_broker.bootstrap_servers) as wire:
        for number in range(10):
            request = MetadataRequest(topics=[MetadataRequest.Topic(name=f"orders-{number}")])
            (topic,) = wire.ask(request, 9).topics
            assert (topic.error_code, [one.leader_id for one in topic.partitions]) == (0, [1])
    missing = kafka_faults.unknown_topic_until("orders", times=3)
    client = producer(kafka_broker, **{"topic.metadata.refresh.fast.interval.ms": 10})
    client.produce("orders", b"placed")
    assert client.flush(30) == 0
    missing.assert_hit(times=3)


@wish("Topics have to exist before my service starts")
@pytest.mark.kafka(topics={"orders": 3}, config={"auto.create.topics.enable": False})
def test_topics_of_the_marker_are_there(kafka_broker: Broker) -> None:
    assert len(producer(kafka_broker).list_topics(timeout=30).topics["orders"].partitions) == 3


@wish("Let me make the broker fail, always in the same way")
def test_a_fault_comes_as_often_as_it_should(kafka_broker: Broker, kafka_faults: Faults) -> None:
    kafka_broker.create_topic("orders")
    moved = kafka_faults.on("Produce").times(2).error("NOT_LEADER_OR_FOLLOWER")
    client = producer(kafka_broker, **{"retry.backoff.ms": 5})
    client.produce("orders", b"placed")
    assert client.flush(30) == 0
    moved.assert_hit(times=2)
    assert [entry.errors for entry in kafka_broker.requests.all("Produce")] == [("NOT_LEADER_OR_FOLLOWER",)] * 2 + [()]


@wish("Transactions need secret settings on one broker")
def test_transactions_need_no_settings(kafka_broker: Broker) -> None:
    client = producer(kafka_broker, **{"transactional.id": "billing-1"})
    client.init_transactions(30)
    client.begin_transaction()
    client.produce("orders", b"placed")
    client.flush(30)
    assert [one.transactional_id for one in kafka_broker.transactions.open()] == ["billing-1"]
    client.commit_transaction(30)
    kafka_broker.transactions.wait_ended("billing-1")
    assert len(kafka_broker.topic("orders").records()) == 1


@wish("Every join of a group takes three seconds")
@pytest.mark.kafka(topics={"orders": 2})
def test_a_group_does_not_wait_for_further_members(kafka_broker: Broker, billing: Billing) -> None:
    for _ in range(2):
        billing.start()
    group = kafka_broker.group("billing").stable(members=2, timeout_ms=30_000)
    assert [len(member.assignment) for member in group.members] == [1, 1]
    first = kafka_broker.requests.all("JoinGroup")[0]
    assert first.ms is not None
    assert first.ms < 2_000


@wish("A dead consumer blocks its group")
@pytest.mark.kafka(topics=["orders"], config={"kmini.group.expel.on.disconnect": True})
def test_a_dead_consumer_leaves(kafka_broker: Broker, billing: Billing) -> None:
    group = kafka_broker.group("billing")
    billing.start(**{"client.id": "billing-1"})
    first = group.stable(members=1)
    with kafka_broker.faults.on("connect").refuse():
        kafka_broker.disconnect("billing-1")
        group.stable(members=0)
    again = group.stable(members=1, timeout_ms=30_000)
    group.expel("billing-1")
    last = group.stable(members=1, timeout_ms=30_000)
    assert len({one.members[0].member_id for one in (first, again, last)}) == 3


@wish("Reading back what was produced is flaky")
def test_records_are_waited_for_and_looked_at_in_the_log(kafka_broker: Broker) -> None:
    client = producer(kafka_broker)
    with kafka_broker.topic("orders").expect(count=1, key=b"42") as records:
        client.produce("orders", b'{"state": "placed"}', key="42")
    assert records[0].json() == {"state": "placed"}
    with pytest.raises(AssertionError, match="b'42': "):  # what was there
        kafka_broker.topic("orders").wait_for(1, key=b"43", timeout_ms=1)
    kafka_broker.requests.assert_none("Fetch")


@wish("Has my consumer handled everything?")
def test_caught_up_returns_when_all_is_committed(kafka_broker: Broker, billing: Billing) -> None:
    kafka_broker.topic("orders").produce(b"placed")
    with pytest.raises(AssertionError, match="1 record of orders left to commit"):
        kafka_broker.group("billing").caught_up("orders", timeout_ms=1)
    billing.start()
    kafka_broker.group("billing").caught_up("orders", timeout_ms=30_000)
    assert kafka_broker.group("billing").lag() == {("orders", 0): 0}


@wish("Ports collide, workers collide")
def test_a_port_is_free_and_read_back_or_fixed() -> None:
    with Broker() as one, Broker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        port = int(one.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(PortTaken, match=str(port)):
            Broker(port=port).start()
    with Broker(port=port) as fixed:
        assert fixed.bootstrap_servers == f"127.0.0.1:{port}"


@wish("Restart it on the same port, with or without its data")
def test_a_broker_starts_again_with_or_without_its_data(kafka_broker: Broker) -> None:
    address = kafka_broker.bootstrap_servers
    kafka_broker.topic("orders").produce(b"placed")
    kafka_broker.stop()
    kafka_broker.start()
    kafka_broker.crash()
    assert [record.text() for record in kafka_broker.topic("orders").records()] == ["placed"]
    kafka_broker.reset()
    assert kafka_broker.topics() == []
    assert kafka_broker.bootstrap_servers == address


@wish("Compaction, retention and time do not happen in a test")
@pytest.mark.kafka(topics={"orders": 1, "users": {"config": {"cleanup.policy": "compact"}}})
def test_time_and_compaction_come_when_they_are_called(kafka_broker: Broker, kafka_clock: Clock) -> None:
    users = kafka_broker.topic("users")
    for name in (b"Alice", b"Alicia"):
        users.produce(name, key=b"1")
    kafka_broker.topic("orders").produce(b"placed")
    kafka_clock.advance("8d")  # log.retention.hours is a week
    assert kafka_broker.topic("orders").records() == []
    users.compact()
    assert [record.text() for record in users.records()] == ["Alicia"]


@wish("SASL and access rules are a project of their own")
def test_a_login_is_one_setting_and_its_failure_one_fault() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
        ),
        "connection.failed.authentication.delay.ms": "10",
    }
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "wonderland",
        "reconnect.backoff.ms": 10,
    }
    told: list[int] = []
    with Broker(topics=["orders"], config=config) as broker:
        refused = broker.faults.on("SaslAuthenticate").once().error("SASL_AUTHENTICATION_FAILED")
        client = producer(broker, error_cb=lambda error: told.append(error.code()), **login)
        client.produce("orders", b"placed")
        assert client.flush(30) == 0
        refused.assert_hit(times=1)
        assert KafkaError._AUTHENTICATION in told
        assert len(broker.topic("orders").records()) == 1


@wish("My client meets older brokers, too")
@pytest.mark.kafka(as_version="3.9")
def test_a_broker_is_of_an_older_release(kafka_broker: Broker) -> None:
    with Wire(kafka_broker.bootstrap_servers) as wire:
        ranges = {one.api_key: one.max_version for one in wire.ask(ApiVersionsRequest(), 2).api_keys}
    assert ranges[0] == 11  # Produce 12 came with Kafka 4.0
    client = producer(kafka_broker)
    client.produce("orders", b"placed")
    assert client.flush(30) == 0


@wish("Megabytes of logs, and no reason")
def test_a_report_is_short_and_begins_with_the_reason(
    kafka_broker: Broker, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        client = producer(kafka_broker)
        for number in range(200):
            client.produce("ordres", b"placed", key=str(number))
        assert client.flush(30) == 0
    assert caplog.records == []
    kafka_broker.create_topic("orders")
    lines = kafka_broker.report().splitlines()
    assert len(lines) <= 40
    assert lines[0].startswith("LIKELY  ")
    assert "'orders'" in " ".join(lines[:3])


@wish("A second container for the schema registry")
def test_serializers_have_a_registry_that_checks(kafka_broker: Broker, kafka_registry_url: str) -> None:
    context = SerializationContext(PRICES, MessageField.VALUE)
    schema = '{"type": "record", "name": "Price", "fields": [{"name": "cents", "type": "int"}]}'
    with SchemaRegistryClient({"url": kafka_registry_url}) as registry:
        client = producer(kafka_broker)
        client.produce(PRICES, AvroSerializer(registry, schema)({"cents": 120}, context))
        assert client.flush(30) == 0
        (record,) = kafka_broker.records(PRICES)
        assert AvroDeserializer(registry)(record.value, context) == {"cents": 120}
        with pytest.raises(SchemaRegistryError, match="incompatible"):
            registry.register_schema("prices-value", Schema(schema.replace("cents", "euros"), "AVRO"))


@wish("What did my client ask at all?")
def test_requests_are_told(kafka_broker: Broker) -> None:
    client = producer(kafka_broker, **{"client.id": "order-service"})
    client.produce("orders", b"placed")
    assert client.flush(30) == 0
    (request,) = kafka_broker.requests.assert_some("Produce", topic="orders")
    assert (request.client_id, request.partitions[0].records, request.errors) == ("order-service", 1, ())


@wish("The same data for many tests")
def test_a_seed_is_loaded_once_and_restored(kafka_broker: Broker, tmp_path: Path) -> None:
    rows = [{"topic": PRICES, "key": "apple", "value": 100}, {"topic": PRICES, "key": "pear", "value": 120}]
    (tmp_path / "seed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert kafka_broker.load(tmp_path / "seed.jsonl") == {PRICES: 2}
    kafka_broker.group("billing").commit({(PRICES, 0): 1})
    seed = kafka_broker.snapshot()
    for price in (b"110", b"120"):
        kafka_broker.restore(seed)
        kafka_broker.topic(PRICES).produce(price, key=b"apple")
        assert [record.json() for record in kafka_broker.topic(PRICES).records(key=b"apple")] == [100, int(price)]
        assert kafka_broker.group("billing").offsets() == {(PRICES, 0): 1}

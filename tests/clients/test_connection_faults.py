"""What real client libraries do when connections break, are refused, expire or are throttled."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from support.librdkafka import impatient
from support.until import until

confluent = pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")
aiokafka = pytest.importorskip("aiokafka")

TIMEOUT_S = 30.0
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
WITH_PASSWORDS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
}


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(config={"group.initial.rebalance.delay.ms": 0}, journal=True) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    """A broker with the topic `orders`, which has one record, and no rule."""
    running.reset()
    running.create_topic("orders", 1)
    running.produce("orders", b"placed")
    return running


def settings(broker: Broker, **config: Any) -> dict[str, Any]:
    return impatient(broker.bootstrap_servers, **config)


def producer(broker: Broker, **config: Any) -> Any:
    return confluent.Producer(settings(broker, linger_ms=0, **config))


@contextlib.contextmanager
def consumer(broker: Broker, **config: Any) -> Iterator[Any]:
    """A consumer of the topic `orders`, from its beginning."""
    waiting = {"group_id": "billing", "fetch_wait_max_ms": 20, "fetch_error_backoff_ms": 5}
    client = confluent.Consumer(settings(broker, **waiting, **config))
    client.assign([confluent.TopicPartition("orders", 0, 0)])
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def kafka_python_consumer(broker: Broker, **config: Any) -> Iterator[Any]:
    patience = {"fetch_max_wait_ms": 20, "reconnect_backoff_ms": 5, "retry_backoff_ms": 5}
    client = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **patience, **config
    )
    try:
        client.assign([kafka.TopicPartition("orders", 0)])
        yield client
    finally:
        client.close()


def next_value(client: Any) -> bytes:
    """The value of the next record; errors before it are what the library tells and goes on from."""
    while (found := until(lambda: client.poll(0.05), timeout_s=TIMEOUT_S, poll_s=0)).error():
        pass
    value: bytes = found.value()
    return value


# --- answers that break


DAMAGE: dict[str, Any] = {
    "disconnect": lambda draft: draft.disconnect(),
    "rst": lambda draft: draft.disconnect(rst=True),
    "truncate": lambda draft: draft.truncate(20),
    "trickle": lambda draft: draft.trickle("2KB/s"),
    "correlation_id": lambda draft: draft.corrupt("correlation_id"),
    "length": lambda draft: draft.corrupt("length"),
    "garbage": lambda draft: draft.corrupt("garbage"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_kafka_python_fetches_again_over_a_new_connection(broker: Broker, damage: str) -> None:
    rule = DAMAGE[damage](broker.faults.on("Fetch", topic="orders").once())
    # short: the client asks again, as often as it has to
    with kafka_python_consumer(broker, request_timeout_ms=500) as client:
        assert next(client).value == b"placed"
    rule.assert_hit(times=1)


@pytest.mark.parametrize("damage", DAMAGE)
async def test_aiokafka_fetches_again_over_a_new_connection(broker: Broker, damage: str) -> None:
    rule = await DAMAGE[damage](broker.aio.faults.on("Fetch", topic="orders").once())
    client = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        retry_backoff_ms=5,
        # short: the client asks again, as often as it has to
        request_timeout_ms=500,
    )
    async with client:
        client.assign([aiokafka.TopicPartition("orders", 0)])
        assert (await client.getone()).value == b"placed"
    rule.assert_hit(times=1)


def test_confluent_gives_up_an_answer_that_is_larger_than_it_takes(broker: Broker) -> None:
    told: list[str] = []
    rule = broker.faults.on("Fetch", topic="orders").once().corrupt("length")
    with consumer(broker, error_cb=lambda error: told.append(error.name())) as client:
        assert next_value(client) == b"placed"
        until(lambda: (client.poll(0.01), "_BAD_MSG" in told)[1], lambda: told)
    rule.assert_hit(times=1)


def test_a_half_open_connection_is_given_up_after_the_time_out_of_the_client(broker: Broker) -> None:
    rule = broker.faults.on("Fetch", topic="orders").once().drop()
    # short: the client asks again, as often as it has to
    with consumer(broker, socket_timeout_ms=100) as client:
        assert next_value(client) == b"placed"
    rule.assert_hit(times=1)


# --- limits


@pytest.mark.parametrize("limit", ["max.connections", "max.connections.per.ip"])
def test_a_client_beyond_the_limit_of_connections_waits_for_one_that_ends(limit: str) -> None:
    with Broker(topics=["orders"], config={limit: 1}) as broker:
        first = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="first")
        until(lambda: any(one.client_id == "first" for one in broker.clients()))
        told: list[str] = []
        client = producer(broker, error_cb=lambda error: told.append(error.name()))
        client.produce("orders", b"placed", partition=0)
        until(lambda: (client.poll(0.01), "_ALL_BROKERS_DOWN" in told)[1], lambda: told)
        assert broker.records("orders") == []
        first.close()
        assert client.flush(TIMEOUT_S) == 0
        assert len(broker.records("orders")) == 1


def test_a_client_whose_idle_connection_was_closed_connects_again(broker: Broker) -> None:
    client = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    try:
        client.send("orders", b"first", partition=0).get(TIMEOUT_S)
        before = {one.address for one in broker.clients()}
        for _ in range(2):  # the first look of the broker finds them active
            broker.clock.advance("11m", liveness=True)
        until(lambda: not before & {one.address for one in broker.clients()})
        client.send("orders", b"second", partition=0).get(TIMEOUT_S)
    finally:
        client.close()
    assert [record.value for record in broker.records("orders")] == [b"placed", b"first", b"second"]


# --- logins that expire


def test_confluent_logs_in_again_before_its_login_expires() -> None:
    config = {**WITH_PASSWORDS, "connections.max.reauth.ms": 400}
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    with Broker(topics=["orders"], config=config, journal=True) as broker:
        broker.produce("orders", b"placed")
        with consumer(broker, **login, sasl_username="alice", sasl_password="wonderland") as client:
            assert next_value(client) == b"placed"
            until(lambda: (client.poll(0.01), _most_logins_of_a_connection(broker) >= 3)[1])
            broker.produce("orders", b"paid")
            assert next_value(client) == b"paid"


def _most_logins_of_a_connection(broker: Broker) -> int:
    logins = [one.connection for one in broker.requests.all("SaslAuthenticate", error="NONE")]
    return max(map(logins.count, logins), default=0)


def test_a_client_that_does_not_log_in_again_is_disconnected_and_connects_anew() -> None:
    config = {**WITH_PASSWORDS, "connections.max.reauth.ms": 200}
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    with Broker(topics=["orders"], config=config, journal=True) as broker:
        broker.produce("orders", b"placed")
        with kafka_python_consumer(
            broker, **login, sasl_plain_username="alice", sasl_plain_password="wonderland"
        ) as client:
            assert next(client).value == b"placed"
            until(lambda: (client.poll(10), broker.requests.count("SaslAuthenticate") >= 4)[1])
            broker.produce("orders", b"paid")
            assert next(client).value == b"paid"


# --- any request


def test_a_throttled_producer_is_served_nothing_for_that_long_although_it_does_not_wait_itself(broker: Broker) -> None:
    client = producer(broker)
    rule = broker.faults.on("Produce", topic="orders").once().throttle("1m")
    client.produce("orders", b"first", partition=0)
    assert client.flush(TIMEOUT_S) == 0
    rule.assert_hit(times=1)
    client.produce("orders", b"second", partition=0)
    until(lambda: "Produce throttled" in {one.waits_for for one in broker.clients()})
    assert len(broker.records("orders")) == 2
    broker.clock.advance("1m", liveness=True)
    assert client.flush(TIMEOUT_S) == 0


def test_kafka_python_waits_when_it_is_throttled(broker: Broker) -> None:
    client = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    try:
        broker.faults.on("Produce", topic="orders").once().throttle("200ms")
        began = time.monotonic()
        for value in (b"first", b"second"):
            client.send("orders", value, partition=0).get(TIMEOUT_S)
        assert time.monotonic() - began >= 0.19  # deadlines are whole milliseconds
    finally:
        client.close()


def test_a_fault_by_chance_meets_the_same_requests_with_the_same_seed(broker: Broker) -> None:
    met = []
    for attempt in range(2):
        chance = broker.faults.on("Produce", name="chance").with_probability(0.5, seed=7).error("NOT_ENOUGH_REPLICAS")
        client = producer(broker)
        for number in range(6):
            client.produce("orders", b"%d-%d" % (attempt, number), partition=0)
            assert client.flush(TIMEOUT_S) == 0
        met.append((chance.hits, chance.seen))
        chance.remove()
    assert met[0] == met[1]
    assert 0 < met[0][0] == met[0][1] - 6

"""What producers of real client libraries do when a produce fails, as `broker.faults` makes it fail."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from kmini import Broker
from support import retried_errors
from support.librdkafka import impatient
from support.until import until

confluent = pytest.importorskip("confluent_kafka")

TIMEOUT_S = 30.0


def producer(broker: Broker, **config: Any) -> Any:
    return confluent.Producer(
        impatient(broker.bootstrap_servers, **{"linger_ms": 0, "socket_timeout_ms": 5_000, **config})
    )


def deliver(client: Any, value: bytes = b"placed") -> Any:
    """Produce one record; return the error of its delivery report, or None."""
    reports: list[Any] = []
    client.produce("orders", value, partition=0, on_delivery=lambda error, record: reports.append(error))
    assert client.flush(TIMEOUT_S) == 0
    (error,) = reports
    return error


@pytest.mark.parametrize("code", retried_errors.PRODUCE)
def test_confluent_sends_a_record_again_after_a_retriable_error(broker: Broker, code: str) -> None:
    rule = broker.faults.on("Produce", topic="orders").times(2).error(code)
    assert deliver(producer(broker)) is None
    rule.assert_hit(times=2)
    assert rule.seen == 3
    assert [record.value for record in broker.records("orders")] == [b"placed"]


FATAL = [
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_REQUIRED_ACKS",
    "INVALID_TIMESTAMP",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
]


@pytest.mark.parametrize("code", FATAL)
def test_confluent_reports_an_error_that_no_retry_mends(broker: Broker, code: str) -> None:
    rule = broker.faults.on("Produce", topic="orders").error(code)
    error = deliver(producer(broker))
    assert KAFKA_CODES[code] == error.code(), error
    rule.assert_hit(times=1)
    assert broker.records("orders") == []


KAFKA_CODES = {
    "MESSAGE_TOO_LARGE": 10,
    "RECORD_LIST_TOO_LARGE": 18,
    "INVALID_REQUIRED_ACKS": 21,
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "CLUSTER_AUTHORIZATION_FAILED": 31,
    "INVALID_TIMESTAMP": 32,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": 43,
    "INVALID_RECORD": 87,
}


@pytest.mark.parametrize(("idempotent", "written"), [(False, 2), (True, 1)])
def test_a_lost_answer_makes_a_duplicate_unless_the_producer_is_idempotent(
    broker: Broker, idempotent: bool, written: int
) -> None:
    rule = broker.faults.produce_succeeds_but_answer_is_lost("orders")
    client = producer(broker, enable_idempotence=idempotent)
    assert deliver(client) is None
    rule.assert_hit(times=1)
    assert [record.value for record in broker.records("orders")] == [b"placed"] * written


def test_a_request_that_is_not_applied_leaves_no_duplicate(broker: Broker) -> None:
    rule = broker.faults.on("Produce", topic="orders").once().disconnect()
    assert deliver(producer(broker)) is None
    rule.assert_hit(times=1)
    assert len(broker.records("orders")) == 1


@pytest.mark.parametrize("code", ["REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"])
def test_an_error_after_the_append_makes_a_duplicate(broker: Broker, code: str) -> None:
    rule = broker.faults.on("Produce", topic="orders").once().apply_then_error(code)
    assert deliver(producer(broker)) is None
    rule.assert_hit(times=1)
    assert [record.value for record in broker.records("orders")] == [b"placed", b"placed"]


def test_an_idempotent_producer_sends_again_where_the_broker_has_forgotten_it(broker: Broker) -> None:
    client = producer(broker, enable_idempotence=True)
    assert deliver(client, b"first") is None
    rule = broker.faults.on("Produce", topic="orders").once().error("UNKNOWN_PRODUCER_ID")
    assert deliver(client, b"second") is None
    rule.assert_hit(times=1)
    assert [record.value for record in broker.records("orders")] == [b"first", b"second"]


def test_an_idempotent_producer_reports_an_epoch_that_is_over(broker: Broker) -> None:
    client = producer(broker, enable_idempotence=True)
    broker.faults.on("Produce", topic="orders").once().error("INVALID_PRODUCER_EPOCH")
    assert deliver(client).name() == "INVALID_PRODUCER_EPOCH"
    assert broker.records("orders") == []


def test_an_idempotent_producer_fails_for_good_where_the_broker_misses_records(broker: Broker) -> None:
    client = producer(broker, enable_idempotence=True)
    assert deliver(client, b"first") is None
    broker.faults.on("Produce", topic="orders").once().error("OUT_OF_ORDER_SEQUENCE_NUMBER")
    with contextlib.suppress(confluent.KafkaException, SystemError):  # which one, depends on where it is noticed
        deliver(client, b"second")
    with pytest.raises(confluent.KafkaException) as failed:
        client.produce("orders", b"third")
    assert failed.value.args[0].name() == "_FATAL"
    broker.faults.assert_all_hit()


def test_a_duplicate_sequence_counts_as_delivered(broker: Broker) -> None:
    client = producer(broker, enable_idempotence=True)
    assert deliver(client, b"first") is None
    broker.faults.on("Produce", topic="orders").once().apply_then_error("DUPLICATE_SEQUENCE_NUMBER")
    assert deliver(client, b"second") is None
    assert [record.value for record in broker.records("orders")] == [b"first", b"second"]


def test_an_answer_that_never_comes_ends_with_the_time_out_of_the_client(broker: Broker) -> None:
    rule = broker.faults.on("Produce", topic="orders").drop()
    limits = {"socket_timeout_ms": 50, "message_timeout_ms": 300, "request_timeout_ms": 50}  # short: any may pass
    client = producer(broker, max_in_flight=1, **limits)

    def timed_out_at_the_broker() -> bool:
        assert deliver(client).name() == "_MSG_TIMED_OUT"
        return rule.hits > 0

    until(timed_out_at_the_broker)  # on a busy machine a message times out before it is sent
    assert broker.records("orders") == []


def test_the_nth_produce_fails_and_the_others_pass(broker: Broker) -> None:
    rule = broker.faults.on("Produce", topic="orders").on_call(2).error("MESSAGE_TOO_LARGE")
    client = producer(broker)
    assert [deliver(client) is None for _ in range(3)] == [True, False, True]
    assert (rule.hits, rule.seen) == (1, 3)


def test_every_second_produce_fails_behind_those_that_are_skipped(broker: Broker) -> None:
    broker.faults.on("Produce", topic="orders").skip(1).every(2).error("MESSAGE_TOO_LARGE")
    client = producer(broker)
    assert [deliver(client) is None for _ in range(5)] == [True, True, False, True, False]


def test_kafka_python_sends_again_after_a_retriable_error_and_reports_a_fatal_one(broker: Broker) -> None:
    kafka = pytest.importorskip("kafka")
    errors = pytest.importorskip("kafka.errors")
    broker.faults.on("Produce", topic="orders").once().error("NOT_LEADER_OR_FOLLOWER")
    client = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10, enable_idempotence=False
    )
    try:
        assert client.send("orders", b"placed", partition=0).get(TIMEOUT_S).offset == 0
        broker.faults.on("Produce", topic="orders").once().error("MESSAGE_TOO_LARGE")
        with pytest.raises(errors.MessageSizeTooLargeError):
            client.send("orders", b"placed", partition=0).get(TIMEOUT_S)
    finally:
        client.close()
    broker.faults.assert_all_hit()


def errors_of_one_batch(broker: Broker, topic: str, *keys: bytes | None) -> list[Any]:
    """Send a batch of one record for each key with kafka-python; return the error of each record."""
    kafka = pytest.importorskip("kafka")
    client = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000, enable_idempotence=False, retries=0
    )
    try:
        sent = [client.send(topic, b"placed", key=key, partition=0) for key in keys]
        client.flush(TIMEOUT_S)
        return [one.exception for one in sent]
    finally:
        client.close()


INNOCENT = "Failed to append record because it was part of a batch which had one more more invalid records"
"""What kafka-python, as the Java client, tells of the other records of a batch that is refused."""


def test_kafka_python_is_told_which_records_of_its_batch_the_log_refuses(broker: Broker) -> None:
    broker.create_topic("users", 1, {"cleanup.policy": "compact"})
    first, second, third, fourth = errors_of_one_batch(broker, "users", b"1", None, b"2", None)
    broker.delete_topic("users")
    for refused in (second, fourth):
        assert type(refused).__name__ == "InvalidRecordError"
        assert "without a key" in str(refused)
    assert INNOCENT in str(first)
    assert INNOCENT in str(third)


def test_kafka_python_is_told_what_a_rule_says_of_single_records(broker: Broker) -> None:
    draft = broker.faults.on("Produce", topic="orders").once()
    rule = draft.error("INVALID_RECORD", message="not by the schema", record_errors={1: "no total"})
    first, second = errors_of_one_batch(broker, "orders", b"1", b"2")
    rule.assert_hit(times=1)
    assert type(second).__name__ == "InvalidRecordError"
    assert "no total" in str(second)
    assert INNOCENT in str(first)
    assert broker.records("orders") == []


def test_kafka_python_is_told_why_a_whole_batch_is_refused(broker: Broker) -> None:
    broker.faults.on("Produce", topic="orders").once().error("INVALID_RECORD", message="not by the schema")
    assert ["not by the schema" in str(error) for error in errors_of_one_batch(broker, "orders", b"1", b"2")] == [
        True,
        True,
    ]


async def test_aiokafka_sends_again_after_a_retriable_error_and_reports_a_fatal_one(broker: Broker) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    faults = broker.aio.faults
    await faults.on("Produce", topic="orders").once().error("NOT_LEADER_OR_FOLLOWER")
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10) as client:
        assert (await client.send_and_wait("orders", b"placed", partition=0)).offset == 0
        await faults.on("Produce", topic="orders").once().error("MESSAGE_TOO_LARGE")
        with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
            await client.send_and_wait("orders", b"placed", partition=0)
    await faults.assert_all_hit()


def test_a_full_disk_fails_produces_until_there_is_room(broker: Broker) -> None:
    rule = broker.faults.disk_full("orders")
    client = producer(broker)
    reports: list[Any] = []
    client.produce("orders", b"placed", partition=0, on_delivery=lambda error, record: reports.append(error))
    while rule.hits < 2:
        client.poll(0.01)
    assert reports == []
    rule.remove()
    assert client.flush(TIMEOUT_S) == 0
    assert reports == [None]
    assert len(broker.records("orders")) == 1


@pytest.mark.parametrize("fault", ["read_only", "fail"])
def test_a_disk_that_cannot_be_written_fails_produces(broker: Broker, fault: str) -> None:
    draft = broker.faults.on("disk", topic="orders")
    rule = draft.read_only() if fault == "read_only" else draft.fail()
    error = deliver(producer(broker, message_send_max_retries=1))
    assert error.name() == "KAFKA_STORAGE_ERROR"
    rule.assert_hit()


def test_a_slow_disk_makes_produces_slow(broker: Broker) -> None:
    client = producer(broker)
    assert deliver(client) is None
    rule = broker.faults.on("disk", topic="orders").slow("30ms")
    assert deliver(client) is None
    rule.assert_hit()


def test_throttled_producers_wait(broker: Broker) -> None:
    told: list[Any] = []
    client = producer(broker, throttle_cb=told.append)
    rule = broker.faults.on("Produce", topic="orders").once().throttle("20ms")
    assert deliver(client) is None
    client.poll(0)
    rule.assert_hit(times=1)
    assert [event.throttle_time for event in told] == [0.02]


def test_a_login_that_the_broker_refuses_is_told() -> None:
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
        "connection.failed.authentication.delay.ms": "10",
    }
    told: list[str] = []
    with Broker(topics=["orders"], config=config) as broker:
        rule = broker.faults.on("SaslAuthenticate").once().error("SASL_AUTHENTICATION_FAILED")
        login = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "alice",
            "sasl_password": "wonderland",
        }
        client = producer(broker, error_cb=lambda error: told.append(error.name()), **login)
        assert deliver(client) is None
        rule.assert_hit(times=1)
        assert "_AUTHENTICATION" in told

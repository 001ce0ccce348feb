"""The first program of each client's documentation, with nothing changed but the address."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from support.client_adapters import why_unavailable
from support.server_process import ServerProcess

need_kcat = pytest.mark.skipif(why_unavailable("kcat") is not None, reason="kcat is not installed")


def test_the_quick_start_of_kafka_python(server: ServerProcess, topic_names: Callable[[str], str]) -> None:
    kafka = pytest.importorskip("kafka")
    topic = topic_names("quick-start")

    producer = kafka.KafkaProducer(bootstrap_servers=server.bootstrap_servers)
    future = producer.send(topic, b"raw_bytes")
    metadata = future.get(timeout=30)
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)
    for _ in range(100):
        producer.send(topic, key=b"foo", value=b"bar", headers=[("content-encoding", b"base64")])
    producer.flush()
    producer.close()

    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    values = []
    for message in consumer:
        values.append(message.value)
        if len(values) == 101:
            break
    consumer.close()
    assert values == [b"raw_bytes"] + [b"bar"] * 100


async def test_the_quick_start_of_aiokafka(server: ServerProcess, topic_names: Callable[[str], str]) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    topic = topic_names("quick-start")

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=server.bootstrap_servers)
    await producer.start()
    try:
        metadata = await producer.send_and_wait(topic, b"Super message")
    finally:
        await producer.stop()
    assert metadata.offset == 0

    consumer = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        message = await consumer.getone()
    finally:
        await consumer.stop()
    assert (message.topic, message.offset, message.value) == (topic, 0, b"Super message")


def test_the_quick_start_of_confluent_kafka(server: ServerProcess, topic_names: Callable[[str], str]) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic = topic_names("quick-start")
    reports = []

    producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap_servers})
    for data in ("one", "two", "three"):
        producer.poll(0)
        producer.produce(topic, data.encode("utf-8"), callback=lambda error, message: reports.append((error, message)))
    assert producer.flush(30) == 0
    assert [(error, message.offset()) for error, message in reports] == [(None, 0), (None, 1), (None, 2)]

    settings = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": server.bootstrap_servers, **settings})
    consumer.subscribe([topic])
    messages = consumer.consume(3, timeout=30)
    consumer.close()
    assert [(message.error(), message.value()) for message in messages] == [
        (None, b"one"),
        (None, b"two"),
        (None, b"three"),
    ]


@need_kcat
def test_kcat_lists_the_broker_and_its_topics(server: ServerProcess, topic_names: Callable[[str], str]) -> None:
    topic = topic_names("kcat")
    kcat(server, "-P", "-t", topic, stdin="a\n")
    listing = json.loads(kcat(server, "-L", "-J"))
    assert [broker["name"] for broker in listing["brokers"]] == [server.bootstrap_servers]
    (found,) = (entry for entry in listing["topics"] if entry["topic"] == topic)
    leader = listing["brokers"][0]["id"]
    assert found["partitions"] == [
        {"partition": 0, "leader": leader, "replicas": [{"id": leader}], "isrs": [{"id": leader}]}
    ]


@need_kcat
def test_kcat_reads_what_kcat_wrote(server: ServerProcess, topic_names: Callable[[str], str]) -> None:
    topic = topic_names("kcat")
    kcat(server, "-P", "-t", topic, "-K", ":", stdin="k1:one\nk2:two\n")
    assert kcat(server, "-C", "-t", topic, "-K", ":", "-e", "-o", "beginning") == "k1:one\nk2:two\n"
    assert kcat(server, "-C", "-t", topic, "-e", "-o", "-1") == "two\n"
    assert kcat(server, "-Q", "-t", f"{topic}:0:0").split() == [topic, "[0]", "offset", "0"]


def kcat(server: ServerProcess, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-q", "-b", server.bootstrap_servers, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, timeout=30).stdout

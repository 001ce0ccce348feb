"""Real clients at a real port that asks for authentication: PLAIN and SCRAM, and what they say of a refusal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kmini import Broker
from kmini.client import Client, Sasl
from kmini.protocol import scram
from kmini.protocol.messages import AlterUserScramCredentialsRequest, CreateAclsRequest
from support.for_each import sampled
from support.java_peer import JavaPeer
from support.until import PATIENCE

JAAS = "org.apache.kafka.common.security"
USERS = f'{JAAS}.plain.PlainLoginModule required user_admin="admin-secret" user_alice="wonderland" user_eve="apple";'
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "connection.failed.authentication.delay.ms": "10",
}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PASSWORD = "wonderland"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker at which alice may do everything to topics that begin with her name, by any mechanism."""
    with Broker(config=SETTINGS) as started:
        asyncio.run(let_alice_in(started.bootstrap_servers))
        yield started


async def let_alice_in(address: str) -> None:
    Upsertion, Creation = AlterUserScramCredentialsRequest.Upsertion, CreateAclsRequest.Creation
    upsertions = []
    for mechanism in scram.MECHANISMS.values():
        salted = scram.salted_password(mechanism, PASSWORD, b"some salt", 4096)
        upsertions.append(
            Upsertion(
                name="alice",
                mechanism=mechanism.wire_code,
                iterations=4096,
                salt=b"some salt",
                salted_password=salted,
            )
        )
    topics = Creation(
        resource_type=2, resource_name="alice", resource_pattern_type=4, principal="User:alice", host="*",
        operation=2, permission_type=3,
    )  # fmt: skip
    async with Client(address, sasl=Sasl("PLAIN", "admin", "admin-secret")) as admin:
        answer = await admin.send(None, AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions))
        assert [result.error_code for result in answer.results] == [0]
        answer = await admin.send(None, CreateAclsRequest(creations=[topics]))
        assert [result.error_code for result in answer.results] == [0]


# Each client sends one value to a topic; what it raises, or an empty text, is told.

PATIENT, IMPATIENT = 20_000, 1_500 * PATIENCE
"""How long a client tries: one that gets what it wants, and one that does not."""

Send = Callable[[str, str, str, str, str, int], str]


def kafka_python(address: str, topic: str, mechanism: str, user: str, password: str, timeout_ms: int) -> str:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    try:
        producer = KafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
            bootstrap_timeout_ms=timeout_ms,
            max_block_ms=timeout_ms,
            enable_idempotence=False,
        )
    except KafkaError as error:
        return f"{type(error).__name__}: {error}"
    try:
        producer.send(topic, b"kafka-python").get(timeout_ms / 1000)
    except KafkaError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        producer.close(5)
    return ""


def aiokafka(address: str, topic: str, mechanism: str, user: str, password: str, timeout_ms: int) -> str:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    async def send() -> str:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
            request_timeout_ms=timeout_ms,
        )
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"aiokafka")
        except KafkaError as error:
            return f"{type(error).__name__}: {error}"
        finally:
            await producer.stop()
        return ""

    return asyncio.run(send())


def confluent_kafka(address: str, topic: str, mechanism: str, user: str, password: str, timeout_ms: int) -> str:
    from confluent_kafka import Producer

    said: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "message.timeout.ms": timeout_ms,
            "error_cb": lambda error: said.append(str(error)),
            "log_level": 0,
        }
    )
    producer.produce(topic, b"confluent-kafka", callback=lambda error, _: said.append(str(error)) if error else None)
    left = producer.flush(timeout_ms / 1000 + 5)
    return "; ".join(said) or ("nothing was said" if left else "")


def needs(name: str) -> Send:
    module = {"kafka-python": "kafka", "aiokafka": "aiokafka", "confluent-kafka": "confluent_kafka"}[name]
    pytest.importorskip(module)
    return {"kafka-python": kafka_python, "aiokafka": aiokafka, "confluent-kafka": confluent_kafka}[name]


CLIENTS = ["kafka-python", "aiokafka", "confluent-kafka"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_that_knows_the_password_produces(broker: Broker, name: str, mechanism: str) -> None:
    topic = f"alice-{name}-{mechanism}"
    assert needs(name)(broker.bootstrap_servers, topic, mechanism, "alice", PASSWORD, PATIENT) == ""
    assert [record.value for record in broker.records(topic)] == [name.encode()]


@pytest.mark.parametrize("mechanism", sampled(MECHANISMS, "SCRAM-SHA-512"))
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_that_does_not_know_it_fails_and_the_log_says_why(
    broker: Broker, caplog: pytest.LogCaptureFixture, name: str, mechanism: str
) -> None:
    """What the client says of it is its own: kafka-python and aiokafka only that they could not bootstrap."""
    said = needs(name)(broker.bootstrap_servers, "alice-wrong", mechanism, "alice", "wrong", IMPATIENT)
    assert said
    assert "uthenticat" in said or "bootstrap" in said
    assert f"with {mechanism} failed: " in caplog.text
    assert "alice-wrong" not in broker.topics()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_without_the_right_is_told(broker: Broker, name: str) -> None:
    broker_topics = broker.topics()
    said = needs(name)(broker.bootstrap_servers, "alice-owns-this", "PLAIN", "eve", "apple", PATIENT)
    assert "uthoriz" in said, said
    assert broker.topics() == broker_topics


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java_tools_that_know_the_password_produce_and_consume(
    broker: Broker, java: JavaPeer, tmp_path: Path, mechanism: str
) -> None:
    properties = properties_file(tmp_path, mechanism, "alice", PASSWORD)
    topic = f"alice-java-{mechanism}"
    connection = ("--bootstrap-server", broker.bootstrap_servers, "--topic", topic)
    sent = java.run("ConsoleProducer", *connection, "--command-config", properties, stdin="from java\n")
    assert sent.exit == 0, sent.stdout + sent.stderr
    assert [record.value for record in broker.records(topic)] == [b"from java"]
    reading = ("--partition", 0, "--offset", "earliest", "--max-messages", 1, "--command-config", properties)
    read = java.run("ConsoleConsumer", *connection, *reading)
    assert "from java" in read.lines, read.stdout + read.stderr


def test_java_tools_that_do_not_know_it_are_told(broker: Broker, java: JavaPeer, tmp_path: Path) -> None:
    properties = properties_file(tmp_path, "SCRAM-SHA-256", "alice", "wrong")
    listed = java.run(
        "TopicCommand", "--bootstrap-server", broker.bootstrap_servers, "--command-config", properties, "--list"
    )
    assert listed.exit != 0
    assert "SaslAuthenticationException" in listed.stdout + listed.stderr


def properties_file(folder: Path, mechanism: str, user: str, password: str) -> Path:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    path = folder / "client.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={JAAS}.{module} required username="{user}" password="{password}";\n'
    )
    return path


# --- our own command line


def kmini(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kmini", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_commands_authenticate(broker: Broker, tmp_path: Path, mechanism: str) -> None:
    who = ("-b", broker.bootstrap_servers, "--command-config", properties_file(tmp_path, mechanism, "alice", PASSWORD))
    topic = f"alice-kmini-{mechanism}"
    sent = kmini("produce", topic, *who, stdin="hello\n")
    assert sent.returncode == 0, sent
    read = kmini("consume", topic, *who)
    assert "hello" in read.stdout, read
    deleted = kmini("delete-records", f"{topic}:0:1", *who)
    assert (deleted.returncode, deleted.stdout) == (0, f"{topic} 0 1\n")


def test_our_commands_say_why_they_were_not_let_in_or_may_not(broker: Broker, tmp_path: Path) -> None:
    for user, password, code in (
        ("alice", "wrong", "SASL_AUTHENTICATION_FAILED"),
        ("eve", "apple", "TOPIC_AUTHORIZATION_FAILED"),
    ):
        properties = properties_file(tmp_path, "PLAIN", user, password)
        finished = kmini(
            "delete-records", "alice-x:0:1", "-b", broker.bootstrap_servers, "--command-config", properties,
            "--timeout-ms", 20_000,
        )  # fmt: skip
        assert finished.returncode == 1
        assert code in finished.stdout + finished.stderr
        assert "Traceback" not in finished.stderr

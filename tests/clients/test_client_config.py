"""A broker secured in one line, and clients with the settings that `client_config` and `kmini client-config` give."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import shlex
import shutil
import socket
import ssl
import stat
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from kmini import Broker, Cluster
from kmini.cli import kmini
from kmini.client import Client, Sasl
from kmini.client.client_config import Access, franz_go, kcat, sarama, token_of
from kmini.protocol.errors import SaslAuthenticationFailed
from support.java_clients import JavaClients
from support.server_process import API_VERSIONS_V0, ServerProcess, kmini_command

PASSWORD = 'wonder "land" \\ 1'
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "TLS": {"tls": "auto"},
    "mutual TLS": {"tls": "mutual", "acls": ["alice All topic:orders"]},
    "PLAIN": {"sasl": "PLAIN", "users": {"alice": PASSWORD}},
    "SCRAM over TLS": {
        "tls": "auto",
        "sasl": "SCRAM-SHA-256",
        "users": {"alice": PASSWORD, "bob": "builder"},
        "acls": ["alice Write topic:orders", "alice Describe topic:ord*", "bob Read topic:*"],
    },
    "mutual TLS and a drawn password": {"tls": "mutual", "sasl": "SCRAM-SHA-512"},
    "OAUTHBEARER": {"sasl": "OAUTHBEARER"},
    "OAUTHBEARER over TLS": {
        "tls": "auto",
        "sasl": "OAUTHBEARER",
        "users": {"alice": PASSWORD},
        "acls": ["alice All topic:orders"],
    },
}
TAKES_UNSECURED_TOKENS = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}


@contextmanager
def secured(way: str, brokers: int) -> Iterator[tuple[Broker | Cluster, str | None]]:
    """A broker, or a cluster, with the topic orders, and the user to be; None for the first."""
    user = "alice" if "acls" in WAYS[way] else None
    if brokers == 1:
        with Broker(topics=["orders"], **WAYS[way]) as broker:
            yield broker, user
    else:
        with Cluster(brokers, topics={"orders": {"replication_factor": brokers}}, **WAYS[way]) as cluster:
            yield cluster, user


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_python_clients_come_in_with_what_client_config_says(way: str, brokers: int) -> None:
    from aiokafka import AIOKafkaProducer
    from confluent_kafka import Producer
    from kafka import KafkaProducer

    async def produce(settings: dict[str, Any]) -> None:
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait("orders", b"aiokafka")

    with secured(way, brokers) as (broker, user):
        kafka_python = KafkaProducer(**broker.client_config("kafka-python", user), enable_idempotence=False)
        kafka_python.send("orders", b"kafka-python").get(30)
        kafka_python.close()
        librdkafka = Producer(broker.client_config("confluent-kafka", user))
        librdkafka.produce("orders", b"librdkafka")
        assert librdkafka.flush(30) == 0
        asyncio.run(produce(broker.client_config("aiokafka", user)))
        values = [record.value for record in broker.records("orders")]
        assert values == [b"kafka-python", b"librdkafka", b"aiokafka"]


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_javas_client_comes_in_with_what_client_config_says(way: str, brokers: int, java_clients: JavaClients) -> None:
    with secured(way, brokers) as (broker, user):
        settings = {name.replace(".", "_"): text for name, text in broker.client_config("java", user).items()}
        at = settings.pop("bootstrap_servers")
        if endpoint := settings.get("sasl_oauthbearer_token_endpoint_url"):
            settings["system_org_apache_kafka_sasl_oauthbearer_allowed_urls"] = endpoint
        with java_clients.producer(at, **settings, enable_idempotence="false") as producer:
            assert producer.send("orders", "java") == 0


GO_SOURCE = Path(__file__).parents[1] / "support" / "secured_go"


def test_go_clients_come_in_with_the_code_that_kmini_client_config_prints(tmp_path: Path) -> None:
    """franz-go and sarama, each way, at one broker and at three; and with an unsecured token."""
    if not (Path(__file__).parents[2] / ".peers" / "group-clients" / "secured-go").exists():
        pytest.skip("franz-go and sarama were not fetched (`make group-clients` does)")
    with ExitStack() as stack:
        brokers: list[Broker | Cluster] = []
        options, configs = [], []
        accesses: dict[str, Access] = {}
        for way, count in itertools.product(WAYS, (1, 3)):
            broker, user = stack.enter_context(secured(way, count))
            brokers.append(broker)
            access = Access(broker.bootstrap_servers)
            if broker._security is not None:
                access = broker._security.access(broker.bootstrap_servers, user)
            accesses[f"{way}, {count}"] = access
        brokers.append(stack.enter_context(Broker(config=TAKES_UNSECURED_TOKENS, topics=["orders"])))
        accesses["unsecured"] = Access(
            brokers[-1].bootstrap_servers, "SASL_PLAINTEXT", mechanism="OAUTHBEARER", user='al"ice'
        )
        for name, access in accesses.items():
            options.append(f"{json.dumps(name)}: func() []kgo.Opt {{\n{franz_go(access)}\nreturn options\n}},")
            clients = f"newScramClient := scramClientsOf({json.dumps(access.mechanism)})\n_ = newScramClient\n"
            body = f"{clients}{sarama(access)}\nreturn config, addresses"
            configs.append(f"{json.dumps(name)}: func() (*sarama.Config, []string) {{\n{body}\n}},")
        shutil.copytree(GO_SOURCE, tmp_path / "go")
        text = (GO_SOURCE / "ways.go").read_text()
        for empty, ways in (("[]kgo.Opt{}", options), ("[]string){}", configs)):
            text = text.replace(empty, empty.removesuffix("}") + "\n".join(ways) + "\n}")
        (tmp_path / "go" / "ways.go").write_text(text)
        command = ["go", "run", "-mod=readonly", "."]
        done = subprocess.run(command, cwd=tmp_path / "go", capture_output=True, text=True, timeout=600, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        for broker in brokers:
            assert [record.value for record in broker.records("orders")] == [b"franz-go", b"sarama"]


def test_kcat_comes_in_with_what_client_config_says() -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    with secured("mutual TLS", 1) as (broker, user):
        assert broker._security is not None
        options = shlex.split(kcat(broker._security.access(broker.bootstrap_servers, user)))
        command = ["kcat", *options, "-P", "-t", "orders"]
        finished = subprocess.run(command, input=b"kcat", capture_output=True, timeout=60, check=False)
        assert finished.returncode == 0, finished.stderr
        assert [record.value for record in broker.records("orders")] == [b"kcat"]


def test_a_user_without_the_right_is_refused_and_one_with_another_password_does_not_come_in() -> None:
    from kafka import KafkaProducer
    from kafka.errors import TopicAuthorizationFailedError

    with secured("SCRAM over TLS", 1) as (broker, _):
        bob = KafkaProducer(**broker.client_config("kafka-python", "bob"), enable_idempotence=False)
        with pytest.raises(TopicAuthorizationFailedError):
            bob.send("orders", b"his").get(30)
        bob.close()
        settings = broker.client_config("aiokafka", "bob")
        with pytest.raises(SaslAuthenticationFailed):
            asyncio.run(metadata_as(Sasl(settings["sasl_mechanism"], "bob", "wrong"), settings))


async def metadata_as(sasl: Sasl, settings: dict[str, Any]) -> None:
    async with Client(settings["bootstrap_servers"], sasl=sasl, tls=settings["ssl_context"]) as client:
        await client.metadata()


def test_clients_go_on_to_trust_a_broker_that_starts_again_with_its_data(tmp_path: Path) -> None:
    from kafka import KafkaAdminClient

    with Broker(tls="mutual", data_dir=tmp_path) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        settings = broker.client_config("kafka-python", "alice")
        broker.stop()
        broker.start()
        KafkaAdminClient(**settings).close()
    with Broker(tls="mutual", data_dir=tmp_path, port=port):
        KafkaAdminClient(**settings).close()
    secrets = [path for path in tmp_path.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert len(secrets) == 2, "the authority's and alice's"
    assert all(stat.S_IMODE(os.stat(path).st_mode) == 0o600 for path in secrets)


def test_made_certificates_are_renewed_and_connections_stay() -> None:
    with Broker(tls="auto") as broker:
        settings = broker.client_config("aiokafka")
        host, _, port = broker.bootstrap_servers.rpartition(":")

        def connected() -> ssl.SSLSocket:
            plain = socket.create_connection((host, int(port)), 30)
            secured: ssl.SSLSocket = settings["ssl_context"].wrap_socket(plain, server_hostname="localhost")
            return secured

        def serial(of: ssl.SSLSocket) -> object:
            return (of.getpeercert() or {})["serialNumber"]

        with connected() as before, connected() as same:
            assert serial(before) == serial(same)
            assert broker._security is not None
            broker._security.renew(broker._operations.running)
            with connected() as after:
                assert serial(after) != serial(before)
            before.sendall(API_VERSIONS_V0)
            assert len(before.recv(4096)) > 8


def test_clients_meet_no_error_while_certificates_are_renewed() -> None:
    """One that stays, and others that come after each renewal."""
    from confluent_kafka import KafkaError, Producer
    from kafka import KafkaProducer

    errors: list[KafkaError] = []
    with Broker(tls="mutual", topics=["orders"]) as broker:
        assert broker._security is not None
        staying = Producer({**broker.client_config("confluent-kafka"), "error_cb": errors.append})
        for number in range(10):
            broker._security.renew(broker._operations.running)
            staying.produce("orders", f"staying {number}")
            assert staying.flush(30) == 0
            coming = KafkaProducer(**broker.client_config("kafka-python"), enable_idempotence=False)
            coming.send("orders", f"coming {number}".encode()).get(30)
            coming.close()
        values = [(record.value or b"").decode() for record in broker.records("orders")]
    assert values == [f"{client} {number}" for number in range(10) for client in ("staying", "coming")]
    assert errors == []


def test_an_expired_token_ends_the_session_and_the_client_comes_back_with_a_new_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from confluent_kafka import Producer

    caplog.set_level(logging.WARNING)
    with Broker(sasl="OAUTHBEARER", topics=["orders"]) as broker:
        producer = Producer(broker.client_config("confluent-kafka"))
        for number in range(2):
            producer.produce("orders", str(number))
            assert producer.flush(30) == 0
            broker.clock.advance("10m", liveness=True)
        assert [record.value for record in broker.records("orders")] == [b"0", b"1"]
        assert "the authentication has expired" in caplog.text


def test_the_issuer_gives_no_token_for_a_wrong_secret_and_says_what_it_does_not_have() -> None:
    with Broker(sasl="OAUTHBEARER", users={"alice": PASSWORD}) as broker:
        settings = broker.client_config("librdkafka")
        endpoint = settings["sasl.oauthbearer.token.endpoint.url"]
        right = Access("", user="alice", password=PASSWORD, token_endpoint=endpoint)
        assert token_of(right).count(".") == 2
        for wrong in (right._replace(password="guess"), right._replace(user="bob")):
            with pytest.raises(HTTPError, match="401"):
                token_of(wrong)
        for body, status in ((b"grant_type=password", 400), (b"x" * 100_000, 400), (None, 405)):
            with pytest.raises(HTTPError, match=str(status)):
                urlopen(endpoint, body, timeout=30)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{endpoint}s", timeout=30)
        basic = f"Basic {b64encode(f'alice:{quote(PASSWORD)}'.encode()).decode()}"
        with urlopen(UrlRequest(endpoint, b"grant_type=client_credentials", {"Authorization": basic})) as answer:
            assert json.load(answer)["token_type"] == "Bearer"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_no_secret_is_in_a_log_a_metric_a_report_an_answer_or_a_snapshot(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, mechanism: str
) -> None:
    from kafka import KafkaAdminClient, KafkaProducer
    from kafka.admin import ConfigResource

    secret = "open-sesame-open"
    caplog.set_level(logging.DEBUG, "kmini")
    with Broker(tls="mutual", sasl=mechanism, users={"alice": secret}, journal=True, data_dir=tmp_path) as broker:
        settings = broker.client_config("kafka-python")
        shown = []
        if provider := settings.get("sasl_oauth_token_provider"):
            token = provider.token()
            provider.token = lambda: token
            shown.append(token)
        producer = KafkaProducer(**settings)
        producer.send("orders", b"x").get(30)
        producer.close()
        admin = KafkaAdminClient(**settings)
        told = str(admin.describe_configs([ConfigResource("BROKER", "1"), ConfigResource("TOPIC", "orders")]))
        admin.close()
        told += caplog.text + broker.report() + broker.metrics_text() + str(broker.requests.all())
        broker.snapshot("all")
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "security"]
    told += "".join(path.read_bytes().decode("latin-1") for path in written)
    assert "User:alice" in told
    assert written
    for hidden in (secret, "PRIVATE KEY", *shown):
        assert hidden not in told


def test_users_and_rules_are_there_again_after_a_reset() -> None:
    from kafka import KafkaAdminClient

    with secured("PLAIN", 1) as (broker, _), secured("SCRAM over TLS", 1) as (other, user):
        for each in (broker, other):
            each.reset()
            KafkaAdminClient(**each.client_config("kafka-python", user)).close()


def test_kmini_serve_writes_what_our_commands_and_client_config_take(tmp_path: Path) -> None:
    options = ["--tls", "mutual", "--user", "alice", "--user", f"bob:{PASSWORD}", "--topic", "orders:1"]
    rules = ["--acl", "alice All topic:*", "--acl", "bob Describe topic:*"]
    log = tmp_path / "log"
    server = ServerProcess([*kmini_command(tmp_path / "data", {}), *options, *rules], log, has_tls=True)
    try:
        asks = ["-b", server.bootstrap_servers, "--command-config"]
        alice, bob = (str(tmp_path / "data" / "security" / f"{name}.properties") for name in ("alice", "bob"))
        produced = CliRunner().invoke(kmini, ["produce", "orders", *asks, alice], input="hers\n")
        assert produced.exit_code == 0, produced.output
        refused = CliRunner().invoke(kmini, ["produce", "orders", *asks, bob], input="his\n")
        assert (refused.exit_code, "TOPIC_AUTHORIZATION_FAILED" in refused.output) == (1, True), refused.output
        assert f"--command-config {alice}" in log.read_text()
        told = CliRunner().invoke(kmini, ["client-config", "aiokafka", *asks, bob])
        assert told.exit_code == 0, told.output
        config: dict[str, Any] = {}
        exec(told.stdout, config)
        asyncio.run(described(config["config"]))
        assert PASSWORD not in log.read_text()
    finally:
        server.stop()


@pytest.mark.parametrize("way", ["OAUTHBEARER", "OAUTHBEARER over TLS"])
def test_our_commands_and_the_settings_they_print_come_in_with_a_token(way: str, tmp_path: Path) -> None:
    from kafka import KafkaAdminClient

    with secured(way, 1) as (broker, user):
        file = tmp_path / "client.properties"
        settings = broker.client_config("java", user)
        file.write_text("".join(f"{name}={escaped(text)}\n" for name, text in settings.items()))
        asks = ["-b", broker.bootstrap_servers, "--command-config", str(file)]
        produced = CliRunner().invoke(kmini, ["produce", "orders", *asks], input="ours\n")
        assert produced.exit_code == 0, produced.output
        assert [record.value for record in broker.records("orders")] == [b"ours"]
        printed: dict[str, dict[str, Any]] = {"aiokafka": {}, "kafka-python": {}}
        for kind, config in printed.items():
            told = CliRunner().invoke(kmini, ["client-config", kind, *asks])
            assert told.exit_code == 0, told.output
            exec(told.stdout, config)
        asyncio.run(described(printed["aiokafka"]["config"]))
        KafkaAdminClient(**printed["kafka-python"]["config"]).close()
        java = CliRunner().invoke(kmini, ["client-config", "java", *asks]).stdout
        assert dict(line.split("=", 1) for line in java.splitlines()) == settings
        told = CliRunner().invoke(kmini, ["client-config", "librdkafka", *asks]).stdout
        assert dict(line.split("=", 1) for line in told.splitlines()) == broker.client_config("librdkafka", user)


def test_our_commands_come_in_with_an_unsecured_token_where_the_broker_takes_those(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    jaas = f'{module} required unsecuredLoginStringClaim_sub="alice";'
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={jaas}\n")
    with Broker(config=TAKES_UNSECURED_TOKENS, topics=["orders"], journal=True) as broker:
        asks = ["-b", broker.bootstrap_servers, "--command-config", str(file)]
        produced = CliRunner().invoke(kmini, ["produce", "orders", *asks], input="ours\n")
        assert produced.exit_code == 0, produced.output
        assert "User:alice" in str(broker.requests.all())


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\")


async def described(settings: dict[str, Any]) -> None:
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(**settings)
    await admin.start()
    assert "orders" in await admin.list_topics()
    await admin.close()

"""A broker with users and access rules moves on to Apache Kafka, and its clients notice nothing but another broker.

What is looked at comes from `kmini graduate --config`: the same ports, the same users, the same rules, and a group of
Java consumers that goes on where it was.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kmini import Broker
from kmini.protocol import messages as m
from kmini.protocol import scram
from kmini.protocol.messages.describe_configs import TOPIC
from kmini.protocol.messages.list_offsets import LATEST
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.uuids import format_uuid
from kmini.records import tombstone
from kmini.storage.log_config import LogConfig
from kmini.testing import Wire
from support.broker.token_requests import creation, description
from support.broker.token_talk import TokenTalk
from support.client_adapters import CODECS, READ_COMMITTED, ConfluentKafka, make_records
from support.java_peer import Finished, JavaPeer
from support.oracle.graduated import (
    Held,
    answered,
    apache_kafka_on,
    committed,
    complaints,
    free_ports,
    graduate,
    held_by,
    init_producer_id,
    offset_of,
)
from support.server_process import ServerProcess
from support.transactional_clients import Confluent

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RECORDS = 300
FIRST_KEPT = 123
EVENTS = 400
HANDLED = 150
"""How many of them the group has handled when the broker is stopped."""
GROUP = "billing"
MOVER, LEFT_OPEN = "mover", "left-open"
FLAGGED = 40
"""Keys of the compacted topic with flagged tombstones; every other key has one."""
SETTINGS = {"retention.ms": "86400001", "max.message.bytes": "2000000", "message.timestamp.type": "LogAppendTime"}
SCRAM = "SCRAM-SHA-512"
CONTENT = {
    **{("orders", number): RECORDS - (FIRST_KEPT if number == 1 else 0) for number in range(len(CODECS))},
    ("events", 0): EVENTS,
    ("profiles", 0): FLAGGED,
    ("ledger", 0): 20,
    ("prices", 0): 5,
    ("once", 0): 3,
}
"""The committed records of each partition."""


@dataclasses.dataclass
class Graduated:
    """Before, the way over, and after."""

    before: Held
    after: Held
    offsets_before: Mapping[str, Any]
    offsets_after: Mapping[str, Any]
    handled: list[str]
    """By the group of Java consumers."""
    rules: list[str]
    mover: tuple[int, int]
    """Producer id and epoch."""
    report: Mapping[str, Any]
    out: Path
    checkpoint: list[dict[str, Any]]
    """The metadata records, as Kafka's own tool reads them."""
    sent_once: bytes
    """A batch of an idempotent producer, which the broker has."""
    kafka: ServerProcess
    logins: Mapping[str, Path]
    secured: str
    """Where clients need a password."""
    token: Any
    """The answer to carol's request for a delegation token."""


@pytest.fixture(scope="module")
def graduated(need_kafka: None, java: JavaPeer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graduated]:
    directory = tmp_path_factory.mktemp("graduated")
    port, secured_port, controller_port, _ = free_ports(4)
    settings = settings_of(port, secured_port, controller_port)
    properties = directory / "server.properties"
    lines = [f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items()]
    properties.write_text("".join(lines))
    logins = {user: login(directory / f"{user}.properties", user) for user in ("alice", "bob")}
    secured = f"127.0.0.1:{secured_port}"
    data_dir, out = directory / "data", directory / "kafka"
    with Broker(config=settings, data_dir=data_dir) as broker:
        servers = f"127.0.0.1:{port}"
        let_users_in(java, servers)
        write(broker, servers)
        left = Confluent(servers, LEFT_OPEN)
        left.begin()
        left.produce("ledger", b"never committed")
        sent_once = idempotent_batch(servers)
        assert produce(servers, "once", sent_once) == (0, 0)
        handled = consume(java, secured, logins["alice"], HANDLED)
        mover = init_producer_id(servers, MOVER)
        before, offsets_before = held_by(servers, CONTENT), committed(servers, GROUP)
        rules = rules_of(java, servers)
        with carols(secured) as wire:
            token = wire.ask(creation("alice"))
    left.close()
    report = graduate(data_dir, out, "--config", properties)
    dumped = java.run("DumpLogSegments", "--cluster-metadata-decoder", "--files", out / "bootstrap.checkpoint")
    checkpoint = [json.loads(line.partition("payload: ")[2]) for line in dumped.lines if "payload: " in line]
    with apache_kafka_on(out / "server.properties", port, directory / "kafka.log") as kafka:
        yield Graduated(
            before=before,
            after=held_by(servers, CONTENT),
            offsets_before=offsets_before,
            offsets_after=committed(servers, GROUP),
            handled=handled,
            rules=rules,
            mover=mover,
            report=report,
            out=out,
            checkpoint=checkpoint,
            sent_once=sent_once,
            kafka=kafka,
            logins=logins,
            secured=secured,
            token=token,
        )


def settings_of(port: int, secured_port: int, controller_port: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured_port},"
        f"CONTROLLER://localhost:{controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": f"{SCRAM},PLAIN,OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_carol="carol\\"s secret";',
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "the-key-of-all-tokens",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "3",
        "kmini.authentication.timeout.ms": "20000",
    }


def login(path: Path, user: str) -> Path:
    """What a client of this user is given."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={SCRAM}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{user}-secret";\n'
    )
    return path


def carols(secured: str) -> Wire:
    """A connection of carol, who logs in by PLAIN."""
    wire = Wire(secured)
    assert wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN")).error_code == 0
    assert wire.ask(m.SaslAuthenticateRequest(auth_bytes=b'\0carol\0carol"s secret')).error_code == 0
    return wire


def let_users_in(java: JavaPeer, servers: str) -> None:
    """Users, rules, quotas and a setting of all brokers, by Kafka's own tools."""
    to = ("--bootstrap-server", servers)
    config = (*to, "--alter", "--add-config")
    for user in ("alice", "bob"):
        password = f"{SCRAM}=[iterations=4096,password={user}-secret]"
        quota = "consumer_byte_rate=10485760" if user == "alice" else ""
        for value in filter(None, (password, quota)):
            ran(java, "kafka.admin.ConfigCommand", *config, value, "--entity-type", "users", "--entity-name", user)
    ran(
        java,
        "kafka.admin.ConfigCommand",
        *config,
        "max.connections=5000",
        "--entity-type",
        "brokers",
        "--entity-default",
    )
    allow = (*to, "--add", "--allow-principal", "User:alice")
    ran(java, "org.apache.kafka.tools.AclCommand", *allow, "--operation", "All", "--topic", "events")
    ran(java, "org.apache.kafka.tools.AclCommand", *allow, "--operation", "Read", "--group", "bill",
        "--resource-pattern-type", "prefixed")  # fmt: skip
    deny = (*to, "--add", "--deny-principal", "User:bob", "--deny-host", "127.0.0.1")
    ran(java, "org.apache.kafka.tools.AclCommand", *deny, "--operation", "Write", "--topic", "events")


def ran(java: JavaPeer, main: str, *arguments: object) -> Finished:
    finished = java.run(main, *arguments)
    assert finished.exit == 0, finished.stderr + finished.stdout
    return finished


def write(broker: Broker, servers: str) -> None:
    """Every codec, records that were deleted, a compacted topic, transactions, flagged tombstones."""
    client = ConfluentKafka()
    broker.create_topic("orders", partitions=len(CODECS), config=SETTINGS)
    for number, codec in enumerate(CODECS):
        client.produce(servers, "orders", number, make_records(RECORDS, seed=codec), codec)
    broker.delete_records("orders", FIRST_KEPT, partition=1)
    broker.create_topic("events")
    for number in range(EVENTS):
        broker.produce("events", b"event %d" % number)
    broker.create_topic("prices", config={"cleanup.policy": "compact", "segment.bytes": "4096"})
    for number in range(500):
        broker.produce("prices", b"%d" % number, key=b"%d" % (number % 5))
    broker.topic("prices").compact()
    broker.create_topic("profiles", config={"cleanup.policy": "compact", "kmini.tombstone.flag.enable": "true"})
    for number in range(FLAGGED):
        key, value = b"user %d" % number, b"what was there"
        deletion = tombstone(key, value, headers={"deleted-by": "support"})
        broker.produce("profiles", **(deletion if number % 2 else {"value": value, "key": key}))
    broker.create_topic("once")
    broker.create_topic("ledger")
    mover = Confluent(servers, MOVER)
    for number in range(40):
        mover.begin()
        mover.produce("ledger", b"entry %d" % number)
        (mover.abort if number % 2 else mover.commit)()
    mover.close()


def idempotent_batch(servers: str) -> bytes:
    producer_id, epoch = init_producer_id(servers, None)
    now_ms = time.time_ns() // 1_000_000
    records = [Record(0, now_ms, None, b"once %d" % number) for number in range(3)]
    return bytes(build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0))


def produce(servers: str, topic: str, batch: bytes) -> tuple[int, int]:
    """Error code and base offset."""
    Topic = m.ProduceRequest.Topic
    data = [Topic(name=topic, partition_data=[Topic.Partition(index=0, records=bytearray(batch))])]
    with Wire(servers) as wire:
        (answer,) = wire.ask(m.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 11).responses
    return answer.partition_responses[0].error_code, answer.partition_responses[0].base_offset


def consume(java: JavaPeer, servers: str, user: Path, count: int, *, protocol: str = "classic") -> list[str]:
    """What a member of the group gets next."""
    finished = java.run(
        "ConsoleConsumer", "--bootstrap-server", servers, "--command-config", user, "--topic", "events",
        "--group", GROUP, "--from-beginning", "--max-messages", count, "--timeout-ms", 30_000,
        "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    assert finished.exit == 0, finished.stderr
    return finished.lines


def rules_of(java: JavaPeer, servers: str) -> list[str]:
    finished = ran(java, "org.apache.kafka.tools.AclCommand", "--bootstrap-server", servers, "--list")
    return sorted(line.strip() for line in finished.lines if line.strip().startswith("("))


def test_topics_have_their_ids_settings_offsets_and_records(graduated: Graduated) -> None:
    before, after = graduated.before, graduated.after
    assert after.topic_ids == before.topic_ids
    expected = {name: dict(settings) for name, settings in before.settings.items()}
    assert expected["profiles"].pop("kmini.tombstone.flag.enable") == "true"
    expected["prices"]["segment.bytes"] = "1048576"
    assert after.settings == expected
    for place, partition in before.partitions.items():
        if place != ("profiles", 0):
            assert after.partitions[place] == partition, place
    assert after.partitions["orders", 1].start == FIRST_KEPT
    assert len(after.partitions["prices", 0].records) == 5
    assert after.partitions["prices", 0].end == 500


def test_flagged_tombstones_are_null_values_with_their_headers(graduated: Graduated) -> None:
    before, found = (held.partitions["profiles", 0].records for held in (graduated.before, graduated.after))
    flagged = {("kmini.tombstone", b""), ("deleted-by", b"support")}
    assert found == [one._replace(value=None) if {*one.headers} == flagged else one for one in before]
    assert sum(one.value is None for one in found) == FLAGGED // 2
    assert {one["name"]: one["tombstones"] for one in graduated.report["topics"]}["profiles"] == FLAGGED // 2


def test_a_java_group_goes_on_where_it_was(graduated: Graduated, java: JavaPeer) -> None:
    assert graduated.offsets_after == graduated.offsets_before
    assert graduated.offsets_before[GROUP]["events", 0][0] == HANDLED
    alice = graduated.logins["alice"]
    soon = consume(java, graduated.secured, alice, 100)
    rest = consume(java, graduated.secured, alice, EVENTS - HANDLED - 100, protocol="consumer")  # KIP-848
    assert graduated.handled + soon + rest == [f"event {number}" for number in range(EVENTS)]


def test_a_transactional_id_goes_on_with_its_producer_id_and_a_higher_epoch(graduated: Graduated) -> None:
    servers = graduated.kafka.bootstrap_servers
    producer_id, epoch = init_producer_id(servers, MOVER)
    assert producer_id == graduated.mover[0]
    assert epoch > graduated.mover[1]
    for name in (MOVER, LEFT_OPEN):  # the second aborts what it left open
        client = Confluent(servers, name)
        client.begin()
        client.produce("ledger", b"after")
        client.commit()
        client.close()
    found = answered(
        lambda: ConfluentKafka().consume(servers, "ledger", 0, 22, READ_COMMITTED), lambda found: len(found) >= 22
    )
    assert [one.value for one in found] == [b"entry %d" % number for number in range(0, 40, 2)] + [b"after"] * 2


def test_what_is_sent_again_is_stored_once(graduated: Graduated) -> None:
    servers = graduated.kafka.bootstrap_servers
    assert produce(servers, "once", graduated.sent_once) == (0, 0)
    found = ConfluentKafka().consume(servers, "once", 0, 3)
    assert [one.value for one in found] == [b"once 0", b"once 1", b"once 2"]
    with Wire(servers) as wire:
        assert offset_of(wire, "once", 0, LATEST) == 3


def test_producer_ids_are_new_ones(graduated: Graduated) -> None:
    known = [each["data"] for each in graduated.checkpoint if each["type"] == "PRODUCER_IDS_RECORD"]
    producer_id, epoch = init_producer_id(graduated.kafka.bootstrap_servers, None)
    assert epoch == 0
    assert producer_id >= known[0]["nextProducerId"] > graduated.mover[0]


def test_users_log_in_and_rules_are_in_force(graduated: Graduated, java: JavaPeer) -> None:
    assert rules_of(java, graduated.kafka.bootstrap_servers) == graduated.rules
    produce = ("ConsoleProducer", "--bootstrap-server", graduated.secured, "--topic", "events", "--command-config")
    alice = java.run(*produce, graduated.logins["alice"], stdin="from alice\n")
    assert (alice.exit, "ERROR" in alice.stderr + alice.stdout) == (0, False)
    bob = java.run(*produce, graduated.logins["bob"], stdin="from bob\n")
    assert "TopicAuthorizationException" in bob.stderr + bob.stdout
    stranger = graduated.out.parent / "stranger.properties"
    stranger.write_text(graduated.logins["alice"].read_text().replace("alice-secret", "guessed"))
    refused = java.run("TopicCommand", "--bootstrap-server", graduated.secured, "--list", "--command-config", stranger)
    assert refused.exit == 1
    assert "SaslAuthenticationException" in refused.stderr + refused.stdout
    with carols(graduated.secured):
        pass


def test_an_unsecured_token_logs_in_as_before(graduated: Graduated) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=alice",
    }
    producer = Producer({"bootstrap.servers": graduated.secured, **login})
    producer.produce("events", b"from alice")
    assert producer.flush(60) == 0


def test_a_delegation_token_logs_in_as_before(graduated: Graduated) -> None:
    token = graduated.token
    assert token.error_code == 0
    talk = TokenTalk(graduated.secured, lambda _: carols(graduated.secured))
    code, words, _, _ = talk.token_login(token.token_id, token.hmac, scram.SHA_512)
    assert (code, words) == (0, "")
    with carols(graduated.secured) as wire:
        (described,) = wire.ask(description(of_all=True)).tokens
    assert (described.token_id, described.hmac) == (token.token_id, token.hmac)
    assert (described.expiry_timestamp, described.max_timestamp) == (token.expiry_timestamp_ms, token.max_timestamp_ms)
    assert [renewer.principal_name for renewer in described.renewers] == ["alice"]
    assert graduated.report["delegation_tokens"] == 1


def test_quotas_and_settings_of_brokers_are_there(graduated: Graduated, java: JavaPeer) -> None:
    describe = ("kafka.admin.ConfigCommand", "--bootstrap-server", graduated.kafka.bootstrap_servers, "--describe")
    assert (
        "consumer_byte_rate=1.048576E7"
        in ran(java, *describe, "--entity-type", "users", "--entity-name", "alice").stdout
    )
    assert "max.connections=5000" in ran(java, *describe, "--entity-type", "brokers", "--entity-default").stdout


def test_kafka_reads_the_metadata_as_it_was_meant(graduated: Graduated) -> None:
    by_type: dict[str, list[dict[str, Any]]] = {}
    for record in graduated.checkpoint:
        by_type.setdefault(record["type"], []).append(record["data"])
    assert by_type["FEATURE_LEVEL_RECORD"][0]["name"] == "metadata.version"
    ids = {each["name"]: each["topicId"] for each in by_type["TOPIC_RECORD"]}
    assert ids == {name: format_uuid(topic_id) for name, topic_id in graduated.before.topic_ids.items()}
    directory_id = next(
        line.partition("=")[2]
        for line in (graduated.out / "meta.properties").read_text().splitlines()
        if line.startswith("directory.id=")
    )
    for partition in by_type["PARTITION_RECORD"]:
        assert (partition["replicas"], partition["isr"], partition["leader"]) == ([1], [], -1)
        assert (partition["directories"], partition["eligibleLeaderReplicas"]) == ([directory_id], [1])
    assert {each["name"] for each in by_type["USER_SCRAM_CREDENTIAL_RECORD"]} == {"alice", "bob"}
    assert len(by_type["ACCESS_CONTROL_ENTRY_RECORD"]) == len(graduated.rules) == graduated.report["acls"]
    changed = {(each["resource"], each["name"]): each["becomes"] for each in graduated.report["changed_settings"]}
    assert changed == {
        ("topic prices", "segment.bytes"): "1048576",
        ("topic profiles", "kmini.tombstone.flag.enable"): None,
        ("server.properties", "kmini.authentication.timeout.ms"): None,
        ("server.properties", "offsets.topic.replication.factor"): "1",
    }
    assert graduated.report["open_transactions"] == ["ledger-0"]
    counts = [graduated.report[name] for name in ("groups", "committed_offsets", "transactional_ids")]
    assert counts == [1, 1, 2]


def test_kafka_has_every_setting_of_topics_that_goes_along(graduated: Graduated) -> None:
    Resource = m.DescribeConfigsRequest.Resource
    request = m.DescribeConfigsRequest(resources=[Resource(resource_type=TOPIC, resource_name="orders")])
    with Wire(graduated.kafka.bootstrap_servers) as wire:
        (answer,) = wire.ask(request, 4).results
    assert {name for name in LogConfig.KEYS if not name.startswith("kmini.")} <= {one.name for one in answer.configs}


def test_kafka_had_nothing_to_recover_or_to_complain_of(graduated: Graduated) -> None:
    assert not complaints(graduated.kafka.log)
    assert not list(graduated.out.glob("*-stray"))

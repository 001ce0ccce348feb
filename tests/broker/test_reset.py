"""A reset: a broker that held everything a broker can hold is like one that has just started."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kmini import Broker, Cluster, KafkaError
from kmini.broker.api.interception import Exchange, Serve
from kmini.broker.broker import BrokerServer
from kmini.broker.clock import Timer
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.security.delegation_tokens import DelegationToken
from kmini.broker.security.resources import Principal
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.messages.describe_configs import BROKER_LOGGER
from kmini.protocol.messages.incremental_alter_configs import SET
from kmini.protocol.uuids import format_uuid
from support.broker.asking import ask_handler
from support.broker.config_requests import alter, change
from support.group_requests import join
from support.kafka_requests import fetch
from support.object_graph import state_of
from support.until import until
from support.wire import Wire

pytestmark = pytest.mark.sockets

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "the-key-of-all-tokens",
    "log.cleaner.backoff.ms": 86_400_000,
    "replica.fetch.wait.max.ms": 30_000,
    "replica.lag.time.max.ms": 60_000,
}
TOPICS = {"orders": 2, "profiles": {"partitions": 1, "config": {"cleanup.policy": "compact"}}}

TIMES_AND_NUMBERS_OF_THE_SYSTEM = (
    *("due_ms", "_due_ms", "_beat_ms", "last_look_ms", "started", "order", "now_ms"),
    *("number", "_number", "_prune_at", "_times_set_back", "_config_of"),
    *("_timers", "_liveness_timers"),  # compared by `live_timers`
    *("last_flush_ms", "created_ms", "used_ms", "began_s", "told_address_s"),
    *("_next_in_block", "_block_end", "('next_producer_id',)]", "size"),  # ids of producers go on
    *("_broker_epochs", "broker_epoch"),  # a fetch from before the reset may still come (KIP-903)
    *("_removals", "buffer", "_holders"),
)
WORK_OF_FOLLOWERS = (
    *("_sessions", "_fetchers", "connections", "_memory_network", "_per_host", "metrics", "_metrics", "replicas"),
    *("_watchers", "_listeners", "_deadlines", "_going_on", "_waiting", "released", "_timer"),
)

Hosts = Broker | Cluster


def one_broker(**options: Any) -> Hosts:
    return Broker(topics=TOPICS, config=CONFIG, **options)


def three_brokers(**options: Any) -> Hosts:
    replicated = {"orders": {"partitions": 2, "replication_factor": 3}, "profiles": TOPICS["profiles"]}
    return Cluster(brokers=3, topics=replicated, config=CONFIG, **options)


@pytest.fixture(params=[one_broker, three_brokers])
def make(request: pytest.FixtureRequest) -> Callable[..., Hosts]:
    made: Callable[..., Hosts] = request.param
    return made


LOGGERS = ("kmini.client", "kmini.broker")


@pytest.fixture(autouse=True)
def level_of_the_logger() -> Iterator[None]:
    """A test that fails before its reset leaves no level behind."""
    yield
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.NOTSET)


def cores(host: Hosts) -> list[BrokerServer]:
    return list(host._operations.running)


def fill(host: Hosts) -> None:
    """Have the broker hold some of everything. Its clients are gone afterwards: they would come back after a reset."""
    servers = {"bootstrap.servers": host.bootstrap_servers}
    admin = AdminClient({**servers, "client.id": "admin"})
    for future in [
        *admin.create_partitions([NewPartitions("orders", 3)]).values(),
        *admin.incremental_alter_configs(
            [
                _change(ConfigResource.Type.TOPIC, "profiles", "retention.ms", "1000"),
                _change(ConfigResource.Type.BROKER, "1", "log.cleaner.threads", "2"),
            ]
        ).values(),
        *admin.create_acls(
            [
                AclBinding(
                    ResourceType.TOPIC,
                    "orders",
                    ResourcePatternType.LITERAL,
                    "User:alice",
                    "*",
                    AclOperation.READ,
                    AclPermissionType.ALLOW,
                )
            ]
        ).values(),
        *admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")]
        ).values(),
    ]:
        future.result(10)
    for core in cores(host)[:1]:
        core.controller.set_group_configs("billing", {"consumer.heartbeat.interval.ms": "500"})
        core.controller.set_client_quotas("user=alice", {"producer_byte_rate": "1000"})
        core.controller.set_feature_levels({"transaction.version": 0})
        alice = Principal.user("alice")
        core.controller.put_delegation_token(DelegationToken("token", alice, alice, (), 0, 2**62, 2**62))
    host.create_topic("short-lived")
    host.delete_topic("short-lived")
    host.create_topic("own", 5)
    producer = confluent_kafka.Producer({**servers, "client.id": "payer", "transactional.id": "payments"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", b"paid", b"42", partition=0)
    producer.produce("made-by-itself", b"paid", b"42")
    producer.flush(10)
    producer.commit_transaction(10)
    producer.begin_transaction()
    producer.produce("orders", b"never committed", b"42", partition=0)
    producer.flush(10)
    consumer = confluent_kafka.Consumer({**servers, "group.id": "billing"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    host.produce("profiles", b"one", key=b"42")
    host.delete_records("made-by-itself")
    host.advance_clock("2d")
    host.advance_clock("1s", liveness=True)


def _change(kind: ConfigResource.Type, name: str, key: str, value: str) -> ConfigResource:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(kind, name, incremental_configs=[entry])


def states(host: Hosts) -> list[dict[str, str]]:
    """The state of each broker with all that it reaches, without random ids, ports and times."""
    controller = host._operations._controller
    names = {repr(topic.id): f"id-of-{topic.name}" for topic in controller.topics.values()}
    names |= {format_uuid(topic.id): f"id-of-{topic.name}" for topic in controller.topics.values()}
    names |= {repr(broker.logs.meta.directory_id): "directory-id" for broker in cores(host)}
    names |= {str(broker.server.listeners[0].port): f"port-{broker.node_id}" for broker in cores(host)}
    names |= {host.data_dir or "": "data-dir", controller.cluster_id: "cluster-id"}
    texts = sorted(names, key=len, reverse=True)
    # A port is a number of its own: 34217 stands in 134217728, too.
    pattern = re.compile("|".join(rf"(?<!\d){text}(?!\d)" if text.isdigit() else re.escape(text) for text in texts))

    def normal(text: str) -> str:
        return pattern.sub(lambda match: names[match.group()], text)

    left_out = (*TIMES_AND_NUMBERS_OF_THE_SYSTEM, *(WORK_OF_FOLLOWERS if isinstance(host, Cluster) else ()))
    found = [state_of(broker, normal, left_out) for broker in cores(host)]
    clock = host._operations.clock
    if isinstance(host, Broker):
        found.append({"live timers": repr([live_timers(clock._timers), live_timers(clock._liveness_timers)])})
    return found


def live_timers(timers: list[Timer]) -> list[str]:
    return sorted(getattr(timer.callback, "__qualname__", "?") for timer in timers if timer.callback is not None)


def differences(one: list[dict[str, str]], other: list[dict[str, str]]) -> list[str]:
    assert len(one) == len(other)
    return [
        f"{name}: {first.get(name)} instead of {second.get(name)}"
        for first, second in zip(one, other, strict=True)
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]


def connect(host: Hosts, number: int = 1) -> Wire:
    """A connection to a broker that does not come back, as one of a real client would."""
    listener = next(core for core in cores(host) if core.node_id == number).server.listeners[0]
    return Wire("127.0.0.1", listener.port)


def test_a_reset_broker_is_in_every_part_like_one_that_has_just_started(make: Callable[..., Hosts]) -> None:
    with make() as used, make() as fresh, contextlib.ExitStack() as connections:
        fill(used)
        is_cluster = isinstance(used, Cluster)
        reader = connections.enter_context(connect(used, used.leader("profiles") if is_cluster else 1))
        reader.send(fetch("profiles", offset=1, max_wait_ms=60_000, min_bytes=1), 11)
        member = connections.enter_context(connect(used, used.coordinator("billing") if is_cluster else 1))
        assert member.ask(join("billing"), 2).error_code == 0
        assert len(differences(states(used), states(fresh))) > 200
        report = used.reset()
        assert [client.client_id for client in report.closed] == ["tests", "tests"]
        assert [member.receive(), reader.receive()] == [None, None]
        until(lambda: not differences(states(used), states(fresh)), lambda: differences(states(used), states(fresh)))
        assert used.topics() == ["orders", "profiles"]


async def test_the_levels_of_loggers_are_those_from_before_the_clients_changed_them(tmp_path: Path) -> None:
    """The program that embeds the broker may have set one; a logger without one has that of the logger above again."""
    logging.getLogger(LOGGERS[0]).setLevel(logging.WARNING)
    cluster = LocalCluster([BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})], str(tmp_path))
    await cluster.start()
    for level in ("ERROR", "DEBUG"):  # the second change must not take the first one for the level from before
        await alter(
            ask_handler, cluster.brokers[1], change(BROKER_LOGGER, "1", *((name, SET, level) for name in LOGGERS))
        )
    assert [logging.getLogger(name).level for name in LOGGERS] == [logging.DEBUG] * 2
    await cluster.reset()
    assert [logging.getLogger(name).level for name in LOGGERS] == [logging.WARNING, logging.NOTSET]
    await cluster.stop()


def test_a_topic_of_the_start_has_a_new_id_and_ids_of_producers_go_on(make: Callable[..., Hosts]) -> None:
    with make() as host:
        ids = [host._operations._controller.topic("orders").id, host._operations._controller.next_producer_id()]  # type: ignore[union-attr]
        address, cluster_id = host.bootstrap_servers, host._operations._controller.cluster_id
        host.reset()
        controller = host._operations._controller
        assert controller.topic("orders").id != ids[0]  # type: ignore[union-attr]
        assert controller.next_producer_id() == ids[1] + 1  # type: ignore[operator]
        assert (host.bootstrap_servers, controller.cluster_id) == (address, cluster_id)


def test_brokers_that_do_not_run_or_cannot_be_reached_are_there_again() -> None:
    with Cluster(brokers=3, topics={"orders": {"replication_factor": 3}}) as cluster:
        addresses = sorted(cluster.bootstrap_servers.split(","))
        cluster.produce("orders", b"one")
        cluster.kill(1)
        cluster.pause(2)
        cluster.hold(3)
        cluster.reset()
        assert cluster.brokers() == [1, 2, 3]
        assert sorted(cluster.bootstrap_servers.split(",")) == addresses
        assert cluster.produce("orders", b"two") == 0
        cluster.wait_until_in_sync("orders")
        until(lambda: {at.log_end_offset for at in cluster.offsets("orders").values()} == {1})


def test_the_files_of_before_are_removed_and_a_restart_finds_what_came_after(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path, topics=["orders"])
    with broker:
        for value in (b"one", b"two", b"three"):
            broker.produce("orders", value)
            broker.reset()
        broker.produce("orders", b"four")
        broker.stop()
        assert [path.name for path in (tmp_path / "broker-1").iterdir() if path.is_dir()] == ["orders-0"]
        broker.start()
        assert [record.value for record in broker.records("orders")] == [b"four"]


def test_a_connection_that_is_kept_gets_an_answer_and_is_served_by_the_broker_as_it_is_now() -> None:
    with Broker(topics=["orders"]) as broker, connect(broker) as kept:
        kept.send(fetch("orders", offset=0, max_wait_ms=60_000, min_bytes=1), 11)
        until(lambda: len(cores(broker)[0].purgatory))
        assert broker.reset(keep=("te*",)).closed == []
        assert kept.receive() is not None
        assert kept.ask(fetch("orders", offset=0), 11).responses[0].partitions[0].error_code == 0
        assert broker.reset().closed == [], "it was made before the last reset"
        assert kept.ask(fetch("orders", offset=0), 11).responses[0].partitions[0].error_code == 0


def test_the_clients_of_closed_connections_are_named() -> None:
    with Broker() as broker, connect(broker) as named, connect(broker) as silent:
        named.ask(fetch("orders", offset=0), 11)
        report = broker.reset(keep=("app-*",))
        addresses = [wire.socket.getsockname() for wire in (named, silent)]
        assert sorted(client.address for client in report.closed) == sorted(addresses)
        assert f"tests at 127.0.0.1:{addresses[0][1]}" in str(report)
        assert f"a client without a name at 127.0.0.1:{addresses[1][1]}" in str(report)
        assert str(broker.reset()) == "closed no connection"


def test_a_call_that_waits_in_another_thread_raises(make: Callable[..., Hosts]) -> None:
    with make() as host, ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(host.wait_for_records, "orders", 1, timeout_ms=60_000)
        until(lambda: len(cores(host)[-1].purgatory))
        host.reset()
        with pytest.raises(RuntimeError, match="the broker was reset during this call"):
            waiting.result(10)


def test_what_was_added_to_a_broker_is_told_and_interceptors_stay() -> None:
    seen: list[object] = []

    async def intercept(exchange: Exchange, serve: Serve) -> Any:
        seen.append(exchange.header.api_key)
        return await serve()

    with Broker() as broker:
        core = cores(broker)[0]
        core.services.interceptors.append(intercept)
        core.on_reset.append(lambda: seen.append("reset"))
        broker.reset()
        with connect(broker) as wire:
            wire.ask(fetch("orders", offset=0), 11)
        assert seen == ["reset", 1]


def test_a_disk_that_refuses_ends_the_broker_and_its_clients_do_not_hang() -> None:
    with Broker(topics=["orders"]) as broker, connect(broker) as wire:
        wire.ask(fetch("orders", offset=0), 11)
        address = wire.socket.getpeername()
        directory = Path(broker.data_dir or "") / "kmini.db.tmp"
        directory.mkdir()
        with pytest.raises(KafkaError, match=r"kmini\.db cannot be written"):
            broker.reset(keep=("tests",))
        assert wire.receive() is None
        with pytest.raises(ConnectionRefusedError):
            Wire(*address)
        broker.stop()
        directory.rmdir()
        broker.start()
        assert broker.topics() == ["orders"]

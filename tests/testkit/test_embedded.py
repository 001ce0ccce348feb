"""The broker inside a program: blocking and awaitable methods, its life (testkit/lifecycle.py), what it leaves."""

from __future__ import annotations

import inspect
import logging
import os
import socket
import threading
from pathlib import Path

import pytest

import kmini
from kmini import AsyncBroker, AsyncClock, AsyncCluster, AsyncTopic, Broker, Clock, Cluster, Record, Topic
from kmini.broker.controller.controller import ControllerError
from kmini.broker.network.socket_server import PortTaken
from kmini.broker.settings.broker_config import ConfigError
from kmini.protocol.errors import RequestTimedOut, TopicAlreadyExists, UnknownTopicOrPartition
from kmini.protocol.messages.api_versions import ApiVersionsRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import Wire
from kmini.testkit.clock_handle import ClockOperations
from kmini.testkit.embedded import BrokerOperations
from kmini.testkit.topic_handle import TopicOperations
from support.own_threads import own_threads, until_no_thread_is_new
from support.public_api import operations_of, public_methods


def public_names(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


TABLES = [
    (BrokerOperations, Broker, AsyncBroker),
    (TopicOperations, Topic, AsyncTopic),
    (ClockOperations, Clock, AsyncClock),
]


@pytest.mark.parametrize(("operations", "blocking", "awaiting"), TABLES)
def test_blocking_and_awaitable_methods_have_the_signatures_of_their_table(
    operations: type, blocking: type, awaiting: type
) -> None:
    table = operations_of(operations)
    for cls in (blocking, awaiting):
        methods = public_methods(cls)
        assert {name: methods[name] for name in table} == table, cls


@pytest.mark.parametrize(
    ("blocking", "awaiting"), [(Broker, AsyncBroker), (Cluster, AsyncCluster), (Topic, AsyncTopic), (Clock, AsyncClock)]
)
def test_what_is_awaited_has_every_name_of_what_blocks(blocking: type, awaiting: type) -> None:
    assert public_names(blocking) == public_names(awaiting)
    awaited = {name for name, method in inspect.getmembers(awaiting, inspect.iscoroutinefunction) if name[0] != "_"}
    assert awaited == set(public_methods(blocking)) - {"topic", "group", "address_of", "client_config", "expect"}


def test_blocking_and_awaitable_brokers_have_the_same_handles() -> None:
    blocking, awaiting = Broker(), AsyncBroker(Broker())
    assert type(blocking.topic("orders")) is Topic
    assert type(awaiting.topic("orders")) is AsyncTopic
    assert (type(blocking.clock), type(awaiting.clock)) == (Clock, AsyncClock)


@pytest.mark.parametrize(("operations", "blocking", "awaiting"), TABLES)
def test_blocking_methods_return_values_and_the_others_coroutines(
    operations: type, blocking: type, awaiting: type
) -> None:
    for name in operations_of(operations):
        assert inspect.iscoroutinefunction(getattr(awaiting, name)), name
        assert not inspect.iscoroutinefunction(getattr(blocking, name)), name


def test_the_facade_exports_what_it_says() -> None:
    for name in kmini.__all__:
        assert getattr(kmini, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Brokr'"):
        kmini.Brokr  # noqa: B018


@pytest.mark.parametrize(("as_version", "fetch"), [("2.8", 12), ("3.9", 17), ("4.0", 17), ("4.3", 18), (None, 18)])
def test_it_passes_for_the_release_it_is_asked_to(as_version: str | None, fetch: int) -> None:
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    with Broker(as_version=as_version) as broker, Wire(broker.bootstrap_servers) as wire:
        told = {api.api_key: api.max_version for api in wire.ask(request, 3).api_keys}
    assert told[1] == fetch


def test_there_are_four_releases_to_pass_for() -> None:
    with pytest.raises(ConfigError, match=r"kmini.as.version=2.7: must be one of 2.8, 3.9, 4.0, 4.3"):
        Broker(as_version="2.7")


def test_records_come_back_as_they_were_produced() -> None:
    with Broker() as broker:
        headers = (("trace", b"1"), ("empty", None))
        assert broker.produce("orders", b"one", key=b"k", headers=headers, timestamp_ms=1_000_000) == 0
        assert broker.produce("orders", None) == 1
        first, second = broker.records("orders")
        assert first == Record(0, 1_000_000, b"k", b"one", headers, "orders", 0, "committed")
        assert (second.offset, second.key, second.value) == (1, None, None)
        assert broker.offsets("orders") == (0, 2, 2, 2)


async def test_the_same_from_an_event_loop() -> None:
    async with Broker(topics={"orders": 2}) as broker:
        assert await broker.produce("orders", b"one", partition=1) == 0
        assert [record.value for record in await broker.records("orders")] == [b"one"]
        assert await broker.topics() == ["orders"]
        with pytest.raises(TopicAlreadyExists):
            await broker.create_topic("orders")


def test_waiting_for_records_ends_when_they_are_there() -> None:
    with Broker(topics={"orders": 1}) as broker:
        found: list[list[bytes | None]] = []
        waiter = threading.Thread(
            target=lambda: found.append([r.value for r in broker.wait_for_records("orders", 2, timeout_ms=60_000)])
        )
        waiter.start()
        for value in (b"one", b"two"):
            broker.produce("orders", value)
        waiter.join(60)
        assert found == [[b"one", b"two"]]


def test_waiting_in_vain_says_what_there_was() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", b"one")
        with pytest.raises(RequestTimedOut, match=r"1 of 2 records after 1 ms: \[b'one'\]"):
            broker.wait_for_records("orders", 2, timeout_ms=1)


def test_settings_are_by_kafkas_names_and_a_wrong_one_is_an_error() -> None:
    with Broker(config={"auto.create.topics.enable": False}) as broker, pytest.raises(UnknownTopicOrPartition):
        broker.produce("orders", b"one")
    with pytest.raises(ConfigError, match=r"log\.retention\.ms"):
        Broker(config={"log.retenton.ms": 1})


def test_a_stopped_broker_comes_back_on_its_port_with_its_data() -> None:
    with Broker(topics={"orders": 1}) as broker:
        address = broker.bootstrap_servers
        broker.produce("orders", b"one")
        broker.clock.advance("3d")
        now_ms = broker.clock.now_ms()
        broker.stop()
        assert broker.bootstrap_servers == ""
        with pytest.raises(ConnectionRefusedError):
            Wire(address)
        broker.start()
        assert broker.bootstrap_servers == address
        assert broker.clock.now_ms() >= now_ms
        assert [record.value for record in broker.records("orders")] == [b"one"]


def test_a_private_data_directory_is_removed_and_a_given_one_stays(tmp_path: Path) -> None:
    with Broker() as broker:
        private = broker.data_dir
        assert private is not None
        assert os.path.exists(os.path.join(private, "kmini.db"))
    assert not os.path.exists(private)
    for expected in ([], [b"one"]):
        with Broker(data_dir=tmp_path, topics={"orders": 1}) as broker:
            assert [record.value for record in broker.records("orders")] == expected
            broker.produce("orders", b"one")


@pytest.mark.parametrize(("is_private", "syncs"), [(True, False), (False, True)])
def test_only_data_that_stay_are_forced_to_the_disk(
    is_private: bool, syncs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with Broker(topics={"orders": 1}, data_dir=None if is_private else tmp_path) as broker:
        broker.produce("orders", b"kept")
        broker.delete_records("orders", 1)
    assert bool(synced) == syncs


def test_nothing_of_it_is_left_running() -> None:
    before = own_threads()
    with Broker(topics={"orders": 1}) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            wire.ask(MetadataRequest(topics=None))
        broker.delete_records("orders")
    until_no_thread_is_new(before)


def test_it_stops_with_clients_still_connected() -> None:
    with Broker() as broker:
        wire = Wire(broker.bootstrap_servers)
        wire.ask(MetadataRequest(topics=None))
    wire.close()


def test_a_taken_port_is_a_sentence_and_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = Broker(port=port)
        before = own_threads()
        with pytest.raises(PortTaken, match=str(port)):
            broker.start()
        until_no_thread_is_new(before)
        assert broker.data_dir is None


def test_asking_a_broker_that_does_not_run_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        Broker().topics()


def test_the_fixture_gives_a_broker_of_its_own(kafka_broker: Broker) -> None:
    assert kafka_broker.topics() == []
    with Wire(kafka_broker.bootstrap_servers) as wire:
        assert wire.ask(MetadataRequest(topics=None)).brokers


def test_metrics_are_prometheus_text_from_the_start(kafka_broker: Broker) -> None:
    kafka_broker.produce("orders", b"one")
    text = kafka_broker.metrics_text()
    assert 'kafka_log_log_logendoffset{partition="0",topic="orders"} 1.0' in text


@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_a_directory_of_other_files_is_refused_and_left_as_it_was(
    kind: type[Broker] | type[Cluster], tmp_path: Path
) -> None:
    (tmp_path / "server.key").touch()
    with pytest.raises(ControllerError, match=r"it holds server\.key, and no kmini\.db\. Name an empty directory"):
        kind(data_dir=tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["server.key"]


@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_a_log_directory_of_apache_kafka_is_refused(kind: type[Broker] | type[Cluster], tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    with pytest.raises(ControllerError, match="is a log directory of Apache Kafka's node 1"):
        kind(data_dir=tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_clients_of_a_paused_broker_wait_until_it_is_reconnected() -> None:
    with Broker() as broker, Wire(broker.bootstrap_servers, timeout_s=0.1) as wire:
        broker.pause()
        asked = wire.send(MetadataRequest(), 12)
        with pytest.raises(TimeoutError):
            wire.receive_frame()
        with pytest.raises(ValueError, match="the broker is paused already"):
            broker.pause()
        assert broker.topics() == [], "methods go on"
        broker.reconnect()
        wire.socket.settimeout(20)
        wire.receive(MetadataRequest.response, 12, asked)
        with pytest.raises(ValueError, match="the broker is not paused"):
            broker.reconnect()


def test_a_paused_broker_can_be_stopped_and_runs_when_it_is_started_again() -> None:
    with Broker() as broker:
        broker.pause()
        broker.stop()
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:
            wire.ask(MetadataRequest())


def test_a_reset_ends_a_pause() -> None:
    with Broker() as broker:
        broker.pause()
        broker.reset()
        with Wire(broker.bootstrap_servers) as wire:
            wire.ask(MetadataRequest())
        broker.pause()


def test_a_broker_that_works_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker, caplog.at_level(logging.INFO):
        with Wire(broker.bootstrap_servers) as wire:
            wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="orders")]), 9)
        broker.produce("orders", b"placed")
        assert len(broker.records("orders")) == 1
    assert caplog.messages == []

"""Snapshots of brokers and clusters: all of it comes back, on the same ports, as often as it is asked for."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import confluent_kafka
import pytest

from kmini import Broker, Cluster, KafkaError
from kmini.broker.snapshots import SnapshotError
from support.kafka_requests import fetch
from support.wire import Wire

pytestmark = pytest.mark.sockets

Host = Broker | Cluster


def one_broker(**options: Any) -> Host:
    return Broker(topics={"orders": 2}, **options)


def three_brokers(**options: Any) -> Host:
    return Cluster(brokers=3, topics={"orders": {"partitions": 2, "replication_factor": 3}}, **options)


@pytest.fixture(params=[one_broker, three_brokers])
def make(request: pytest.FixtureRequest) -> Callable[..., Host]:
    made: Callable[..., Host] = request.param
    return made


def values(host: Host, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in host.records(topic)]


def committed(host: Host, group: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": host.bootstrap_servers, "group.id": group})
    (found,) = consumer.committed([confluent_kafka.TopicPartition("orders", 0)], timeout=10)
    consumer.close()
    return int(found.offset)


def commit(host: Host, group: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": host.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def test_everything_comes_back_each_time(make: Callable[..., Host]) -> None:
    with make() as host:
        for number in range(3):
            host.produce("orders", b"%d" % number)
        host.create_topic("profiles", 2)
        commit(host, "billing", 2)
        host.advance_clock("3d")
        addresses, snapshot = host.bootstrap_servers, host.snapshot()
        assert (snapshot.name, Path(snapshot.path).name) == ("snapshot-1", "snapshot-1")
        for again in (snapshot, "snapshot-1", snapshot.path):
            host.produce("orders", b"later")
            host.delete_records("orders", 2)
            host.delete_topic("profiles")
            host.create_topic("other")
            commit(host, "billing", 1)
            commit(host, "shipping", 1)
            host.advance_clock("9d")
            host.restore(again)
            assert values(host) == [b"0", b"1", b"2"]
            assert host.topics() == ["__consumer_offsets", "orders", "profiles"]
            assert (committed(host, "billing"), committed(host, "shipping")) == (2, -1001)
            assert abs(host.clock.now_ms() - time.time() * 1000 - 3 * 86_400_000) < 60_000
            assert sorted(host.bootstrap_servers.split(",")) == sorted(addresses.split(","))
        host.reset()
        assert (host.topics(), values(host)) == (["orders"], [])


def test_an_open_transaction_is_open_again_and_its_producer_is_fenced_by_the_next_one() -> None:
    with Broker(topics=["orders"]) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payments"}
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("orders", b"open")
        producer.flush(10)
        snapshot = broker.snapshot()
        producer.commit_transaction(10)
        assert values(broker) == [b"open"]
        del producer
        broker.restore(snapshot)
        assert values(broker) == []
        assert [record.state for record in broker.records("orders", isolation="uncommitted")] == ["open"]
        heir = confluent_kafka.Producer({**settings, "bootstrap.servers": broker.bootstrap_servers})
        heir.init_transactions(10)
        assert [record.state for record in broker.records("orders", isolation="uncommitted")] == ["aborted"]


@pytest.mark.sockets
def test_connections_are_closed_as_by_a_reset() -> None:
    with Broker(topics=["orders"]) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        snapshot = broker.snapshot()
        with Wire(host, int(port)) as kept:
            kept.ask(fetch("orders", offset=0), 11)
            assert broker.restore(snapshot, keep=["tes*"]).closed == []
            assert kept.ask(fetch("orders", offset=0), 11).responses[0].partitions[0].error_code == 0
        with Wire(host, int(port)) as wire:
            wire.ask(fetch("orders", offset=0), 11)
            assert [client.client_id for client in broker.restore(snapshot).closed] == ["tests"]
            assert wire.receive() is None


def test_a_snapshot_outlives_a_restart_and_goes_to_another_broker(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "one", topics=["orders"]) as broker:
        broker.produce("orders", b"seed")
        broker.snapshot("seeded")
        broker.produce("orders", b"later")
        broker.stop()
        broker.start()
        broker.restore("seeded")
        assert values(broker) == [b"seed"]
        broker.stop()
        broker.start()
        assert values(broker) == [b"seed"]
    shutil.copytree(tmp_path / "one" / "snapshots" / "seeded", tmp_path / "copied")
    with Broker() as other:
        other.restore(tmp_path / "copied")
        assert values(other) == [b"seed"]
        assert other.produce("orders", b"more") == 1
    with Broker() as third:
        third.restore(tmp_path / "copied")
        assert values(third) == [b"seed"], "the broker that wrote more has left the snapshot as it was"


def test_writers_wait_while_a_snapshot_is_taken_and_go_on_after_it() -> None:
    with Broker(topics={"orders": 1, "profiles": 1}) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        stops: list[bool] = []

        def write() -> None:
            while not stops:
                producer.produce("orders", b"v")
                producer.produce("profiles", b"v")
                producer.flush(10)

        writer = Thread(target=write)
        writer.start()
        try:
            broker.wait_for_records("orders", 20)
            taken = [broker.snapshot(f"s{number}") for number in range(3)]
            broker.wait_for_records("orders", len(broker.records("orders")) + 20)
        finally:
            stops.append(True)
            writer.join()
        counts = []
        for snapshot in taken:
            broker.restore(snapshot)
            counts.append(len(values(broker)))
            assert len(values(broker, "profiles")) in (counts[-1], counts[-1] - 1, counts[-1] + 1)
        assert 20 <= counts[0] <= counts[1] <= counts[2]


def test_a_name_is_taken_anew_and_refused_if_it_is_none() -> None:
    with Broker(topics=["orders"]) as broker:
        broker.snapshot("seeded")
        broker.produce("orders", b"one")
        broker.snapshot("seeded")
        broker.reset()
        broker.restore("seeded")
        assert values(broker) == [b"one"]
        for name in ("../away", "", "a/b", ".hidden"):
            with pytest.raises(ValueError, match="must be letters, digits"):
                broker.snapshot(name)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            {"format": 2, "brokers": [1], "clock_ahead_ms": 0},
            "has format 2, and this kmini reads format 1",
        ),
        (
            {"format": 1, "brokers": [1, 2, 3], "clock_ahead_ms": 0},
            r"is of the brokers \[1, 2, 3\], and these are \[1\]",
        ),
        ({"format": 1}, "is no snapshot, or damaged"),
        ("{", "is no snapshot, or damaged"),
        (None, "there is no snapshot seeded; there are: other, seeded"),
    ],
)
def test_what_cannot_be_restored_is_refused_and_the_broker_goes_on(content: Any, told: str) -> None:
    with Broker(topics=["orders"]) as broker:
        broker.produce("orders", b"one")
        broker.snapshot("other")
        manifest = Path(broker.snapshot("seeded").path, "snapshot.json")
        if content is None:
            manifest.unlink()
        else:
            manifest.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(SnapshotError, match=told):
            broker.restore("seeded")
        assert values(broker) == [b"one"]


@pytest.mark.sockets
def test_a_cluster_is_saved_whole_and_its_dead_brokers_come_back() -> None:
    with three_brokers() as cluster:
        assert isinstance(cluster, Cluster)
        cluster.produce("orders", b"one")
        snapshot = cluster.snapshot()
        cluster.produce("orders", b"two")
        cluster.kill(2)
        with pytest.raises(SnapshotError, match="broker 2 does not run: restart it before a snapshot"):
            cluster.snapshot()
        cluster.restore(snapshot)
        assert cluster.brokers() == [1, 2, 3]
        cluster.wait_until_in_sync("orders")
        assert values(cluster) == [b"one"]
        cluster.pause(3)
        with pytest.raises(SnapshotError, match="broker 3 is paused"):
            cluster.snapshot()
        cluster.restore(snapshot)
        cluster.wait_until_in_sync("orders")
        cluster.kill(cluster.leader("orders"))
        assert values(cluster) == [b"one"]


def test_a_full_disk_leaves_no_half_snapshot() -> None:
    with Broker(topics=["orders"]) as broker:
        broker.produce("orders", b"one")
        folder = Path(broker.data_dir or "", "snapshots")
        folder.write_text("a file in the place of the directory")
        with pytest.raises((OSError, KafkaError)):
            broker.snapshot("seeded")
        assert broker.produce("orders", b"two") == 1, "requests are served again"

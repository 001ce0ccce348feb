"""Clients with default settings ride through leaders that move and brokers that die and come back: on three brokers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kmini import Cluster
from kmini.client import Client as OurClient
from kmini.client.produce import record
from support import apache_kafka, client_adapters, transactional_clients
from support.client_adapters import Client, Java, Sent, make_records
from support.transactional_clients import TransactionalClient, read_committed
from support.until import until

CLIENTS = ["kafka-python", "aiokafka", "confluent-kafka", "java"]
PATIENCE_S = 60
RECORDS = 8_000
STAGE = RECORDS // 4
AHEAD = 500
"""No client keeps back more records than this."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


def move_leader(cluster: Cluster, topic: str, partition: int = 0) -> None:
    """Have another replica lead."""
    cluster.wait_until_in_sync(topic, partition)
    replicas, leader = cluster.replicas(topic, partition), cluster.leader(topic, partition)
    cluster.move_leader(topic, partition, to=replicas[(replicas.index(leader) + 1) % 3])


# Producers


class Staged:
    """Records for a producer, a quarter of them at a time: it gets no further than we have seen it get.

    (A client that is written as coroutines stands still meanwhile, with what it keeps back.)
    """

    def __init__(self, records: list[Sent]) -> None:
        self.records = records
        self.released = [threading.Event() for _ in range(4)]

    def __iter__(self) -> Iterator[Sent]:
        for index, each in enumerate(self.records):
            if index % STAGE == 0 and index:
                assert self.released[index // STAGE].wait(PATIENCE_S)
            yield each


def produce_through(cluster: Cluster, adapter: Client, records: list[Sent]) -> list[int | None]:
    """Produce records while the leader moves, dies and comes back. Return every record's offset or None."""
    staged = Staged(records)
    source: Any = staged
    if isinstance(adapter, Java):
        source, adapter.hold = records, adapter.directory / "released"
    with ThreadPoolExecutor(1) as thread:
        outcome = thread.submit(adapter.produce, cluster.bootstrap_servers, "orders", 0, source, "none")
        try:
            await_progress(cluster, outcome, STAGE)
            staged.released[1].set()
            move_leader(cluster, "orders")
            await_progress(cluster, outcome, 2 * STAGE)
            staged.released[2].set()
            dead = cluster.leader("orders")
            cluster.kill(dead)
            await_progress(cluster, outcome, 3 * STAGE)
            staged.released[3].set()
            cluster.restart(dead)
            cluster.wait_until_in_sync("orders")
            cluster.move_leader("orders", to=dead)
        finally:
            for event in staged.released:
                event.set()
            if isinstance(adapter, Java):
                adapter.hold.touch()
        return outcome.result(2 * PATIENCE_S)


def await_progress(cluster: Cluster, outcome: Future[Any], count: int) -> None:
    """Return when about so many records are committed."""

    def is_there() -> bool:
        committed = cluster.offsets("orders")[cluster.leader("orders")].high_watermark
        return committed >= count - AHEAD or outcome.done()

    until(is_there, lambda: cluster.offsets("orders"))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_producer_keeps_every_record_and_repeats_none(
    name: str, cluster: Cluster, client: Callable[[str], Client]
) -> None:
    adapter = client(name)
    cluster.create_topic("orders", replication_factor=3)
    records = adapter.sayable(make_records(RECORDS, seed=name))
    offsets = produce_through(cluster, adapter, records)
    assert sorted(offset for offset in offsets if offset is not None) == [*range(RECORDS)]
    received = adapter.consume(cluster.bootstrap_servers, "orders", 0, RECORDS)
    assert [one.offset for one in received] == [*range(RECORDS)]
    by_offset = {one.offset: one for one in received}
    for sent, offset in zip(records, offsets, strict=True):
        assert offset is not None
        assert (sent.key, sent.value) == (by_offset[offset].key, by_offset[offset].value)


# Groups


class Member:
    """A member of the group `readers` that notes the values it gets, until it is told to end."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.values: list[bytes] = []
        self._ending = threading.Event()
        self._outcome: Future[None] = Future()
        threading.Thread(target=self._conclude, daemon=True).start()

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    def run(self) -> None:
        raise NotImplementedError

    def _conclude(self) -> None:
        try:
            self._outcome.set_result(self.run())
        except BaseException as error:
            self._outcome.set_exception(error)

    def has(self, values: set[bytes]) -> bool:
        if self._outcome.done():
            self._outcome.result()
        return values <= {*self.values}

    def end(self) -> None:
        """Leave the group in order."""
        self._ending.set()
        self._outcome.result(PATIENCE_S)


class KafkaPythonMember(Member):
    def run(self) -> None:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaConnectionError

        consumer = KafkaConsumer(
            "orders", bootstrap_servers=self.servers, group_id="readers", auto_offset_reset="earliest"
        )
        while not self.is_ending:
            with contextlib.suppress(KafkaConnectionError):  # see docs/clients/kafka-python.md
                for records in consumer.poll(timeout_ms=1_000).values():
                    self.values += [each.value for each in records]
        consumer.close()


class AiokafkaMember(Member):
    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=self.servers, group_id="readers", auto_offset_reset="earliest"
        )
        await consumer.start()
        while not self.is_ending:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                self.values += [each.value for each in records]
        await consumer.stop()


class ConfluentMember(Member):
    def run(self) -> None:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": self.servers, "group.id": "readers", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "log_level": 0})
        consumer.subscribe(["orders"])
        while not self.is_ending:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.values.append(message.value())
        consumer.close()


class JavaMember(Member):
    """Kafka's VerifiableConsumer, which tells values with --verbose."""

    def run(self) -> None:
        command = apache_kafka.java_command("-Xmx128m", "-XX:TieredStopAtLevel=1")
        tool = "org.apache.kafka.tools.VerifiableConsumer"
        place = ["--bootstrap-server", self.servers, "--group-id", "readers", "--topic", "orders"]
        process = subprocess.Popen(
            [*command, tool, *place, "--reset-policy", "earliest", "--group-protocol", "classic", "--verbose"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        threading.Thread(target=self._terminate, args=[process], daemon=True).start()
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                said = json.loads(line)
                if said["name"] == "record_data":
                    self.values.append(said["value"].encode())
        process.wait(PATIENCE_S)
        assert self.is_ending, "it ended by itself"

    def _terminate(self, process: subprocess.Popen[str]) -> None:
        self._ending.wait()
        process.terminate()


MEMBERS: dict[str, type[Member]] = {
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
    "confluent-kafka": ConfluentMember,
    "java": JavaMember,
}
PARTITIONS = 3


class Orders:
    """A topic, and what has been written to it by a client of ours that retries until it is acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.values: set[bytes] = set()
        cluster.create_topic("orders", PARTITIONS, replication_factor=3)

    def write(self, what: str) -> set[bytes]:
        """Thirty records; returns their values."""
        written = {
            partition: [b"%s-%d-%d" % (what.encode(), partition, number) for number in range(10)]
            for partition in range(PARTITIONS)
        }

        async def produce() -> None:
            async with OurClient(self.cluster.bootstrap_servers) as ours:
                for partition, values in written.items():
                    await ours.produce("orders", partition, [record(value) for value in values])

        asyncio.run(produce())
        values = {value for each in written.values() for value in each}
        self.values |= values
        return values

    def are_committed(self) -> bool:
        """Whether the group has committed all that was written."""

        async def committed() -> int:
            async with OurClient(self.cluster.bootstrap_servers) as ours:
                offsets = await ours.committed_offsets("readers")
            return sum(one.offset for one in offsets.values())

        return asyncio.run(committed()) == len(self.values)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_group_goes_on_where_it_was_and_misses_nothing(name: str, cluster: Cluster) -> None:
    skip_without(name)
    orders = Orders(cluster)
    first = orders.write("first")
    member = MEMBERS[name](cluster.bootstrap_servers)

    def missing() -> object:
        return sorted(orders.values - {*member.values})[:10], len(member.values)

    try:
        until(lambda: member.has(first), missing)
        for partition in range(PARTITIONS):
            move_leader(cluster, "orders", partition)
        moved = orders.write("moved")
        until(lambda: member.has(moved), missing)
        coordinator = cluster.coordinator("readers")
        cluster.kill(coordinator)
        killed = orders.write("killed")
        until(lambda: member.has(killed), missing)
        cluster.restart(coordinator)
        for partition in range(PARTITIONS):
            cluster.wait_until_in_sync("orders", partition)
        back = orders.write("back")
        until(lambda: member.has(back), missing)
        # aiokafka does not end while it looks for its coordinator; that it has committed says that it has found it.
        until(orders.are_committed, missing)
    finally:
        member.end()
    assert {*member.values} == orders.values
    cluster.kill(cluster.coordinator("readers"))  # the next coordinator knows what was committed
    last = orders.write("last")
    successor = MEMBERS[name](cluster.bootstrap_servers)
    try:
        until(lambda: successor.has(last), lambda: successor.values[:10])
    finally:
        successor.end()
    assert {*successor.values} == last


def skip_without(name: str) -> None:
    """Skip where a client is not installed."""
    reason = apache_kafka.why_unavailable() if name == Java.name else client_adapters.why_unavailable(name)
    if reason:
        pytest.skip(reason)


# Transactions


@pytest.mark.parametrize("name", transactional_clients.CLIENTS)
def test_transactions_are_committed_or_not_whichever_broker_coordinates_them(name: str, cluster: Cluster) -> None:
    skip_without(name)
    cluster.create_topic("orders", replication_factor=3)
    client = transactional_clients.CLIENTS[name](cluster.bootstrap_servers, "shop")

    def kill_and_restart(broker: int) -> None:
        cluster.kill(broker)
        cluster.restart(broker)
        cluster.wait_until_in_sync("orders")

    events: list[Callable[[], None]] = [
        lambda: None,
        lambda: move_leader(cluster, "orders"),
        lambda: kill_and_restart(cluster.leader("orders")),
        lambda: kill_and_restart(cluster.transaction_coordinator("shop")),
        lambda: None,
    ]
    try:
        for number, event in enumerate(events):
            in_transaction(client, b"committed-%d" % number, event, is_committed=True)
            in_transaction(client, b"aborted-%d" % number, event, is_committed=False)
    finally:
        client.close()
    expected = [b"committed-%d-%d" % (number, n) for number in range(len(events)) for n in range(2)]
    assert read_committed(cluster.bootstrap_servers, "orders") == expected


def in_transaction(client: TransactionalClient, value: bytes, event: Callable[[], None], *, is_committed: bool) -> None:
    """Write two records in a transaction, with something happening between them."""
    client.begin()
    client.produce("orders", value + b"-0")
    event()
    client.produce("orders", value + b"-1")
    client.commit() if is_committed else client.abort()

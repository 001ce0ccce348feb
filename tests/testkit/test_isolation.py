"""`reset`, `snapshot` and `restore`, as a test suite with real clients uses them (testkit/isolation.py). That each test
of pytest finds a fresh broker: `../pytest_plugin/test_lending.py`."""

from __future__ import annotations

import asyncio
import time

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kmini import Broker, Cluster
from support.until import until


def test_a_real_producer_that_is_kept_goes_on_and_its_ids_are_given_to_no_other() -> None:
    with Broker(topics=["orders"]) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}
        kept = confluent_kafka.Producer({**settings, "client.id": "app-1"})
        kept.produce("orders", b"before")
        assert kept.flush(10) == 0
        assert broker.reset(keep=("app-*",)).closed == []
        other = confluent_kafka.Producer({**settings, "client.id": "other"})
        other.produce("orders", b"other")
        assert other.flush(10) == 0
        kept.produce("orders", b"after")
        assert kept.flush(20) == 0
        assert sorted(record.value or b"" for record in broker.records("orders")) == [b"after", b"other"]


def test_a_consumer_of_an_earlier_test_does_not_keep_the_next_one_waiting() -> None:
    with Broker(topics=["orders"], config={"group.initial.rebalance.delay.ms": 0}) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
        }
        earlier = confluent_kafka.Consumer({**settings, "client.id": "earlier"})
        earlier.subscribe(["orders"])
        until(lambda: earlier.poll(0.05) is None and earlier.assignment(), "the earlier consumer got no partition")
        report = broker.reset()
        assert {client.client_id for client in report.closed} == {"earlier"}
        assert "earlier at 127.0.0.1:" in str(report)
        earlier.close()
        broker.produce("orders", b"new")
        consumer = confluent_kafka.Consumer({**settings, "client.id": "later"})
        consumer.subscribe(["orders"])
        message = until(lambda: consumer.poll(0.05), "the record did not arrive")
        assert message.value() == b"new"
        consumer.close()


async def test_a_seed_is_restored_for_each_test_of_an_event_loop() -> None:
    async with Broker(topics=["orders"]) as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait("orders", b"seed")
        await producer.stop()
        seed = await broker.snapshot("seed")
        for _ in range(3):
            await broker.restore(seed)
            consumer = AIOKafkaConsumer(
                "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            )
            await consumer.start()
            message = await asyncio.wait_for(consumer.getone(), 20)
            assert (message.value, message.offset) == (b"seed", 0)
            await consumer.stop()
            await broker.produce("orders", b"of this test")
        report = await broker.reset()
        assert await broker.records("orders") == []
        assert isinstance(str(report), str)


@pytest.mark.parametrize("host", [Broker, Cluster])
async def test_resets_snapshots_and_restores_at_the_same_time_follow_each_other(
    host: type[Broker] | type[Cluster],
) -> None:
    async with host(topics=["orders"]) as running:
        await running.produce("orders", b"seed")
        seed = await running.snapshot("seed")
        work = [
            running.reset(),
            running.restore(seed),
            running.snapshot("other"),
            running.reset(),
            running.restore(seed),
        ]
        await asyncio.gather(*work)
        assert [record.value for record in await running.records("orders")] in ([], [b"seed"])
        await running.restore("other")
        await running.produce("orders", b"more")


@pytest.mark.parametrize("host", [Broker, Cluster])
def test_time_is_real_again(host: type[Broker] | type[Cluster]) -> None:
    with host(topics=["orders"]) as running:
        running.clock.advance("400d")
        running.clock.advance("1s", liveness=True)
        running.reset()
        assert abs(running.clock.now_ms() - time.time() * 1000) < 60_000
        running.produce("orders", b"now")
        assert abs(running.records("orders")[0].timestamp - time.time() * 1000) < 60_000
        running.clock.advance("1h")
        assert running.clock.now_ms() > time.time() * 1000 + 3_500_000


def test_many_resets_leave_no_descriptor_thread_or_file(leaves_nothing: None) -> None:
    with Broker(topics=["orders"]) as broker:
        for _ in range(50):
            broker.produce("orders", b"v")
            broker.reset()
        core = broker._operations.any_broker()
        assert core.logs.filesystem.open_descriptors < 10  # type: ignore[attr-defined]
        assert len(core._removals) <= 4

"""One append for every path: validated, written, flushed, counted once, and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kmini import Broker, Cluster
from kmini.broker.appending import until_replicated
from kmini.broker.broker import BrokerServer
from kmini.broker.purgatory import Unattended
from kmini.broker.replication.partition import Partition
from kmini.protocol.errors import CorruptMessage, InvalidRecord, RequestTimedOut, UnknownTopicOrPartition
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition

pytestmark = pytest.mark.sockets

ORDERS = TopicPartition("orders", 0)


def run(host: Broker | Cluster, coroutine: Coroutine[Any, Any, Any]) -> Any:
    return host._thread.run(coroutine)


def led_by(host: Broker | Cluster) -> tuple[BrokerServer, Partition]:
    return host._operations.leader_of("orders", 0)


def batch(count: int = 1, **options: Any) -> memoryview:
    return memoryview(build_batch([Record(n, 1_700_000_000_000, b"k", b"v" * 100) for n in range(count)], **options))


def test_a_batch_that_is_repeated_is_written_and_counted_once() -> None:
    with Broker(topics=["orders"]) as broker:
        core, led = led_by(broker)
        for expected in (False, True):
            repeated = batch(producer_id=7, producer_epoch=0, base_sequence=0)
            appended = run(broker, core.services.appender.validate_and_append(led, repeated, Unattended()))
            assert (appended.first_offset, appended.is_duplicate) == (0, expected)
        assert led.log.log_end_offset == 1
        assert 'messagesin_total{topic="orders"} 1.0' in broker.metrics_text()


@pytest.mark.parametrize(("size", "codec", "is_asked"), [(1, Codec.NONE, False), (20_000, Codec.GZIP, True)])
def test_what_may_change_is_checked_again_after_validation_in_a_thread(size: int, codec: Codec, is_asked: bool) -> None:
    asked: list[bool] = []

    def check_again() -> None:
        asked.append(True)

    with Broker(topics=["orders"], config={"message.max.bytes": 10_000_000}) as broker:
        core, led = led_by(broker)
        append = core.services.appender.validate_and_append
        run(broker, append(led, batch(size, codec=codec), Unattended(), check_again))
        assert led.log.log_end_offset == size
    assert asked == [True] * is_asked


def test_a_batch_that_is_refused_leaves_no_trace() -> None:
    with Broker(topics=["orders"]) as broker:
        core, led = led_by(broker)
        damaged = batch()
        damaged[-50:] = bytes(50)
        with pytest.raises(CorruptMessage):
            run(broker, core.services.appender.validate_and_append(led, damaged, Unattended()))
        assert (led.log.log_end_offset, broker.records("orders", isolation="all")) == (0, [])
        control = batch(producer_id=7, producer_epoch=0, transactional=True, control=True)
        with pytest.raises(InvalidRecord):
            run(broker, core.services.appender.validate_and_append(led, control, Unattended()))
        assert led.log.log_end_offset == 0


REPLICATED = {"orders": {"replication_factor": 2}}


def test_an_append_is_settled_when_the_replicas_in_sync_have_it() -> None:
    with Cluster(brokers=2, topics=REPLICATED) as cluster:
        core, led = led_by(cluster)

        async def append(timeout_ms: int) -> int:
            appended = await core.services.appender.validate_and_append(led, batch(), Unattended())
            await until_replicated(core.replica_manager, led, appended.last_offset, timeout_ms)
            return led.log.high_watermark

        assert run(cluster, append(30_000)) == 1
        follower = 3 - cluster.leader("orders")
        cluster.hold(follower)
        with pytest.raises(RequestTimedOut, match="did not follow in time"):
            run(cluster, append(1))
        assert led.log.log_end_offset == 2, "what timed out stays"


def test_a_wait_for_replicas_ends_with_an_error_when_the_partition_goes() -> None:
    with Cluster(brokers=2, topics=REPLICATED) as cluster:
        core, led = led_by(cluster)
        cluster.hold(3 - cluster.leader("orders"))

        async def append_and_delete() -> None:
            appended = await core.services.appender.validate_and_append(led, batch(), Unattended())
            waiting = asyncio.ensure_future(until_replicated(core.replica_manager, led, appended.last_offset, 60_000))
            await asyncio.sleep(0)  # let it wait
            await cluster._operations.delete_topic("orders")
            await waiting

        with pytest.raises(UnknownTopicOrPartition):
            run(cluster, append_and_delete())

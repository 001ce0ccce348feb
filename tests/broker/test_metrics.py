"""Metrics: Kafka's names by rule, and numbers that add up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import NO_PRODUCER
from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.metrics import Metrics
from kmini.broker.metrics_text import LINES_OF_A_PIECE, _labels, metrics_text, metrics_text_in_turns, name_of
from kmini.broker.replication.fetch_byte_limits import count_fetched
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.validation import ValidatedRecords
from support.broker.consumer_lab import ConsumerLab


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    broker = await BrokerServer.start(BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"}), str(tmp_path))
    yield broker
    await broker.stop()


def samples(broker: BrokerServer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics_text(broker))
        for sample in family.samples
    }


def read(topic: str, size: int, error_code: int = 0, *, is_follower: bool = False) -> tuple[list[Any], list[Any]]:
    """One partition of a fetch and its answer, as far as metrics look at them."""
    reader = SimpleNamespace(is_follower=is_follower)
    wanted = SimpleNamespace(topic_partition=TopicPartition(topic, 0), reader=reader)
    return [wanted], [SimpleNamespace(error_code=error_code, records=b"x" * size)]


@pytest.mark.parametrize(
    ("mbean", "name"),
    [
        (
            "kafka.log:type=LogCleaner,name=max-compaction-delay-secs",
            "kafka_log_logcleaner_max_compaction_delay_secs",
        ),
        (
            "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
            "kafka_server_brokertopicmetrics_messagesin_total",
        ),
        (
            "kafka.network:type=RequestMetrics,name=TotalTimeMs",
            "kafka_network_requestmetrics_totaltimems",
        ),
    ],
)
def test_names_follow_from_kafkas_by_rule(mbean: str, name: str) -> None:
    assert name_of(mbean) == name


async def test_traffic_is_told_per_topic_and_for_the_broker(broker: BrokerServer) -> None:
    broker.metrics.produced("a", 3, 300)
    broker.metrics.produced("a", 1, 100)
    broker.metrics.produced("b", 10, 50)
    count_fetched(broker.metrics, *read("a", 7))
    told = samples(broker)
    prefix = "kafka_server_brokertopicmetrics_"
    assert told[prefix + "messagesin_total", (("topic", "a"),)] == 4
    assert told[prefix + "messagesin_total", ()] == 14
    assert told[prefix + "bytesin_total", ()] == 450
    assert told[prefix + "bytesout_total", (("topic", "a"),)] == 7
    assert told[prefix + "totalproducerequests_total", ()] == 3
    assert told[prefix + "totalfetchrequests_total", ()] == 1


async def test_a_read_that_failed_is_not_traffic(broker: BrokerServer) -> None:
    count_fetched(broker.metrics, *read("a", 0, error_code=1))
    assert broker.metrics.topics == {}


async def test_a_deleted_topic_leaves_the_brokers_totals_as_they_were(broker: BrokerServer) -> None:
    topics.create(broker, "a")
    broker.metrics.produced("a", 3, 300)
    topics.delete(broker, "a")
    broker.metrics.produced("b", 1, 1)
    told = samples(broker)
    assert told["kafka_server_brokertopicmetrics_messagesin_total", ()] == 4
    assert ("kafka_server_brokertopicmetrics_messagesin_total", (("topic", "a"),)) not in told


async def test_requests_are_counted_and_timed_by_api(broker: BrokerServer) -> None:
    for seconds in (0.0000005, 0.0001, 0.0001, 1000.0):
        broker.metrics.of_api(0).seconds_taken.append(seconds)
    broker.metrics.of_api(3).seconds_taken.append(0.002)
    told = samples(broker)
    name = "kafka_network_requestmetrics_totaltimems"
    assert told["kafka_network_requestmetrics_requests_total", (("request", "Produce"),)] == 4
    assert told["kafka_network_requestmetrics_requests_total", (("request", "Metadata"),)] == 1
    assert told[name + "_count", (("request", "Produce"),)] == 4
    assert told[name + "_sum", (("request", "Produce"),)] == pytest.approx(1_000_000.2005)
    buckets = {
        float(dict(labels)["le"]): value
        for (sample, labels), value in told.items()
        if sample == name + "_bucket" and dict(labels)["request"] == "Produce"
    }
    assert buckets[0.001] == 1, "half a microsecond"
    assert (buckets[0.064], buckets[0.128]) == (1, 3), "a tenth of a millisecond, twice"
    assert (buckets[max(le for le in buckets if le != float("inf"))], buckets[float("inf")]) == (3, 4)
    assert list(buckets.values()) == sorted(buckets.values())


async def test_errors_are_counted_by_api_and_name(broker: BrokerServer) -> None:
    broker.metrics.failed(22, "INVALID_REQUEST")
    broker.metrics.failed(22, "INVALID_REQUEST")
    labels = (("error", "INVALID_REQUEST"), ("request", "InitProducerId"))
    assert samples(broker)["kafka_network_requestmetrics_errors_total", labels] == 2


async def test_every_log_tells_its_size_and_offsets(broker: BrokerServer) -> None:
    topics.create(broker, "t", partitions=2)
    told = samples(broker)
    for partition in "01":
        labels = (("partition", partition), ("topic", "t"))
        for name in ("size", "logstartoffset", "logendoffset"):
            assert told[f"kafka_log_log_{name}", labels] == 0
        assert told["kafka_log_log_numlogsegments", labels] == 1
    assert told["kafka_controller_kafkacontroller_globaltopiccount", ()] == 1
    assert told["kafka_server_replicamanager_leadercount", ()] == 2
    assert told["kafka_server_replicamanager_underreplicatedpartitions", ()] == 0


async def test_what_waits_and_who_is_connected_is_told(broker: BrokerServer) -> None:
    told = samples(broker)
    assert told["kafka_server_delayedoperationpurgatory_purgatorysize", ()] == 0
    assert told["kafka_server_socket_server_metrics_connection_count", (("listener", "PLAINTEXT"),)] == 0
    assert told["kmini_uptime_seconds", ()] >= 0


async def test_groups_are_counted_by_kind_and_state(tmp_path: Path) -> None:
    lab = ConsumerLab(tmp_path)
    await lab.start()
    lab.add_topics("orders")
    await lab.join("a", "orders")
    await lab.join("b", "orders", group="other")
    await lab.leave("b", group="other")
    lab.groups.groups.put(ClassicGroup("simple", 0))
    told = samples(lab.broker)
    await lab.stop()
    coordinator = "kafka_server_group_coordinator_metrics"
    assert told[f"{coordinator}_group_count", (("protocol", "consumer"),)] == 2
    assert told[f"{coordinator}_group_count", (("protocol", "classic"),)] == 1
    states = {dict(labels)["state"]: value for (name, labels), value in told.items() if "consumer_group_count" in name}
    assert states == {"Empty": 1, "Assigning": 0, "Reconciling": 0, "Stable": 1, "Dead": 0}
    assert told[f"{coordinator}_consumer_group_rebalance_count", ()] == 2
    assert told["kafka_coordinator_group_groupmetadatamanager_numgroups", ()] == 1
    assert told[f"{coordinator}_classic_group_count", (("state", "Empty"),)] == 1


def test_a_broker_without_traffic_has_only_zeros() -> None:
    total = Metrics().total()
    assert {getattr(total, name) for name in total.__slots__} == {0}


async def test_open_transactions_and_their_age_are_told(broker: BrokerServer) -> None:
    topics.create(broker, "orders", partitions=1)
    broker.transactions.store.topic.coordinator_of("t")
    owner = await broker.transactions.init_producer_id("t", 60_000, NO_PRODUCER)
    told = samples(broker)
    assert (told["kmini_transactions_open", ()], told["kmini_transactions_transactional_ids", ()]) == (0, 1)
    assert told["kmini_transactions_oldest_open_seconds", ()] == 0
    await broker.transactions.add_partitions("t", owner, [TopicPartition("orders", 0)])
    broker.transactions.transactions["t"].began_ms -= 5_000
    told = samples(broker)
    assert told["kmini_transactions_open", ()] == 1
    assert told["kmini_transactions_oldest_open_seconds", ()] >= 5


async def test_a_transaction_that_hangs_is_late(broker: BrokerServer) -> None:
    topics.create(broker, "orders", partitions=1)
    late = ("kafka_server_replicamanager_partitionswithlatetransactionscount", ())
    now_ms = broker.clock.now_ms()
    for producer_id, timestamp in ((1, now_ms - 1_100_000), (2, now_ms - 1_300_000)):
        records = [Record(0, timestamp, None, b"v")]
        batch = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        broker.replica_manager.partitions[TopicPartition("orders", 0)].append(ValidatedRecords.of(batch), now_ms)
        assert samples(broker)[late] == producer_id - 1


async def test_metrics_in_turns_are_the_same_and_let_the_loop_go_on(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(broker, "orders", partitions=1000)
    monkeypatch.setattr("kmini.broker.metrics_text.TURN_S", 0.0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.ensure_future(others())
    text = await metrics_text_in_turns(broker)
    beside.cancel()
    assert turns > 4 * 1000 / LINES_OF_A_PIECE

    def stable(text: str) -> list[str]:
        return [line for line in text.splitlines() if "uptime" not in line and "last_run" not in line]

    assert stable(text) == stable(metrics_text(broker))
    assert sum("kafka_log_log_size{" in line for line in text.splitlines()) == 1000


def test_a_label_is_quoted_as_the_format_says() -> None:
    text = f"metric{_labels({'b': 'x', 'a': chr(34) + chr(92) + chr(10)})} 1.0\n"
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"a": '"\\\n', "b": "x"}
    assert text.startswith('metric{a="')


def test_the_total_counts_all_topics_and_those_that_are_deleted() -> None:
    metrics = Metrics()
    for number, topic in enumerate(("a", "b", "c"), 1):
        metrics.produced(topic, messages=number, size=10 * number)
        metrics.fetched(topic, size=100 * number)
    metrics.forget("c")
    total = metrics.total()
    assert (total.messages_in, total.bytes_in, total.bytes_out) == (6, 60, 600)
    assert (total.produce_requests, total.fetch_requests) == (3, 3)

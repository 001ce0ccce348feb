"""A crash leaves the damage that is asked for in the files of one topic, and the start mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmini import Broker, Cluster, KafkaError


def values(broker: Broker | Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def test_a_torn_topic_has_lost_the_last_batch_of_each_partition_and_other_topics_nothing() -> None:
    with Broker(topics={"orders": 2, "other": 1, "orders-0": 1}) as broker:
        for value in (b"1", b"2"):
            for partition in (0, 1):
                broker.topic("orders").produce(value, partition=partition)
            broker.produce("other", value)
            broker.produce("orders-0", value)
        broker.crash(torn="orders")
        assert [record.value for record in broker.topic("orders").records()] == [b"1", b"1"]
        assert values(broker, "other") == values(broker, "orders-0") == [b"1", b"2"]
        assert broker.produce("orders", b"3", partition=0) == 1


def test_a_topic_without_a_record_has_nothing_to_tear(tmp_path: Path) -> None:
    with Broker(topics=["orders"], data_dir=tmp_path) as broker:
        broker.crash(torn="orders", unindexed="orders")
        assert values(broker, "orders") == []


def test_lost_indexes_are_made_anew_and_written_with_the_next_flush() -> None:
    with Broker(topics={"orders": {"partitions": 1, "config": {"index.interval.bytes": 1}}}) as broker:
        for value in (b"1", b"2", b"3", b"4"):
            broker.produce("orders", value)
        broker.topic("orders").roll()
        directory = Path(str(broker.data_dir)) / "broker-1" / "orders-0"
        broker.stop()
        before = (directory / "00000000000000000000.index").read_bytes()
        assert before
        broker.start()
        broker.crash(unindexed="orders")
        assert values(broker, "orders") == [b"1", b"2", b"3", b"4"]
        broker.stop()
        assert (directory / "00000000000000000000.index").read_bytes() == before


def test_a_torn_replica_has_its_records_again_from_the_leader() -> None:
    with Cluster(brokers=2, topics={"orders": {"replication_factor": 2}}) as cluster:
        cluster.produce("orders", b"1")
        cluster.wait_until_in_sync("orders")
        follower = 3 - cluster.leader("orders")
        cluster.crash(follower, torn="orders")
        cluster.wait_until_in_sync("orders")
        assert {one.log_end_offset for one in cluster.offsets("orders").values()} == {1}


def test_a_topic_that_does_not_exist_is_refused_before_the_crash() -> None:
    with Broker(topics=["orders"]) as broker, pytest.raises(KafkaError, match="there is no topic ordres"):
        broker.crash(torn="ordres")

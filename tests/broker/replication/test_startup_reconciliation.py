"""What a start makes of folders and database: what it finishes, removes, takes in or leaves alone."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
)
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from kmini.storage.filenames import DATABASE
from kmini.storage.log_config import LogConfig
from kmini.storage.validation import validate
from support.broker.clusters import Clusters

StartBroker = Callable[..., Awaitable[BrokerServer]]


def append_a_record(broker: BrokerServer, topic_partition: TopicPartition) -> None:
    partition, now_ms = broker.replica_manager.leader_of(topic_partition), broker.clock.now_ms()
    batch = build_batch([Record(0, now_ms, b"key", b"value")])
    partition.append(validate(memoryview(batch), partition.log.config, now_ms), now_ms)


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    return tmp_path / "broker-1"


async def test_a_partition_without_a_folder_gets_one_at_the_next_start(
    start_broker: StartBroker, log_directory: Path
) -> None:
    broker = await start_broker()
    made = topics.create(broker, "t", partitions=3)
    await broker.stop()
    shutil.rmtree(log_directory / "t-1")
    again = await start_broker()
    assert again.controller.topics["t"].id == made.id
    assert again.replica_manager.leader_of(TopicPartition("t", 1)).log.topic_id == made.id


async def test_every_start_begins_a_new_leader_epoch(start_broker: StartBroker) -> None:
    for epoch in range(3):
        broker = await start_broker()
        if epoch == 0:
            topics.create(broker, "t", partitions=2)
        assert [state.leader_epoch for state in broker.controller.topics["t"].partitions] == [epoch, epoch]
        assert broker.replica_manager.leader_of(TopicPartition("t", 1)).leader_epoch == epoch
        await broker.stop()


async def test_a_half_made_folder_is_completed(start_broker: StartBroker, log_directory: Path) -> None:
    broker = await start_broker()
    made = topics.create(broker, "t", partitions=2)
    await broker.stop()
    (log_directory / "t-1" / "partition.metadata").unlink()
    again = await start_broker()
    assert again.replica_manager.leader_of(TopicPartition("t", 1)).log.topic_id == made.id
    assert (log_directory / "t-1" / "partition.metadata").read_text().startswith("version: 0\ntopic_id: ")


async def test_a_half_made_folder_of_no_topic_is_removed(start_broker: StartBroker, log_directory: Path) -> None:
    broker = await start_broker()
    await broker.stop()
    (log_directory / "t-0").mkdir()
    (log_directory / "t-0" / "00000000000000000000.log").touch()
    again = await start_broker()
    assert again.controller.topics == {}
    assert not (log_directory / "t-0").exists()


@pytest.mark.parametrize("has_id", [True, False])
async def test_a_half_made_folder_of_a_partition_that_the_topic_does_not_have_is_removed(
    start_broker: StartBroker, log_directory: Path, has_id: bool
) -> None:
    """Another broker refused its partition of a CreatePartitions, and the removal here was lost with the power. Later
    the partition may be for other brokers only."""
    broker = await start_broker()
    topics.create(broker, "t", partitions=1)
    await broker.stop()
    (log_directory / "t-1").mkdir()
    if has_id:
        shutil.copy(log_directory / "t-0" / "partition.metadata", log_directory / "t-1")
    again = await start_broker()
    assert TopicPartition("t", 1) not in again.logs.logs
    assert not (log_directory / "t-1").exists()


@pytest.mark.sockets
async def test_a_half_made_folder_of_a_partition_that_others_have_is_removed(clusters: Clusters) -> None:
    cluster = await clusters.start(2)
    topic = topics.create(cluster.brokers[2], "t", partitions=1, replication_factor=1)
    await cluster.kill(1)
    folder = Path(cluster.data_dir) / "broker-1" / "t-1"
    folder.mkdir()
    await topics.add_partitions(cluster.brokers[2], topic, [[2]])
    await cluster.restart(1)
    assert TopicPartition("t", 1) not in cluster.brokers[1].logs.logs
    assert not folder.exists()


async def test_a_partition_that_the_database_does_not_have_is_left_alone_with_its_records(
    start_broker: StartBroker, log_directory: Path
) -> None:
    broker = await start_broker()
    topics.create(broker, "t", partitions=1)
    append_a_record(broker, TopicPartition("t", 0))
    await broker.stop()
    shutil.copytree(log_directory / "t-0", log_directory / "t-1")
    again = await start_broker()
    assert again.logs.logs[TopicPartition("t", 1)].log_end_offset == 1


async def test_a_deletion_that_a_kill_interrupted_is_finished(
    start_broker: StartBroker, log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await start_broker()
    topics.create(broker, "t", partitions=3)
    monkeypatch.setattr(
        broker.replica_manager, "drop", lambda topic_partition: (_ for _ in ()).throw(KafkaStorageError("killed"))
    )
    topics.delete(broker, "t")
    await broker.stop()
    assert (log_directory / "t-2").exists()
    again = await start_broker()
    assert again.controller.topics == {}
    assert again.logs.logs == {}
    assert not (log_directory / "t-2").exists()
    assert topics.create(again, "t").partitions


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])
async def test_internal_topics_are_taken_in_with_the_settings_that_keep_their_records(
    name: str, start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = await start_broker()
    made = topics.create_missing(broker, name)
    await broker.stop()
    (tmp_path / DATABASE).unlink()
    again = await start_broker()
    assert again.controller.topics[name].configs == made.configs
    assert not again.replica_manager.leader_of(TopicPartition(name, 0)).log.config.is_deletable


async def test_folders_unknown_to_a_lost_database_are_taken_in_with_their_records(
    start_broker: StartBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker()
    made = topics.create(broker, "t", partitions=3)
    append_a_record(broker, TopicPartition("t", 1))
    cluster_id = broker.controller.cluster_id
    await broker.stop()
    (tmp_path / DATABASE).unlink()
    with caplog.at_level(logging.WARNING, "kmini.topics"):
        again = await start_broker()
    adopted = again.controller.topics["t"]
    assert (adopted.id, len(adopted.partitions)) == (made.id, 3)
    assert again.controller.cluster_id == cluster_id
    assert [state.leader_epoch for state in adopted.partitions] == [1, 1, 1], "above what the log holds"
    assert again.replica_manager.leader_of(TopicPartition("t", 1)).log.high_watermark == 1
    assert len(again.replica_manager.partitions) == 3
    assert "took in topic t" in caplog.text


async def test_a_folder_with_an_absurd_number_is_left_alone(start_broker: StartBroker, log_directory: Path) -> None:
    broker = await start_broker()
    topics.create(broker, "t")
    await broker.stop()
    (log_directory / "t-0").rename(log_directory / "u-2000000000")
    again = await start_broker()
    assert set(again.controller.topics) == {"t"}
    assert (log_directory / "u-2000000000").exists()


async def test_a_folder_of_another_topic_of_that_name_is_left_alone_and_not_served(
    start_broker: StartBroker, log_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker()
    topics.create(broker, "t", partitions=2)
    topics.create(broker, "other")
    await broker.stop()
    shutil.copy(log_directory / "other-0" / "partition.metadata", log_directory / "t-1" / "partition.metadata")
    again = await start_broker()
    assert again.replica_manager.leader_of(TopicPartition("t", 0))
    with pytest.raises(NotLeaderOrFollower):
        again.replica_manager.leader_of(TopicPartition("t", 1))
    assert "t-1 cannot be held: its folder belongs to another topic" in caplog.text


async def test_one_partition_that_the_disk_refuses_does_not_stop_the_start(
    start_broker: StartBroker, log_directory: Path
) -> None:
    broker = await start_broker()
    topics.create(broker, "t", partitions=2)
    await broker.stop()
    shutil.rmtree(log_directory / "t-1")
    (log_directory / "t-1").write_text("a file where the folder should be")
    again = await start_broker()
    assert again.replica_manager.leader_of(TopicPartition("t", 0))
    with pytest.raises(NotLeaderOrFollower):
        again.replica_manager.leader_of(TopicPartition("t", 1))


async def test_a_brokers_new_defaults_do_not_stop_a_topic_that_contradicts_them(start_broker: StartBroker) -> None:
    broker = await start_broker()
    topics.create(broker, "t", configs={"min.compaction.lag.ms": "1000"})
    await broker.stop()
    again = await start_broker(log_cleaner_max_compaction_lag_ms=5)
    assert again.replica_manager.leader_of(TopicPartition("t", 0)).log.config == LogConfig(min_compaction_lag_ms=1000)

"""Settings that an audit reads from the metadata log of Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kmini.cli.audit_policies import policies_of, stored_settings
from kmini.pipeline.logs.log_dir import LogDir
from kmini.protocol.metadata_records import ConfigRecord, MetadataRecord, TopicRecord
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record

TOPIC, BROKER = 2, 4
REMOVE_TOPIC = bytes([1, 9, 0])
"""The frame of a record that removes a topic; its id follows, and no tagged fields."""


def batch(offset: int, *records: MetadataRecord | bytes) -> bytes:
    values = [record if isinstance(record, bytes) else record.framed() for record in records]
    return bytes(
        build_batch([Record(offset + n, 0, None, value) for n, value in enumerate(values)], base_offset=offset)
    )


def setting(name: str, key: str, value: str | None, kind: int = TOPIC) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    return folder


def topic(name: str, number: int) -> TopicRecord:
    return TopicRecord(name=name, topic_id=bytes([number]) * 16)


def test_the_newest_snapshot_and_what_came_after_it_count(metadata: Path) -> None:
    old = setting("orders", "max.compaction.lag.ms", "1")
    (metadata / "00000000000000000000.log").write_bytes(
        batch(0, topic("orders", 1), old, topic("gone", 2), setting("gone", "cleanup.policy", "compact"))
        + batch(4, setting("orders", "cleanup.policy", "compact"), setting("orders", "segment.ms", None))
        + batch(6, REMOVE_TOPIC + bytes([2]) * 16 + b"\0", setting("", "log.cleaner.delete.retention.ms", "9", BROKER))
        + batch(8, old)[:-3]  # it is just being written
    )
    (metadata / "00000000000000000002-0000000001.checkpoint").write_bytes(batch(0, topic("stale", 3)))
    (metadata / "00000000000000000004-0000000001.checkpoint").write_bytes(
        batch(0, topic("orders", 1), setting("orders", "max.compaction.lag.ms", "77"), topic("gone", 2))
        + batch(3, setting("orders", "segment.ms", "5"))
    )
    settings = stored_settings(LogDir(metadata.parent))
    assert settings.topics == {"orders": {"cleanup.policy": "compact", "max.compaction.lag.ms": "77"}}
    assert settings.brokers == {"": {"log.cleaner.delete.retention.ms": "9"}}
    policies, default, source = policies_of(
        LogDir(metadata.parent), broker_configs=(), topic_configs=("orders:delete.retention.ms=3",), broker_answers=None
    )
    assert (policies["orders"].bound_ms, policies["orders"].delete_retention_ms) == (77, 3)
    assert (default.is_compacted, default.delete_retention_ms) == (False, 9)
    assert policies["__consumer_offsets"].is_compacted
    assert source == str(metadata)


def test_settings_that_only_apache_kafka_takes_do_no_harm(metadata: Path) -> None:
    (metadata / "00000000000000000000.log").write_bytes(
        batch(0, topic("orders", 1), setting("orders", "remote.storage.enable", "true"))
        + batch(2, setting("orders", "cleanup.policy", ""), setting("orders", "of.tomorrow", "1"))
    )
    policies, _, _ = policies_of(LogDir(metadata.parent), broker_configs=(), topic_configs=(), broker_answers=None)
    assert not policies["orders"].is_compacted


def test_it_is_found_from_the_folder_of_a_partition(metadata: Path) -> None:
    (metadata / "00000000000000000000.log").write_bytes(batch(0, topic("orders", 1)))
    partition = metadata.parent / "orders-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(b"")
    assert stored_settings(LogDir(partition)).topics == {"orders": {}}


def test_a_damaged_metadata_log_is_refused_and_not_guessed_at(metadata: Path) -> None:
    (metadata / "00000000000000000000.log").write_bytes(batch(0, b"\x01\x04\x00\x02"))
    with pytest.raises(click.UsageError, match=r"cannot be read .*; give --topic-config instead"):
        stored_settings(LogDir(metadata.parent))

"""Replays that are killed, and those that are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kmini import Broker
from support.archives import consume_with_offsets, write_archive
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kmini.pipeline.clients import Kafka


@pytest.fixture(scope="module")
def broker(need_spark: None) -> Iterator[Broker]:
    with Broker(config={"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="module")
def kafka(broker: Broker) -> Kafka:
    from kmini.pipeline.clients import Kafka

    return Kafka(broker.bootstrap_servers)


def rows_of(count: int, salt: str = "") -> list[Any]:
    from kmini.pipeline.archives.archive_files import Row

    return [
        Row(2 * number, 1_000 + number, 0, b"key", b"%d%s" % (number, salt.encode()), None) for number in range(count)
    ]


def ends(broker: Broker, topic: str, partitions: int) -> list[int]:
    return [broker.offsets(topic, partition).log_end_offset for partition in range(partitions)]


def session_members(session: int) -> list[int]:
    """The processes of a session that have not ended. A system without /proc shows none of them."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, _, its_session, *_ = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(its_session) == session and state != "Z":
                members.append(int(path.parent.name))
    return members


def test_after_the_driver_was_killed_a_second_run_goes_on_and_nothing_is_there_twice(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive_files import ArchiveError
    from kmini.pipeline.archives.cluster_topics import Topics
    from kmini.pipeline.archives.replay import replay_topic

    count, configs = 40_000, {"max.message.bytes": "1000", "cleanup.policy": "compact"}  # small batches take their time
    archive = write_archive(tmp_path, "killed", [rows_of(count), rows_of(count // 2)], configs)
    command = [sys.executable, "-m", "kmini", "replay", archive, "-b", broker.bootstrap_servers, "--master", "local[2]"]
    connections = broker._operations.any_broker().server.connections
    before = {*connections}
    with (tmp_path / "log").open("wb") as log:
        environ = {**os.environ, "TMPDIR": str(tmp_path)}
        driver = subprocess.Popen(command, stdout=log, stderr=log, env=environ, start_new_session=True)

        def has_begun() -> bool:
            assert driver.poll() is None, (tmp_path / "log").read_text()
            return "killed" in broker.topics() and sum(ends(broker, "killed", 2)) >= 2_000

        try:
            until(has_begun, "the begin of the replay", timeout_s=120, poll_s=0.02)
        finally:
            driver.send_signal(signal.SIGKILL)
            for member in session_members(driver.pid):  # its executors may write all the rest before they notice
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            driver.wait()
    until(
        lambda: not session_members(driver.pid) and {*connections} <= before, "the end of its executors", timeout_s=120
    )
    there = ends(broker, "killed", 2)
    assert 0 < sum(there) < count + count // 2
    assert Topics(kafka).get("killed").configs["cleanup.policy"] == "delete"
    with pytest.raises(ArchiveError, match="--resume"):
        replay_topic(spark, archive, "killed", kafka)
    done = replay_topic(spark, archive, "killed", kafka, resume=True)
    assert (done.found, done.written) == (sum(there), count + count // 2 - sum(there))
    assert Topics(kafka).get("killed").configs == configs
    for partition, rows in enumerate([rows_of(count), rows_of(count // 2)]):
        records = broker.records("killed", partition)
        assert [(one.offset, one.timestamp, one.key, one.value) for one in records] == [
            (number, row.timestamp_ms, row.key, row.value) for number, row in enumerate(rows)
        ]


def test_what_is_no_beginning_of_this_replay_is_refused_and_left_alone(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive_files import ArchiveError
    from kmini.pipeline.archives.replay import replay_topic

    archive = write_archive(tmp_path, "mine", [rows_of(4), rows_of(4)])
    other = write_archive(tmp_path / "other", "mine", [rows_of(2), rows_of(2, "of another")])
    replay_topic(spark, other, "mine", kafka)
    with pytest.raises(ArchiveError, match=r"mine-1: its last record, at offset 1, has not the value of row 1"):
        replay_topic(spark, archive, "mine", kafka, resume=True)
    assert ends(broker, "mine", 2) == [4, 2]  # the other partition was what it should be
    with pytest.raises(ArchiveError, match=r"it has 4 records, and the archive 2"):
        replay_topic(spark, other, "mine", kafka, resume=True)


def test_a_topic_of_another_number_of_partitions_is_refused(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive_files import ArchiveError
    from kmini.pipeline.archives.replay import replay_topic

    archive = write_archive(tmp_path, "narrow", [rows_of(4)])
    broker.create_topic("wide", 2)
    for resume in (False, True):
        with pytest.raises(ArchiveError, match="wide has 2 partitions, and the archived topic 1"):
            replay_topic(spark, archive, "narrow", kafka, to="wide", resume=resume)
    assert ends(broker, "wide", 2) == [0, 0]


def test_a_record_that_the_topic_refuses_ends_its_partition_with_the_reason(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive_files import ArchiveError, Row
    from kmini.pipeline.archives.replay import replay_topic

    rows = [Row(n, 1, 0, None, b"v" * (5_000 if n == 3 else 5), None) for n in range(6)]
    archive = write_archive(tmp_path, "large", [rows, rows_of(4)])
    broker.create_topic("small", 2, config={"max.message.bytes": "1000"})
    with pytest.raises(ArchiveError, match=r"small-0: .*Message size too large"):
        replay_topic(spark, archive, "large", kafka, to="small", compression="none")
    assert [one.value for one in broker.records("small", 0)] == [
        row.value for row in rows[: ends(broker, "small", 1)[0]]
    ]
    assert ends(broker, "small", 2)[0] <= 3
    assert ends(broker, "small", 2)[1] == 4
    done = replay_topic(spark, archive, "large", kafka, to="large-enough")  # the limit of a new topic is lifted
    assert done.written == 10


def test_settings_that_brokers_do_not_know_or_refuse_are_named(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.cluster_topics import Topics
    from kmini.pipeline.archives.replay import replay_topic

    configs = {"min.insync.replicas": "3", "of.another.make": "1", "segment.bytes": "no number", "retention.ms": "5000"}
    archive = write_archive(tmp_path, "strange", [rows_of(1)], configs)
    done = replay_topic(spark, archive, "strange", kafka)
    assert [note.split(" was ")[0].split(" could ")[0] for note in done.notes] == [
        "min.insync.replicas=3",
        "of.another.make=1",
        "segment.bytes",
    ]
    assert Topics(kafka).get("strange").configs == {"retention.ms": "5000"}


def test_offsets_are_kept_where_the_archive_has_no_gaps_and_as_a_header_where_asked(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.replay import replay_topic

    archive = write_archive(
        tmp_path, "gaps", [rows_of(3), [row._replace(offset=row.offset // 2) for row in rows_of(3)]]
    )
    replay_topic(spark, archive, "gaps", kafka, with_offsets=True)
    found = consume_with_offsets(broker.bootstrap_servers, "gaps")
    assert [(one.partition, offset, one.headers) for offset, one in found] == [
        (partition, number, (("kmini.offset", b"%d" % (number * step)),))
        for partition, step in ((0, 2), (1, 1))
        for number in range(3)
    ]

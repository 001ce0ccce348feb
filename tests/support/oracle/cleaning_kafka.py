"""An Apache Kafka whose cleaner works when it is told to."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest, IncrementalAlterConfigsRequest

from kmini.protocol.records.batch import iter_batches
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.log_config import LogConfig
from kmini.storage.offset_checkpoint_file import read_offsets
from support.kafka_requests import create_topics, fetch, list_offsets, wait_for_leaders
from support.oracle.cleaned_logs import Cleaning, read_folder
from support.oracle.compaction_histories import History
from support.server_process import ServerProcess, kafka_command
from support.until import until
from support.wire import Wire

CONFIG = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.retention.ms": "-1",
    "transaction.partition.verification.enable": "false",
}
"""Data and markers of transactions come as a history has drawn them, without a coordinator."""


TOPIC, BROKER = 2, 4
"""Types of resources."""
FEW_KEYS = 4


class Told(NamedTuple):
    """What a broker tells of a log."""

    data: bytes
    """Every batch, from the log start on."""
    log_start_offset: int
    log_end_offset: int
    producers: list[tuple[int, ...]]


class CleaningKafka:
    """Apache Kafka with a topic for each history."""

    def __init__(self, directory: Path, histories: list[History]) -> None:
        self.directory = directory
        self.log_directory = directory / "data" / "log"
        self.histories = histories
        for history in histories:
            if history.is_old:
                history.write_folder(self.folder(history))
        self._process = ServerProcess(kafka_command(directory / "data", CONFIG, "--adopt"), directory / "server.log")

    def __enter__(self) -> CleaningKafka:
        self._connect()
        topics = [{"name": h.topic, "configs": h.configs} for h in self.histories if not h.is_old]
        assert not any(topic.error_code for topic in self.wire.ask(create_topics(*topics), 7).topics)
        self._await_leaders()
        self._alter({history.topic: history.configs for history in self.histories if history.is_old})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wire.socket.close()
        self._process.kill()

    def _connect(self) -> None:
        self.wire = Wire(self._process.host, self._process.port)

    def _await_leaders(self) -> None:
        for history in self.histories:
            wait_for_leaders(self.wire, history.topic, 1)

    def stop(self) -> None:
        self.wire.socket.close()
        self._process.stop()

    def start(self) -> None:
        self._process.start()
        self._connect()
        self._await_leaders()

    def told(self, history: History) -> Told:
        return told_by(self.wire, history.topic)

    # Cleaning

    def shrink_map(self) -> None:
        """Have it clean with a map for `FEW_KEYS` from now on."""
        slots = int(CONFIG["log.cleaner.dedupe.buffer.size"]) // 24
        self._alter({"1": {"log.cleaner.io.buffer.load.factor": f"{(FEW_KEYS + 0.5) / slots:.9f}"}}, BROKER)

    def clean(self, histories: list[History], *, retention_ms: int | None = None) -> list[Cleaning]:
        """Write a round of each history, and have all of them cleaned, with a `delete.retention.ms` that each draws
        unless it is given."""
        checkpoints = self._checkpoints()
        for history in histories:
            history.write_round(self.wire)
        rows = [
            self._prepared(
                history,
                checkpoints.get(TopicPartition(history.topic, 0)),
                history.draw_retention() if retention_ms is None else retention_ms,
            )
            for history in histories
        ]
        self._check_nothing_was_cleaned(histories, checkpoints)
        self._alter(
            {
                history.topic: {
                    "cleanup.policy": history.policy,
                    "delete.retention.ms": str(row.config.delete_retention_ms),
                    "min.cleanable.dirty.ratio": "0.0",
                }
                for history, row in zip(histories, rows, strict=True)
            }
        )
        self._wait(histories, rows)
        ended_ms = time.time_ns() // 1_000_000
        self._alter({history.topic: {"min.cleanable.dirty.ratio": "1.0"} for history in histories})
        after = [read_folder(self.folder(history)) for history in histories]
        return [row._replace(after=files, ended_ms=ended_ms) for row, files in zip(rows, after, strict=True)]

    def folder(self, history: History) -> Path:
        return self.log_directory / f"{history.topic}-0"

    def _prepared(self, history: History, checkpoint: int | None, retention_ms: int) -> Cleaning:
        """The cleaning that is to come, with the copy from before."""
        config = LogConfig(
            cleanup_policy=tuple(history.policy.split(",")),
            segment_bytes=history.segment_bytes,
            segment_index_bytes=int(history.configs["segment.index.bytes"]),
            index_interval_bytes=int(history.configs["index.interval.bytes"]),
            message_timestamp_type=history.configs["message.timestamp.type"],
            retention_ms=-1,
            delete_retention_ms=retention_ms,
        )
        partition, start_offset = TopicPartition(history.topic, 0), history.log_start_offset
        files = read_folder(self.folder(history))
        row = Cleaning(partition, history.rounds, files, {}, config, start_offset, checkpoint, 0, 0)
        loaded = row.load(files)
        assert loaded.log.log_end_offset == history.log_end_offset
        return row._replace(end_offset=loaded.cleanable_end(checkpoint))

    def _checkpoints(self) -> dict[TopicPartition, int]:
        path = self.log_directory / "cleaner-offset-checkpoint"
        return read_offsets(OsFileSystem(), str(path)) if path.exists() else {}

    def _check_nothing_was_cleaned(self, histories: list[History], checkpoints: dict[TopicPartition, int]) -> None:
        """Where DeleteRecords went beyond a checkpoint, Kafka has moved that at once."""
        reached = self._checkpoints()
        for history in histories:
            partition = TopicPartition(history.topic, 0)
            assert reached.get(partition) in (checkpoints.get(partition), history.log_start_offset), history.topic

    def _wait(self, histories: list[History], rows: list[Cleaning]) -> None:
        def missing() -> list[str]:
            reached = self._checkpoints()
            return [
                f"{history.topic}: {reached.get(TopicPartition(history.topic, 0))} of {row.end_offset}"
                for history, row in zip(histories, rows, strict=True)
                if row.is_due and reached.get(TopicPartition(history.topic, 0)) != row.end_offset
            ]

        until(lambda: not missing(), missing, timeout_s=120, poll_s=0.05)

    def _alter(self, configs: dict[str, dict[str, str]], kind: int = TOPIC) -> None:
        """Set the settings of each topic or broker."""
        Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        to_set = 0
        resources = [
            Resource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    Resource.AlterableConfig(name=key, config_operation=to_set, value=value)
                    for key, value in entries.items()
                ],
            )
            for name, entries in configs.items()
        ]
        answer = self.wire.ask(IncrementalAlterConfigsRequest(resources=resources, validate_only=False), 1)
        assert not [each for each in answer.responses if each.error_code], answer


def told_by(wire: Wire, topic: str) -> Told:
    """What a broker tells of partition 0 of a topic."""
    start, end = (_offset(wire, topic, timestamp) for timestamp in (-2, -1))
    data, offset = b"", start
    while offset < end:
        answer = wire.ask(fetch(topic, offset), 11).responses[0].partitions[0]
        assert answer.error_code == 0
        assert answer.records
        data += bytes(answer.records)
        offset = max(header.next_offset for _, header in iter_batches(bytes(answer.records)))
    return Told(data, start, end, _producers(wire, topic))


def _offset(wire: Wire, topic: str, timestamp: int) -> int:
    answer = wire.ask(list_offsets(topic, timestamp), 5).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.offset)


def _producers(wire: Wire, topic: str) -> list[tuple[int, ...]]:
    Topic: Any = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(topics=[Topic(name=topic, partition_indexes=[0])])
    answer = wire.ask(request, 0).topics[0].partitions[0]
    assert answer.error_code == 0
    return sorted(
        (
            p.producer_id,
            p.producer_epoch,
            p.last_sequence,
            p.last_timestamp,
            p.coordinator_epoch,
            p.current_txn_start_offset,
        )
        for p in answer.active_producers
    )

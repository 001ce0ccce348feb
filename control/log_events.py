"""The events of logs: records that arrived, a log start that moved, segments that rolled, compaction.

Logs tell of their changes while there is a stream (`LogMaintenance.on_change`), so that a look reads the changed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kmini.control.request_events import Tell

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.broker.scheduler import Turn
    from kmini.protocol.topics import TopicPartition
    from kmini.storage.log import PartitionLog


class LogState(NamedTuple):
    """What a look saw of a log."""

    topic_id: bytes
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    active_base_offset: int
    """The first offset of the active segment."""
    clean_up_to: int
    """The offset below which it is compacted."""


class LogEvents:
    """Compares logs, at their leaders, with what the last look saw."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.changed: set[TopicPartition] = set()
        """The partitions whose logs have changed since they were looked at."""
        self._states: dict[TopicPartition, LogState] = {}

    def forget(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Forget these partitions, or all."""
        if partitions is None:
            self._states.clear()
            self.changed.clear()
        else:
            for partition in partitions:
                self._states.pop(partition, None)

    async def look(self, brokers: Collection[BrokerServer], turn: Turn, is_over: Callable[[], bool]) -> None:
        """Tell of the changes. When `is_over` is true the brokers begin anew, and the rest does not count."""
        cleaned: list[TopicPartition] = []
        for partition in sorted(self.changed):
            if turn.is_over:
                await turn.next()
                if is_over():
                    return
            self.changed.discard(partition)
            for broker in brokers:
                led = broker.replica_manager.partitions.get(partition)
                if led is not None:
                    self._see(partition, led.log, broker)
                    if led.log.config.is_compacted and not broker.cleaner.may_touch(partition):
                        cleaned.append(partition)  # nothing tells of the end of the pass
                    break
        self.changed.update(cleaned)

    def _see(self, partition: TopicPartition, log: PartitionLog, broker: BrokerServer) -> None:
        now = _state_of(partition, log, broker)
        was = self._states.get(partition)
        if was == now:
            return
        self._states[partition] = now
        if was is None or was.topic_id != now.topic_id:
            start = now.log_start_offset
            was = LogState(now.topic_id, start, start, start, log.segments.oldest.base_offset, 0)
        topics = (partition.topic,)
        place = {"topic": partition.topic, "partition": partition.partition}
        if now.log_end_offset > was.log_end_offset:
            offsets = {"from": was.log_end_offset, "to": now.log_end_offset - 1, "high_watermark": now.high_watermark}
            self._tell("records", "records", {**place, **offsets}, topics)
        elif now.log_end_offset < was.log_end_offset:
            offsets = {"from": now.log_end_offset, "to": was.log_end_offset - 1, "high_watermark": now.high_watermark}
            self._tell("records", "truncated", {**place, **offsets}, topics)
        elif now.high_watermark != was.high_watermark:
            self._tell("records", "high-watermark", {**place, "high_watermark": now.high_watermark}, topics)
        segments = len(log.segments)
        if now.active_base_offset > was.active_base_offset:
            data = {**place, "active_base_offset": now.active_base_offset, "segments": segments}
            self._tell("topics", "segments-rolled", data, topics)
        if now.clean_up_to > was.clean_up_to:
            data = {**place, "clean_up_to": now.clean_up_to, "segments": segments, "size_bytes": log.size_bytes}
            self._tell("topics", "compacted", data, topics)
        if now.log_start_offset != was.log_start_offset:
            data = {**place, "from": was.log_start_offset, "to": now.log_start_offset, "segments": segments}
            self._tell("topics", "log-start-moved", data, topics)


def _state_of(partition: TopicPartition, log: PartitionLog, broker: BrokerServer) -> LogState:
    clean_up_to = 0
    if log.config.is_compacted and "schedule" in vars(broker.cleaner):  # it is made when something is compacted
        clean_up_to = broker.cleaner.schedule.checkpoint.get(partition) or 0
    return LogState(
        log.topic_id,
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
        log.segments.active.base_offset,
        clean_up_to,
    )

"""Appending as the leader: validate a batch, append it, flush it if `flush.messages` asks for that, count it, and wait
for the replicas in sync.

Produce requests of every version and the embedded broker's `produce` append through `RecordAppender`; the topics of the
coordinators and transaction markers, whose batches the broker builds itself, share the wait, `until_replicated`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..protocol.errors import RequestTimedOut
from ..protocol.records.batch import ATTRIBUTES_AT, CODEC_MASK
from ..protocol.topics import TopicPartition
from ..storage.append_info import AppendInfo
from ..storage.log_config import LogConfig
from ..storage.validation import ValidatedRecords, is_cheap, validate
from .long_work import LongWork, Requester
from .purgatory import Operation, Unattended
from .replication.partition import Partition
from .replication.replica_manager import ReplicaManager
from .scheduler import in_thread


class RecordAppender:
    """Appends what producers send to the partitions that a broker leads. Belongs to the broker's loop."""

    def __init__(self, replica_manager: ReplicaManager, long_work: LongWork) -> None:
        self._replica_manager = replica_manager
        self._config = replica_manager.config
        self._clock = replica_manager.clock
        self._metrics = replica_manager.metrics
        self._long_work = long_work

    def append_at_once(
        self, partition: Partition, records: memoryview, validated: ValidatedRecords | None, now_ms: int
    ) -> AppendInfo | None:
        """Append one batch that need not wait. `validated` is what `validate_plain` found: None has it validated here.

        Raises KafkaError. Returns None, and does nothing, where validation takes long, or a flush may be due: then
        `validate_and_append` appends it. Of a plain batch neither is true (`LogConfig.plain_batches`).
        """
        if validated is None:
            config = partition.log.config
            if config.asks_for_flushes:
                return None
            validated = self._validate_if_cheap(records, config, now_ms)
            if validated is None:
                return None
        return self._append_and_count(partition, validated, now_ms, len(records))

    async def validate_and_append(
        self,
        partition: Partition,
        records: memoryview,
        requester: Requester,
        check_again: Callable[[], None] | None = None,
    ) -> AppendInfo:
        """Validate one batch and append it, however long either takes. Raises KafkaError.

        Validation that takes long runs in a thread; `check_again` is called after it, for what may have changed
        meanwhile.
        """
        config = partition.log.config
        now_ms = self._clock.now_ms()
        validated = self._validate_if_cheap(records, config, now_ms)
        if validated is None:
            check = partial(validate, records, config, now_ms)
            is_compressed = records[ATTRIBUTES_AT] & CODEC_MASK != 0
            validated = await self.validate_in_thread(partition, check, requester, is_compressed=is_compressed)
            if check_again is not None:
                check_again()
        return await self.append(partition, validated, now_ms, len(records))

    def _validate_if_cheap(self, records: memoryview, config: LogConfig, now_ms: int) -> ValidatedRecords | None:
        """Validate a batch on the loop; None if that may take long. Raises what `validate` raises."""
        if not is_cheap(records, config.kmini_tombstone_flag_enable):
            return None
        return validate(records, config, now_ms, self._config.current.kmini_max_decompressed_message_bytes)

    async def validate_in_thread(
        self,
        partition: Partition,
        validate: Callable[[int], ValidatedRecords],
        requester: Requester,
        *,
        is_compressed: bool,
    ) -> ValidatedRecords:
        """Run `validate` in a thread, with the most bytes that a record may have; compressed batches take turns.

        Raises what `validate` raises, and NotLeaderOrFollower or UnknownTopicOrPartition if the partition moved
        meanwhile.
        """
        limit = self._config.current.kmini_max_decompressed_message_bytes
        if is_compressed:
            validated = await self._long_work.run(validate, limit, requester)
        else:
            validated = await in_thread(validate, limit)
        self._replica_manager.check_is_led_here(partition)
        return validated

    async def append_replicated(self, partition: Partition, records: memoryview) -> AppendInfo:
        """Append one batch as for a producer with acks=all: return once every in-sync replica has it. Raises what
        `validate_and_append` and `until_replicated` raise, and NotEnoughReplicas."""
        partition.check_min_isr()
        appended = await self.validate_and_append(partition, records, Unattended())
        timeout_ms = self._config.current.request_timeout_ms
        await until_replicated(self._replica_manager, partition, appended.last_offset, timeout_ms)
        return appended

    async def append(
        self, partition: Partition, validated: ValidatedRecords, now_ms: int, size_bytes: int
    ) -> AppendInfo:
        """Append what a producer sent, flush it if that is due, and count it; the producer sent `size_bytes`."""
        appended = self._append_and_count(partition, validated, now_ms, size_bytes)
        if partition.log.flush_is_due():
            await partition.flush()
        return appended

    def _append_and_count(
        self, partition: Partition, validated: ValidatedRecords, now_ms: int, size_bytes: int
    ) -> AppendInfo:
        """Append, without a flush, and count it."""
        appended = partition.append(validated, now_ms)
        if not appended.is_duplicate:
            self._metrics.produced(partition.topic_partition.topic, validated.header.record_count, size_bytes)
        return appended


async def until_replicated(
    replica_manager: ReplicaManager, partition: Partition, last_offset: int, timeout_ms: int
) -> None:
    """Return when the log up to `last_offset` is flushed, if that is due, and on all in-sync replicas. Raises
    RequestTimedOut, NotLeaderOrFollower, UnknownTopicOrPartition, KafkaStorageError.

    The wait belongs to no connection: records stay appended when their client leaves.
    """
    if partition.log.flush_is_due():
        await partition.flush()
    if partition.log.high_watermark <= last_offset:
        operation = _Replication(partition, last_offset)
        if not await replica_manager.purgatory.wait(operation, timeout_ms=timeout_ms, waiter=Unattended()):
            raise RequestTimedOut("the replicas did not follow in time")
        replica_manager.check_is_led_here(partition)


class _Replication(Operation):
    """Complete when every in-sync replica has a batch, or its partition has another leader."""

    def __init__(self, partition: Partition, last_offset: int) -> None:
        self._partition = partition
        self._last_offset = last_offset

    @property
    def keys(self) -> list[TopicPartition]:
        return [self._partition.topic_partition]

    def is_complete(self) -> bool:
        partition = self._partition
        return partition.log.high_watermark > self._last_offset or not partition.is_served

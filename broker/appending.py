"""Appending as the leader: validate a batch, append it, flush it if `flush.messages` asks for that, count it, and wait
for the replicas in sync.

Produce requests of every version, the coordinators' topics, transaction markers and the embedded broker's `produce` all
take this path, so a rule of an append holds for each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..protocol.errors import RequestTimedOut
from ..protocol.records.batch import ATTRIBUTES_AT, CODEC_MASK
from ..storage.validation import is_cheap, validate
from .purgatory import Operation, Unattended
from .scheduler import in_thread

if TYPE_CHECKING:
    from ..protocol.topics import TopicPartition
    from ..storage.log import AppendInfo
    from ..storage.log_config import LogConfig
    from ..storage.validation import ValidatedRecords
    from .long_work import LongWork, Requester
    from .replication.partition import Partition
    from .replication.replica_manager import ReplicaManager


class AppendingBroker(Protocol):
    """The parts of a broker that an append uses."""

    replica_manager: ReplicaManager
    long_work: LongWork


async def validate_and_append(
    broker: AppendingBroker,
    partition: Partition,
    records: memoryview,
    requester: Requester,
    check_again: Callable[[], Awaitable[None]] | None = None,
) -> AppendInfo:
    """Validate one batch and append it. Raises KafkaError.

    Validation that takes long runs in a thread; `check_again` is awaited after it, for what may have changed meanwhile.
    """
    config = partition.log.config
    now_ms = broker.replica_manager.clock.now_ms()
    if is_cheap(records, has_tombstone_flag=config.kmini_tombstone_flag_enable):
        limit = broker.replica_manager.config.current.kmini_max_decompressed_message_bytes
        validated = validate(records, config, now_ms, max_decompressed_bytes=limit)
    else:
        check = partial(_validate, records, config, now_ms)
        is_compressed = records[ATTRIBUTES_AT] & CODEC_MASK != 0
        validated = await checked_elsewhere(broker, partition, check, requester, is_compressed=is_compressed)
        if check_again is not None:
            await check_again()
    return await append_validated(broker, partition, validated, now_ms, len(records))


def _validate(records: memoryview, config: LogConfig, now_ms: int, limit: int) -> ValidatedRecords:
    return validate(records, config, now_ms, max_decompressed_bytes=limit)


async def checked_elsewhere(
    broker: AppendingBroker,
    partition: Partition,
    check: Callable[[int], ValidatedRecords],
    requester: Requester,
    *,
    is_compressed: bool,
) -> ValidatedRecords:
    """Run `check` in a thread, with the most bytes that a record may have; compressed batches take turns.

    Raises what `check` raises, and NotLeaderOrFollower or UnknownTopicOrPartition if the partition moved meanwhile.
    """
    limit = broker.replica_manager.config.current.kmini_max_decompressed_message_bytes
    if is_compressed:
        validated = await broker.long_work.run(check, limit, requester)
    else:
        validated = await in_thread(check, limit)
    broker.replica_manager.check_is_led_here(partition)
    return validated


async def append_validated(
    broker: AppendingBroker, partition: Partition, validated: ValidatedRecords, now_ms: int, size_bytes: int
) -> AppendInfo:
    """Append what a producer sent, flush it if that is due, and count it; `size_bytes` is what the producer sent."""
    appended = partition.append(validated, now_ms)
    if partition.log.flush_is_due:
        await partition.flush()
    if not appended.is_duplicate:
        broker.replica_manager.metrics.produced(partition.topic_partition.topic, validated.record_count, size_bytes)
    return appended


async def settled(replica_manager: ReplicaManager, partition: Partition, last_offset: int, timeout_ms: int) -> None:
    """Return when what was appended up to `last_offset` is where its settings want it: on the disk, if they say so, and
    on all in-sync replicas. Raises RequestTimedOut, NotLeaderOrFollower, UnknownTopicOrPartition, KafkaStorageError.

    The wait belongs to no connection: what was written stays written when its client leaves.
    """
    if partition.log.flush_is_due:
        await partition.flush()
    if partition.log.high_watermark <= last_offset:
        operation = _Replicated(replica_manager, partition, last_offset)
        if not await replica_manager.purgatory.wait(operation, timeout_ms=timeout_ms, waiter=Unattended()):
            raise RequestTimedOut("the replicas did not follow in time")
        replica_manager.check_is_led_here(partition)


class _Replicated(Operation):
    """Complete when every in-sync replica has a batch, or its partition has another leader."""

    def __init__(self, replica_manager: ReplicaManager, partition: Partition, last_offset: int) -> None:
        self._replica_manager = replica_manager
        self._partition = partition
        self._last_offset = last_offset

    @property
    def keys(self) -> list[TopicPartition]:
        return [self._partition.topic_partition]

    def is_complete(self) -> bool:
        partition = self._partition
        return partition.log.high_watermark > self._last_offset or not self._replica_manager.is_led_here(partition)

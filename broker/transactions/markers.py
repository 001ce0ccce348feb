"""Transaction markers: the commit or abort of a transaction, written to its partitions that this broker leads.

`completion.py` asks the leader of each partition for them; WriteTxnMarkers asks for them from outside.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    NONE,
    InvalidProducerEpoch,
    NotLeaderOrFollower,
)
from ...protocol.topics import CONSUMER_OFFSETS, TopicPartition
from ...storage.producers.producer_state_manager import Origin
from ...storage.validation import ValidatedRecords
from ..api.error_mapping import kafka_error
from ..appending import until_replicated
from ..coordinators.coordinator_topic import AppendedBatch, Producer
from ..network.peer_log import PeerLog
from ..scheduler import Turn
from .producer_epochs import EPOCH_PER_TRANSACTION, MAX_EPOCH

if TYPE_CHECKING:
    from ..coordinators.coordinator_topic import CoordinatorTopic
    from ..groups.transactional_offsets import TransactionalOffsets
    from ..replication.partition import Partition
    from ..replication.replica_manager import ReplicaManager

log = logging.getLogger("kmini.transactions")
peer_log = PeerLog(log)


class Marker(NamedTuple):
    """The end of a transaction, and the epoch of the coordinator that decided it."""

    producer: Producer
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """The level of that feature by whose rules the transaction ran."""


class MarkerWriter:
    """Writes markers to the partitions that this broker leads. Belongs to the broker's loop."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        offsets_topic: CoordinatorTopic,
        transactional_offsets: TransactionalOffsets,
    ) -> None:
        """`offsets_topic` is `__consumer_offsets`, whose pending offsets a marker commits or drops."""
        self._replica_manager = replica_manager
        self._offsets_topic = offsets_topic
        self._transactional_offsets = transactional_offsets

    async def write(self, marker: Marker, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Write a marker to partitions; returns the error code of each, as in WriteTxnMarkers."""
        replica_manager = self._replica_manager
        codes: dict[TopicPartition, int] = {}
        appended: list[tuple[Partition, int]] = []
        turn = Turn()
        for topic_partition in partitions:
            if turn.is_over:
                await turn.next()
            try:
                partition = replica_manager.leader_of(topic_partition)
                appended.append((partition, self._append(partition, marker)))
                codes[topic_partition] = NONE
            except Exception as error:
                codes[topic_partition] = kafka_error(error, f"the marker for {topic_partition}").code
        timeout_ms = replica_manager.config.current.request_timeout_ms
        for partition, offset in appended:
            try:
                await until_replicated(replica_manager, partition, offset, timeout_ms)
            except Exception as error:
                failure = kafka_error(error, f"the marker for {partition.topic_partition}")
                codes[partition.topic_partition] = failure.code
        return codes

    def _append(self, partition: Partition, marker: Marker) -> int:
        """Append a marker; in `__consumer_offsets` also commit or drop the pending offsets of the transaction."""
        from ...protocol.records.control import (  # imported late, to start faster
            EndTransactionMarker,
            build_end_transaction_marker,
        )

        topic, number = partition.topic_partition
        is_of_groups = topic == CONSUMER_OFFSETS
        if is_of_groups and self._offsets_topic.is_loading(number):  # as in Kafka, the coordinator tries again
            raise NotLeaderOrFollower(f"{partition.topic_partition} is being loaded")
        _check_epoch(partition, marker)
        partition.check_min_isr()
        now_ms = self._replica_manager.clock.now_ms()
        batch = build_end_transaction_marker(
            EndTransactionMarker(not marker.is_commit, marker.coordinator_epoch),
            producer_id=marker.producer.producer_id,
            producer_epoch=marker.producer.epoch,
            timestamp=now_ms,
        )
        appended = partition.append(ValidatedRecords.of(batch), now_ms, Origin.COORDINATOR)
        if is_of_groups:
            control_batch = AppendedBatch(partition, appended.first_offset, appended.last_offset)
            producer_id = marker.producer.producer_id
            self._transactional_offsets.end(number, producer_id, control_batch, is_commit=marker.is_commit)
        return appended.last_offset


def _check_epoch(partition: Partition, marker: Marker) -> None:
    """Raise InvalidProducerEpoch for the late marker of an older transaction, where each has its own epoch (KIP-1228).
    A repeated marker passes: it finds no open transaction. So does one of the last epoch, which cannot be raised."""
    if marker.transaction_version < EPOCH_PER_TRANSACTION:
        return
    known = partition.log.producers.get(marker.producer.producer_id)
    if known is None or marker.producer.epoch > known.epoch:
        return
    is_open = known.transaction_first_offset is not None and marker.producer.epoch < MAX_EPOCH
    if marker.producer.epoch < known.epoch or is_open:
        raise InvalidProducerEpoch(f"epoch {marker.producer.epoch} is not above {known.epoch}")

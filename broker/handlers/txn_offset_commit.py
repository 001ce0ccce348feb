"""TxnOffsetCommit, versions 0 to 4: commit offsets of a group as part of a transaction (KIP-98).

The partition of `__consumer_offsets` must take part in the transaction (AddOffsetsToTxn); then the group is asked, as
for OffsetCommit, whether this member may commit (version 3, KIP-447). What is written is pending until the transaction
has ended: all or nothing of a request, but for partitions that there are not. Version 5 belongs to the second version
of transactions (KIP-890), which is not offered.
"""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotEnoughReplicas,
    OffsetMetadataTooLarge,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ...protocol.topics import TopicPartition
from ..background import Turn
from ..context import Context
from ..failures import kafka_error
from ..groups.offsets import CommittedOffset
from ..groups.store import OffsetChanges
from ..internal_topic import Producer
from ..registry import handles
from ..transactions import verification

ABORTABLE_SINCE = 4


@handles(TxnOffsetCommitRequest, versions="0-4")
async def txn_offset_commit(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    """Sort out what cannot be committed, write the rest together, answer for each."""
    commit = await _prepare(request, context)
    if commit.wanted:
        try:
            await _write(request, commit, context)
        except Exception as failure:
            error = kafka_error(failure, f"a transactional commit of group {request.group_id!r}")
            for answer in commit.wanted:
                answer.error_code = error.code
    return TxnOffsetCommitResponse(topics=commit.answers)


class Commit(NamedTuple):
    """What a request comes to, before its transaction and its group are looked at."""

    answers: list[TxnOffsetCommitResponse.Topic]
    wanted: list[TxnOffsetCommitResponse.Topic.Partition]
    """The answers for partitions that there are: the errors of transaction and group are theirs."""
    changes: OffsetChanges
    error: KafkaError | None
    """Why the changes, being too many, cannot be written."""


async def _prepare(request: TxnOffsetCommitRequest, context: Context) -> Commit:
    """Everything that may take long, so that nothing has to wait between the checks and the write."""
    broker = context.broker
    commit = Commit([], [], broker.groups.store.changes(request.group_id), None)
    now_ms = broker.clock.now_ms()
    turn = Turn()
    for topic in request.topics:
        answer = TxnOffsetCommitResponse.Topic(name=topic.name, partitions=[])
        commit.answers.append(answer)
        for partition in topic.partitions:
            if turn.is_over:
                await turn.next()
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            outcome = TxnOffsetCommitResponse.Partition(partition_index=partition.partition_index)
            answer.partitions.append(outcome)
            try:
                broker.check_partition_exists(topic_partition)
            except UnknownTopicOrPartition as error:
                outcome.error_code = error.code
                continue
            commit.wanted.append(outcome)
            if len(partition.committed_metadata or "") > broker.config.offset_metadata_max_bytes:
                outcome.error_code = OffsetMetadataTooLarge.code
            elif commit.error is None:
                commit = _with(commit, topic_partition, _committed(partition, now_ms))
    return commit


def _with(commit: Commit, topic_partition: TopicPartition, committed: CommittedOffset) -> Commit:
    try:
        commit.changes.set(topic_partition, committed)
    except UnknownServerError as error:
        return commit._replace(error=error)
    return commit


def _committed(partition: TxnOffsetCommitRequest.Topic.Partition, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or "", now_ms
    )


async def _write(request: TxnOffsetCommitRequest, commit: Commit, context: Context) -> None:
    """Check whose transaction it is and who commits, and write. Raises KafkaError."""
    broker = context.broker
    broker.groups.store.check(request.group_id)
    offsets = broker.transactional_offsets
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        verification.verify(
            broker,
            request.transactional_id,
            producer,
            offsets.partition_of(request.group_id),
            knows_abortable=context.version >= ABORTABLE_SINCE,
        )
    except NotEnoughReplicas as error:  # which clients of a group do not know
        raise CoordinatorNotAvailable(error.message) from error
    group = offsets.group_for_commit(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    if commit.error is not None:
        raise commit.error
    await offsets.commit(group, commit.changes, producer)

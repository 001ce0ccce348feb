"""TxnOffsetCommit, versions 0 to 5: commit offsets of a group as part of a transaction (KIP-98).

The group's partition of `__consumer_offsets` must take part in the transaction (AddOffsetsToTxn). Version 5 belongs to
the second version of transactions (KIP-890): the partition joins the transaction by itself, which begins with that if
none is open. The group then checks the member as in OffsetCommit (version 3, KIP-447). The offsets are pending until
the transaction ends: all offsets of a request, except those of unknown partitions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    UnknownTopicOrPartition,
)
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ...protocol.topics import TopicPartition
from ..api.registry import handles
from ..api.request_context import Context
from ..coordinators.coordinator_topic import Producer
from ..groups.commits import Commit
from ..groups.committed_offsets import CommittedOffset
from ..groups.group import Committer
from ..scheduler import Turn
from ..security.guarding import Call, refused_partitions
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType
from ..transactions import verification

LOADING_SINCE = 2
"""The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS."""
ABORTABLE_SINCE = 4
JOINS_SINCE = 5


async def guard(call: Call) -> Any:
    """Refuse everything without the transactional id or the group, else each topic that the client may not read."""
    write_id, read_group, read_topic = call.permissions
    request = call.request
    refused = refused_partitions(TxnOffsetCommitResponse.Topic)
    for permission, name in ((write_id, request.transactional_id), (read_group, request.group_id)):
        if not call.may(permission, name):
            return TxnOffsetCommitResponse(topics=[refused(topic, permission.code) for topic in request.topics])
    request.topics, denied = call.split(read_topic, request.topics, lambda topic: topic.name)
    answer = await call.serve() if request.topics or not denied else TxnOffsetCommitResponse(topics=[])
    answer.topics += [refused(topic, read_topic.code) for topic in denied]
    return answer


@handles(
    TxnOffsetCommitRequest,
    needs=[
        whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
        whole(AclOperation.READ, ResourceType.GROUP),
        each(AclOperation.READ, ResourceType.TOPIC),
    ],
    guard=guard,
)
async def txn_offset_commit(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    """Refuse the offsets that cannot be committed, write the others together, and answer for each."""
    commit = Commit(context.services.groups.store, request.group_id)
    answers = await _gather(request, commit, context)
    what = f"a transactional commit of group {request.group_id!r}"
    await commit.settle(partial(_write, request, commit, context), what)
    return TxnOffsetCommitResponse(topics=answers)


async def _gather(
    request: TxnOffsetCommitRequest, commit: Commit, context: Context
) -> list[TxnOffsetCommitResponse.Topic]:
    """The answers for unknown partitions, and as far as they are known yet for the others."""
    answers = []
    now_ms = context.services.clock.now_ms()
    turn = Turn()
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if turn.is_over:
                await turn.next()
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            answer = TxnOffsetCommitResponse.Partition(partition_index=partition.partition_index)
            partitions.append(answer)
            try:
                context.services.replica_manager.check_partition_exists(topic_partition)
            except UnknownTopicOrPartition as error:
                answer.error_code = error.code
                continue
            commit.add(topic_partition, _committed(partition, now_ms), answer)
        answers.append(TxnOffsetCommitResponse.Topic(name=topic.name, partitions=partitions))
    return answers


def _committed(partition: TxnOffsetCommitRequest.Topic.Partition, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or "", now_ms
    )


async def _write(request: TxnOffsetCommitRequest, commit: Commit, context: Context) -> None:
    """Check the transaction and the member, and write the offsets. Raises KafkaError."""
    services = context.services
    try:
        services.groups.store.check(request.group_id)
    except CoordinatorLoadInProgress as error:
        if context.version >= LOADING_SINCE:
            raise
        raise CoordinatorNotAvailable(error.message) from error
    offsets = services.transactional_offsets
    producer = Producer(request.producer_id, request.producer_epoch)
    await _take_part(request, producer, context)
    changes = commit.changes
    committer = Committer(request.member_id, request.group_instance_id, request.generation_id, version=None)
    group = services.groups.group_for_commit(committer, changes)
    await offsets.commit(group, changes, producer)


async def _take_part(request: TxnOffsetCommitRequest, producer: Producer, context: Context) -> None:
    """Check that the group's partition takes part in the transaction; from JOINS_SINCE on it joins it. Raises
    KafkaError."""
    transactions, transactional_id = context.services.transactions, request.transactional_id
    partition = context.services.transactional_offsets.partition_of(request.group_id)
    joins = context.version >= JOINS_SINCE
    is_checked = joins or transactions.verifies_partitions
    if not is_checked or not verification.needs_verification(partition, producer):
        return
    if joins:
        await verification.add_partitions(transactions, transactional_id, producer, [partition])
    else:
        knows_abortable = context.version >= ABORTABLE_SINCE
        verification.verify(transactions, transactional_id, producer, partition, knows_abortable=knows_abortable)

"""AddPartitionsToTxn, versions 0 to 5: announce the partitions that a transaction will write to (KIP-98).

Clients send versions 0 to 3. All partitions of a request join the transaction, or none: beside an unknown or an
internal partition (TOPIC_AUTHORIZATION_FAILED) the others are answered OPERATION_NOT_ATTEMPTED. Brokers send versions 4
and 5, for many transactions at once, to add partitions or (`verify_only`) to ask whether they take part (KIP-890); each
transaction is answered by itself. A broker adds partitions for a client of the second version of transactions.

A producer with an old epoch gets INVALID_PRODUCER_EPOCH before version 2, and PRODUCER_FENCED from version 2 on
(KIP-588).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...protocol.errors import (
    NONE,
    InvalidProducerEpoch,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TxnTopic,
    TxnTopicResult,
)
from ...protocol.topics import TopicPartition, is_internal
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..coordinators.coordinator_topic import Producer
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType
from ..transactions.producer_epochs import EPOCH_PER_TRANSACTION

BATCHED_SINCE = 4
FENCED_SINCE = 2

Transaction = AddPartitionsToTxnRequest.Transaction


async def guard(call: Call) -> Any:
    """Add all partitions or none: where one topic is refused the others are not attempted. Only brokers send batches
    of transactions."""
    write_id, write_topic, as_broker = call.permissions
    request = call.request
    if call.context.version >= BATCHED_SINCE:
        call.demand(as_broker)
        return await call.serve()
    topics = request.v3_and_below_topics
    if not call.may(write_id, request.v3_and_below_transactional_id):
        return _not_added(topics, lambda topic, number: write_id.code)
    _, denied = call.split(write_topic, topics, lambda topic: topic.name)
    if not denied:
        return await call.serve()
    refused = {topic.name for topic in denied}
    controller = call.context.services.controller

    def code_of(topic: str, number: int) -> int:
        if topic in refused:
            return write_topic.code
        known = controller.topic(topic)
        is_known = known is not None and 0 <= number < len(known.partitions)
        return (OperationNotAttempted if is_known else UnknownTopicOrPartition).code

    return _not_added(topics, code_of)


def _not_added(topics: list[Any], code_of: Callable[[str, int], int]) -> AddPartitionsToTxnResponse:
    Topic = TxnTopicResult
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            Topic(
                name=topic.name,
                results_by_partition=[
                    Topic.Partition(partition_index=number, partition_error_code=code_of(topic.name, number))
                    for number in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


@handles(
    AddPartitionsToTxnRequest,
    needs=[
        whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
        each(AclOperation.WRITE, ResourceType.TOPIC),
        whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, when="versions 4 and 5, in place of the others"),
    ],
    guard=guard,
)
async def add_partitions_to_txn(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse:
    """Add the partitions of each transaction, all or none."""
    if context.version < BATCHED_SINCE:
        asked = Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        codes = await _codes(asked, context)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(asked.topics, codes))
    results = []
    turn = Turn()
    for asked in request.transactions:
        if turn.is_over:
            await turn.next()
        codes = await _codes(asked, context)
        results.append(
            AddPartitionsToTxnResponse.Result(
                transactional_id=asked.transactional_id, topic_results=_results(asked.topics, codes)
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _codes(asked: Transaction, context: Context) -> Mapping[TopicPartition, int]:
    """The error code of every partition of one transaction."""
    partitions = [TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partitions]
    refused = await _refused(partitions, context)
    if refused:
        return {one: refused.get(one, OperationNotAttempted.code) for one in partitions}
    coordinator = context.services.transactions
    producer = Producer(asked.producer_id, asked.producer_epoch)
    try:
        if asked.verify_only:
            return coordinator.verify(asked.transactional_id, producer, partitions)
        client_version = EPOCH_PER_TRANSACTION if context.version >= BATCHED_SINCE else 0
        await coordinator.add_partitions(asked.transactional_id, producer, partitions, client_version=client_version)
    except Exception as failure:
        error = kafka_error(failure, "adding partitions to a transaction")
        return dict.fromkeys(partitions, code_for(error, context.version, FENCED_SINCE))
    return dict.fromkeys(partitions, NONE)


async def _refused(partitions: Sequence[TopicPartition], context: Context) -> dict[TopicPartition, int]:
    """The partitions that no transaction may have, with their error codes."""
    refused: dict[TopicPartition, int] = {}
    turn = Turn()
    for topic_partition in partitions:
        if turn.is_over:
            await turn.next()
        if context.version < BATCHED_SINCE and is_internal(topic_partition.topic):
            refused[topic_partition] = TopicAuthorizationFailed.code
            continue
        try:
            context.services.replica_manager.check_partition_exists(topic_partition)
        except UnknownTopicOrPartition as error:
            refused[topic_partition] = error.code
    return refused


def _results(topics: Iterable[TxnTopic], codes: Mapping[TopicPartition, int]) -> list[TxnTopicResult]:
    return [
        TxnTopicResult(
            name=topic.name,
            results_by_partition=[
                TxnTopicResult.Partition(
                    partition_index=number, partition_error_code=codes[TopicPartition(topic.name, number)]
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


def code_for(error: KafkaError, version: int, fenced_since: int) -> int:
    """The error code of a fenced producer: PRODUCER_FENCED from FENCED_SINCE on."""
    if isinstance(error, ProducerFenced) and version < fenced_since:
        return InvalidProducerEpoch.code
    return error.code

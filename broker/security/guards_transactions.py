"""Guards of what concerns transactions and idempotent producers."""

from __future__ import annotations

from typing import Any

from ...protocol.errors import OperationNotAttempted, UnknownTopicOrPartition
from ...protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.messages.add_partitions_to_txn import TxnTopicResult
from .guarding import Call, guards
from .permissions import Permission
from .resources import Operation, ResourceType

BATCHES_SINCE = 4
"""The version of AddPartitionsToTxn that only brokers send."""


@guards(InitProducerIdRequest)
async def init_producer_id(call: Call) -> Any:
    """Without a transactional id: for who may write to some topic, or is allowed to in general (KIP-679)."""
    write_id, write_idempotently = call.permissions
    transactional_id = call.request.transactional_id
    if transactional_id is not None:
        call.demand(write_id, transactional_id)
    elif not call.may(write_idempotently, tells=False) and not call.access.may_some(
        Operation.WRITE, ResourceType.TOPIC
    ):
        call.demand(write_idempotently)
    return await call.serve()


@guards(AddPartitionsToTxnRequest)
async def add_partitions_to_txn(call: Call) -> Any:
    """All partitions or none: where one is refused the others are not attempted."""
    write_id, write_topic, as_broker = call.permissions
    request = call.request
    if call.context.version >= BATCHES_SINCE:
        call.demand(as_broker)
        return await call.serve()
    topics = request.v3_and_below_topics
    if not call.may(write_id, request.v3_and_below_transactional_id):
        return _not_added(topics, dict.fromkeys((topic.name for topic in topics), write_id.code))
    _, denied = call.split(write_topic, topics, lambda topic: topic.name)
    if not denied:
        return await call.serve()
    refused = {topic.name for topic in denied}
    controller = call.context.broker.controller
    Topic = TxnTopicResult
    results = []
    for topic in topics:
        known = controller.topic(topic.name)
        count = 0 if known is None else len(known.partitions)
        results.append(
            Topic(
                name=topic.name,
                results_by_partition=[
                    Topic.Partition(
                        partition_index=number,
                        partition_error_code=write_topic.code
                        if topic.name in refused
                        else (OperationNotAttempted if 0 <= number < count else UnknownTopicOrPartition).code,
                    )
                    for number in topic.partitions
                ],
            )
        )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _not_added(topics: list[Any], codes: dict[str, int]) -> AddPartitionsToTxnResponse:
    Topic = TxnTopicResult
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            Topic(
                name=topic.name,
                results_by_partition=[
                    Topic.Partition(partition_index=number, partition_error_code=codes[topic.name])
                    for number in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


@guards(AddOffsetsToTxnRequest)
async def add_offsets_to_txn(call: Call) -> Any:
    write_id, read_group = call.permissions
    call.demand(write_id, call.request.transactional_id)
    call.demand(read_group, call.request.group_id)
    return await call.serve()


@guards(EndTxnRequest)
async def end_txn(call: Call) -> Any:
    (write_id,) = call.permissions
    call.demand(write_id, call.request.transactional_id)
    return await call.serve()


@guards(WriteTxnMarkersRequest)
async def write_txn_markers(call: Call) -> Any:
    """For brokers, and for who may alter the cluster: it ends a transaction that hangs."""
    alter, as_broker = call.permissions
    if call.may(alter, tells=False) or call.may(as_broker):
        return await call.serve()
    Marker = WriteTxnMarkersResponse.Marker
    return WriteTxnMarkersResponse(
        markers=[
            Marker(
                producer_id=marker.producer_id,
                topics=[
                    Marker.Topic(
                        name=topic.name,
                        partitions=[
                            Marker.Topic.Partition(partition_index=number, error_code=as_broker.code)
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in call.request.markers
        ]
    )


@guards(TxnOffsetCommitRequest)
async def txn_offset_commit(call: Call) -> Any:
    write_id, read_group, read_topic = call.permissions
    request = call.request
    for permission, name in ((write_id, request.transactional_id), (read_group, request.group_id)):
        if not call.may(permission, name):
            return TxnOffsetCommitResponse(topics=_not_committed(request.topics, permission))
    request.topics, denied = call.split(read_topic, request.topics, lambda topic: topic.name)
    answer = await call.serve() if request.topics or not denied else TxnOffsetCommitResponse(topics=[])
    answer.topics += _not_committed(denied, read_topic)
    return answer


def _not_committed(topics: list[Any], permission: Permission) -> list[TxnOffsetCommitResponse.Topic]:
    Topic = TxnOffsetCommitResponse.Topic
    return [
        Topic(
            name=topic.name,
            partitions=[
                Topic.Partition(partition_index=part.partition_index, error_code=permission.code)
                for part in topic.partitions
            ],
        )
        for topic in topics
    ]


@guards(DescribeTransactionsRequest)
async def describe_transactions(call: Call) -> Any:
    """Of a transaction that may be described, the topics that may be described."""
    describe, describe_topic = call.permissions
    request = call.request
    request.transactional_ids, denied = call.split(describe, request.transactional_ids, lambda name: name)
    answer = await call.serve()
    for state in answer.transaction_states:
        state.topics = [topic for topic in state.topics if call.may(describe_topic, topic.topic, tells=False)]
    State = DescribeTransactionsResponse.TransactionState
    answer.transaction_states += [
        State(
            error_code=describe.code,
            transactional_id=name,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
        )
        for name in dict.fromkeys(denied)
    ]
    return answer


@guards(ListTransactionsRequest)
async def list_transactions(call: Call) -> Any:
    (describe,) = call.permissions
    answer = await call.serve()
    answer.transaction_states = [
        state for state in answer.transaction_states if call.may(describe, state.transactional_id, tells=False)
    ]
    return answer

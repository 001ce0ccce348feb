"""WriteTxnMarkers, versions 0 to 2: write the end of transactions to the partitions that they wrote to (KIP-98).

Coordinators send it to the leaders of partitions, and administrators send it to end transactions that hang (KIP-664). A
marker counts once it is in the log; in `__consumer_offsets` the offsets that the transaction commits count with it.
"""

from __future__ import annotations

from typing import Any

from ...protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ...protocol.topics import TopicPartition
from ..api.registry import handles
from ..api.request_context import Context
from ..coordinators.coordinator_topic import Producer
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import suffices, whole
from ..security.resources import AclOperation, ResourceType
from ..transactions.markers import Marker

Answer = WriteTxnMarkersResponse.Marker


async def guard(call: Call) -> Any:
    """Serve brokers, and clients that may alter the cluster: they end a transaction that hangs (KIP-664)."""
    alter, as_broker = call.permissions
    if call.may(alter, is_logged=False) or call.may(as_broker):
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


@handles(
    WriteTxnMarkersRequest,
    needs=[
        suffices(AclOperation.ALTER, ResourceType.CLUSTER),
        whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ],
    guard=guard,
)
async def write_txn_markers(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    """Write each marker to each of its partitions."""
    answers = []
    turn = Turn()
    for asked in request.markers:
        if turn.is_over:
            await turn.next()
        answers.append(await _write(asked, context))
    return WriteTxnMarkersResponse(markers=answers)


async def _write(asked: WriteTxnMarkersRequest.Marker, context: Context) -> WriteTxnMarkersResponse.Marker:
    marker = Marker(
        Producer(asked.producer_id, asked.producer_epoch),
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    partitions = {
        TopicPartition(topic.name, number): None for topic in asked.topics for number in topic.partition_indexes
    }
    codes = await context.services.marker_writer.write(marker, partitions)
    return Answer(
        producer_id=asked.producer_id,
        topics=[
            Answer.Topic(
                name=topic.name,
                partitions=[
                    Answer.Topic.Partition(partition_index=number, error_code=codes[TopicPartition(topic.name, number)])
                    for number in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )

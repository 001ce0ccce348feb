"""WriteTxnMarkers, versions 0 to 2: how transactions have ended, for the partitions that they wrote to (KIP-98).

Coordinators send it to the leaders of partitions, and administrators to end transactions that hang (KIP-664). A marker
counts as soon as it is in the log; in `__consumer_offsets` the offsets that the transaction commits count with it.
"""

from __future__ import annotations

from ...protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ...protocol.topics import TopicPartition
from ..api.registry import handles
from ..api.request_context import Context
from ..coordinators.coordinator_topic import Producer
from ..scheduler import Turn
from ..transactions.markers import Marker, write_markers

Answer = WriteTxnMarkersResponse.Marker


@handles(WriteTxnMarkersRequest)
async def write_txn_markers(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    """Write each marker into each of its partitions."""
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
    codes = await write_markers(context.broker, marker, partitions)
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

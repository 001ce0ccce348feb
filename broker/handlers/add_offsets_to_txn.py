"""AddOffsetsToTxn, versions 0 to 4: a transaction is about to commit offsets of a group (KIP-98).

The partition of `__consumer_offsets` that keeps the group takes part from now on.
"""

from __future__ import annotations

from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..coordinators.coordinator_topic import Producer
from ..security.guarding import demands
from ..security.permissions import whole
from ..security.resources import AclOperation, ResourceType
from .add_partitions_to_txn import code_for

FENCED_SINCE = 2


@handles(
    AddOffsetsToTxnRequest,
    needs=[whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID), whole(AclOperation.READ, ResourceType.GROUP)],
    guard=demands("transactional_id", "group_id"),
)
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    """Have the group's partition take part."""
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        await context.broker.transactions.add_offsets(request.transactional_id, producer, request.group_id)
    except Exception as failure:
        error = kafka_error(failure, "adding offsets to a transaction")
        return AddOffsetsToTxnResponse(error_code=code_for(error, context.version, FENCED_SINCE))
    return AddOffsetsToTxnResponse()

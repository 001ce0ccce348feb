"""AddOffsetsToTxn, versions 0 to 4: announce that a transaction will commit offsets of a group (KIP-98).

The group's partition of `__consumer_offsets` joins the transaction.
"""

from __future__ import annotations

from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..coordinators.coordinator_topic import Producer
from ..security.guarding import demands
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from .add_partitions_to_txn import code_for

FENCED_SINCE = 2


@handles(
    AddOffsetsToTxnRequest,
    needs=[whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID), whole(AclOperation.READ, ResourceType.GROUP)],
    guard=demands("transactional_id", "group_id"),
)
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    """Add the group's partition to the transaction."""
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        await context.services.transactions.add_offsets(request.transactional_id, producer, request.group_id)
    except Exception as failure:
        error = kafka_error(failure, "adding offsets to a transaction")
        return AddOffsetsToTxnResponse(error_code=code_for(error, context.version, FENCED_SINCE))
    return AddOffsetsToTxnResponse()

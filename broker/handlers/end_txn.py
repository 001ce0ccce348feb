"""EndTxn, versions 0 to 4: commit or abort a transaction (KIP-98).

The answer comes when the decision is stored, and usually after the markers are in the partitions; Apache Kafka writes
its markers after the answer. Version 5 belongs to the second version of transactions (KIP-890), which is not offered:
`transaction.version` is 1 at most.
"""

from __future__ import annotations

from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
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
    EndTxnRequest,
    needs=[whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)],
    guard=demands("transactional_id"),
)
async def end_txn(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    """Store the decision to commit or abort."""
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        await context.services.transactions.end(request.transactional_id, producer, is_commit=request.committed)
    except Exception as failure:
        error = kafka_error(failure, "the end of a transaction")
        return EndTxnResponse(error_code=code_for(error, context.version, FENCED_SINCE))
    return EndTxnResponse()

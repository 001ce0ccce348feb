"""EndTxn, versions 0 to 5: commit or abort a transaction (KIP-98).

The answer comes when the decision is stored, and usually after the markers are in the partitions; Apache Kafka writes
its markers after the answer. Version 5 belongs to the second version of transactions (KIP-890), whatever level
`transaction.version` has: the end raises the epoch, and the answer has the producer id and epoch of the next
transaction. An abort where no transaction is open raises the epoch alone.
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
RAISES_EPOCH_SINCE = 5


@handles(
    EndTxnRequest,
    needs=[whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)],
    guard=demands("transactional_id"),
)
async def end_txn(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    """Store the decision to commit or abort."""
    producer = Producer(request.producer_id, request.producer_epoch)
    transactions = context.services.transactions
    name, is_commit = request.transactional_id, request.committed
    try:
        if context.version >= RAISES_EPOCH_SINCE:
            following = await transactions.end_raising_epoch(name, producer, is_commit=is_commit)
            return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.epoch)
        await transactions.end(name, producer, is_commit=is_commit)
    except Exception as failure:
        error = kafka_error(failure, "the end of a transaction")
        return EndTxnResponse(error_code=code_for(error, context.version, FENCED_SINCE))
    return EndTxnResponse()

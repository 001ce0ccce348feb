"""DescribeTransactions, version 0: describe the transactions of transactional ids (KIP-664)."""

from __future__ import annotations

from ...protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each, shown
from ..security.resources import AclOperation, ResourceType

Answer = DescribeTransactionsResponse.TransactionState


async def guard(call: Call) -> DescribeTransactionsResponse:
    """Refuse each transactional id that the client may not describe; leave out the topics that it may not."""
    describe, describe_topic = call.permissions
    request = call.request
    request.transactional_ids, denied = call.split(describe, request.transactional_ids, lambda name: name)
    answer: DescribeTransactionsResponse = await call.serve()
    for state in answer.transaction_states:
        state.topics = [topic for topic in state.topics if call.may(describe_topic, topic.topic, is_logged=False)]
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


@handles(
    DescribeTransactionsRequest,
    needs=[
        each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        shown(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ],
    guard=guard,
)
async def describe_transactions(request: DescribeTransactionsRequest, context: Context) -> DescribeTransactionsResponse:
    """Describe each transactional id; each has its own outcome. An id that is named twice is described once, because an
    answer may be much larger than the request."""
    answers = []
    turn = Turn()
    for transactional_id in dict.fromkeys(request.transactional_ids):
        if turn.is_over:
            await turn.next()
        answers.append(_describe(transactional_id, context))
    return DescribeTransactionsResponse(transaction_states=answers)


def _describe(transactional_id: str, context: Context) -> DescribeTransactionsResponse.TransactionState:
    try:
        entry = context.services.transactions.find(transactional_id).entry
    except Exception as failure:
        error = kafka_error(failure, "the description of a transaction")
        return Answer(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
        )
    return Answer(
        transactional_id=transactional_id,
        transaction_state=entry.state.wire_name,
        transaction_timeout_ms=entry.timeout_ms,
        transaction_start_time_ms=entry.start_ms,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        topics=[Answer.Topic(topic=name, partitions=numbers) for name, numbers in entry.by_topic()],
    )

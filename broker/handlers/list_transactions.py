"""ListTransactions, versions 0 to 2: list the transactional ids that this broker coordinates (KIP-664).

An id is listed if all filters match. A duration (version 1, KIP-994) counts from the start of the transaction, in log
time; an id without a started transaction has a very long duration, as in Apache Kafka. A pattern (version 2, KIP-1152)
must match the whole id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CoordinatorLoadInProgress
from ...protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import shown
from ..security.resources import AclOperation, ResourceType
from ..transactions.transaction import Transaction
from ..transactions.transaction_states import TransactionState

if TYPE_CHECKING:
    from ..regular_expressions import Pattern

_STATES = {state.wire_name: state for state in TransactionState}


async def guard(call: Call) -> ListTransactionsResponse:
    """Leave out the transactions that the client may not describe."""
    (describe,) = call.permissions
    answer: ListTransactionsResponse = await call.serve()
    answer.transaction_states = [
        state for state in answer.transaction_states if call.may(describe, state.transactional_id, is_logged=False)
    ]
    return answer


@handles(ListTransactionsRequest, needs=[shown(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)], guard=guard)
async def list_transactions(request: ListTransactionsRequest, context: Context) -> ListTransactionsResponse:
    """List the matching ids; none while a partition of transactional ids is loading, as in Kafka."""
    try:
        context.services.transactions.store.topic.check_all_loaded()
    except CoordinatorLoadInProgress as error:
        return ListTransactionsResponse(error_code=error.code)
    filters = _Filters(request, context.services.clock.now_ms())
    answer = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in _STATES]
    )
    turn = Turn()
    for transaction in context.services.transactions.listed():
        if turn.is_over:
            await turn.next()
        if await filters.match(transaction, turn):
            answer.transaction_states.append(
                ListTransactionsResponse.TransactionState(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.entry.producer_id,
                    transaction_state=transaction.entry.state.wire_name,
                )
            )
    return answer


class _Filters:
    """The filter of the request. Raises InvalidRegularExpression."""

    def __init__(self, request: ListTransactionsRequest, now_ms: int) -> None:
        self._states = {_STATES[name] for name in request.state_filters if name in _STATES}
        self._any_state = not request.state_filters
        self._producer_ids = set(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._now_ms = now_ms
        self._pattern: Pattern | None = None
        if request.transactional_id_pattern:
            from ..regular_expressions import Pattern  # patterns are rare

            self._pattern = Pattern(request.transactional_id_pattern)

    async def match(self, transaction: Transaction, turn: Turn) -> bool:
        entry = transaction.entry
        return (
            (self._any_state or entry.state in self._states)
            and (not self._producer_ids or entry.producer_id in self._producer_ids)
            and (self._duration_ms < 0 or self._now_ms - entry.start_ms > self._duration_ms)
            and (self._pattern is None or await self._pattern.matches(transaction.transactional_id, turn))
        )

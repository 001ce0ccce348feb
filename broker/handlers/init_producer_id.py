"""InitProducerId, versions 0 to 5: ids for idempotent producers.

A producer without transactional id gets a new id and epoch 0, whatever it had before. Transactional ids have no
coordinator yet; their requests are checked as far as that goes without one.
"""

from __future__ import annotations

from ...protocol.errors import CoordinatorNotAvailable, InvalidRequest, InvalidTransactionTimeout
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..context import Context
from ..registry import handles

NONE_GIVEN = -1


@handles(InitProducerIdRequest)
async def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    """Give out a producer id."""
    if (request.producer_id == NONE_GIVEN) != (request.producer_epoch == NONE_GIVEN):
        raise InvalidRequest("a producer gives both its id and its epoch, or neither")
    if request.transactional_id is not None:
        _refuse_transactional(request, context.broker.config.transaction_max_timeout_ms)
    return InitProducerIdResponse(producer_id=context.broker.controller.next_producer_id(), producer_epoch=0)


def _refuse_transactional(request: InitProducerIdRequest, max_timeout_ms: int) -> None:
    if not request.transactional_id:
        raise InvalidRequest("a transactional id cannot be empty")
    if not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        raise InvalidTransactionTimeout(f"a transaction time-out is between 1 and {max_timeout_ms} ms")
    raise CoordinatorNotAvailable("transactions are not served yet")

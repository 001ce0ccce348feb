"""InitProducerId, versions 0 to 5: give out ids to idempotent and transactional producers (KIP-98).

A producer without a transactional id always gets a new producer id and epoch 0. A producer with a transactional id gets
the producer id of that transactional id with the next epoch, which fences the producer that used it before; an open
transaction is aborted first. From version 3 on a producer may give its id and epoch to continue after an error
(KIP-360).
"""

from __future__ import annotations

from typing import Any

from ...protocol.errors import InvalidProducerEpoch, InvalidRequest, ProducerFenced
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..coordinators.coordinator_topic import Producer
from ..security.guarding import Call
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

NONE_GIVEN = -1
FENCED_SINCE = 4


async def guard(call: Call) -> Any:
    """Without a transactional id, ask for WRITE on any topic, or for IDEMPOTENT_WRITE (KIP-679)."""
    write_id, write_idempotently = call.permissions
    transactional_id = call.request.transactional_id
    if transactional_id is not None:
        call.demand(write_id, transactional_id)
    elif not call.may(write_idempotently, is_logged=False) and not call.access.may_some(
        AclOperation.WRITE, ResourceType.TOPIC
    ):
        call.demand(write_idempotently)
    return await call.serve()


@handles(
    InitProducerIdRequest,
    needs=[
        whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, when="with a transactional id"),
        whole(
            AclOperation.IDEMPOTENT_WRITE,
            ResourceType.CLUSTER,
            when="without a transactional id and WRITE on any topic",
        ),
    ],
    guard=guard,
)
async def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    """Give out a producer id and an epoch."""
    if (request.producer_id == NONE_GIVEN) != (request.producer_epoch == NONE_GIVEN):
        raise InvalidRequest("a producer gives both its id and its epoch, or neither")
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=context.services.controller.next_producer_id(), producer_epoch=0)
    claimed = Producer(request.producer_id, request.producer_epoch)
    try:
        producer = await context.services.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, claimed
        )
    except ProducerFenced as error:
        if context.version < FENCED_SINCE:
            raise InvalidProducerEpoch(error.message) from error
        raise
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)

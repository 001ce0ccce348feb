"""UnregisterBroker, version 0: forget a broker that is gone, so that new partitions have no replicas there. When it is
started again, it is registered again.

Unlike Apache Kafka, this broker refuses to unregister a broker that runs, which would leave its partitions without a
leader until it is started again.
"""

from __future__ import annotations

from ...protocol.errors import NONE, BrokerIdNotRegistered, InvalidRequest
from ...protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import on_cluster, refused_by_code
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType


@handles(
    UnregisterBrokerRequest,
    needs=[whole(AclOperation.ALTER, ResourceType.CLUSTER)],
    guard=on_cluster(refused_by_code(UnregisterBrokerResponse)),
)
async def unregister_broker(request: UnregisterBrokerRequest, context: Context) -> UnregisterBrokerResponse:
    """Unregister a broker that is not live."""
    controller = context.services.controller
    error: BrokerIdNotRegistered | InvalidRequest
    if controller.is_live(request.broker_id):
        error = InvalidRequest(f"broker {request.broker_id} is running")
    elif request.broker_id not in controller.registered:
        error = BrokerIdNotRegistered(f"there is no broker {request.broker_id}")
    else:
        controller.unregister(request.broker_id)
        return UnregisterBrokerResponse(error_code=NONE, error_message=None)
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)

"""UnregisterBroker, version 0: forget a broker that is gone. Here the cluster forgets such a broker by itself.

Unlike Apache Kafka, this broker refuses to unregister a broker that runs, which would leave its partitions without a
leader until it is started again.
"""

from __future__ import annotations

from ...protocol.errors import BrokerIdNotRegistered, InvalidRequest
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
    """Refuse: the broker is unknown, or it runs."""
    error: BrokerIdNotRegistered | InvalidRequest
    if context.services.controller.is_live(request.broker_id):
        error = InvalidRequest(f"broker {request.broker_id} is running")
    else:
        error = BrokerIdNotRegistered(f"there is no broker {request.broker_id}")
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)

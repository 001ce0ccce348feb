"""DeleteShareGroupState, version 0: delete the state of partitions that a share group has read (KIP-932).

kmini's brokers call the coordinator without this request; other programs may send it.
"""

from __future__ import annotations

from typing import Any

from ...protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from ..share_state.persister import SharePartitionKey
from .share_group_states import answer, brokers_only


@handles(
    DeleteShareGroupStateRequest,
    needs=[whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    guard=brokers_only(DeleteShareGroupStateResponse),
)
async def delete_share_group_state(
    request: DeleteShareGroupStateRequest, context: Context
) -> DeleteShareGroupStateResponse:
    """Delete each state; one that there is not is no error."""
    coordinator = context.services.share_coordinator

    async def serve(place: SharePartitionKey, asked: Any) -> dict[str, Any] | None:
        await coordinator.delete(place)
        return None

    served: DeleteShareGroupStateResponse = await answer(request, DeleteShareGroupStateResponse, serve)
    return served

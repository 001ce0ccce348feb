"""InitializeShareGroupState, version 0: begin the state of partitions that a share group reads (KIP-932).

kmini's brokers call the coordinator without this request; other programs may send it.
"""

from __future__ import annotations

from typing import Any

from ...protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from ..share_state.persister import SharePartitionKey
from .share_group_states import answer, brokers_only


@handles(
    InitializeShareGroupStateRequest,
    needs=[whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    guard=brokers_only(InitializeShareGroupStateResponse),
)
async def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, context: Context
) -> InitializeShareGroupStateResponse:
    """Begin each state, or begin it anew at a later state epoch."""
    coordinator = context.services.share_coordinator

    async def serve(place: SharePartitionKey, asked: Any) -> dict[str, Any] | None:
        await coordinator.initialize(place, asked.state_epoch, asked.start_offset)
        return None

    served: InitializeShareGroupStateResponse = await answer(request, InitializeShareGroupStateResponse, serve)
    return served

"""ReadShareGroupState, version 0: give a leader the state of partitions that a share group reads (KIP-932).

kmini's brokers call the coordinator without this request; other programs may send it. Its leader epoch is noted, and
fences former leaders.
"""

from __future__ import annotations

from typing import Any

from ...protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from ..share_state.persister import SharePartitionKey
from ..share_state.share_partition_state import batches_of
from .share_group_states import answer, brokers_only


@handles(
    ReadShareGroupStateRequest,
    needs=[whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    guard=brokers_only(ReadShareGroupStateResponse),
)
async def read_share_group_state(request: ReadShareGroupStateRequest, context: Context) -> ReadShareGroupStateResponse:
    """Read each state."""
    coordinator = context.services.share_coordinator

    async def serve(place: SharePartitionKey, asked: Any) -> dict[str, Any] | None:
        state = await coordinator.read(place, asked.leader_epoch)
        return {
            "state_epoch": state.state_epoch,
            "start_offset": state.start_offset,
            "state_batches": batches_of(state.runs),
        }

    served: ReadShareGroupStateResponse = await answer(request, ReadShareGroupStateResponse, serve)
    return served

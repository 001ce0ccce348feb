"""WriteShareGroupState, versions 0 and 1: write the state of partitions that a share group reads (KIP-932).

kmini's brokers call the coordinator without this request; other programs may send it.
"""

from __future__ import annotations

from typing import Any

from ...protocol.messages.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from ..share_state.persister import SharePartitionKey
from ..share_state.share_partition_state import runs_of
from .share_group_states import answer, brokers_only


@handles(
    WriteShareGroupStateRequest,
    needs=[whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    guard=brokers_only(WriteShareGroupStateResponse),
)
async def write_share_group_state(
    request: WriteShareGroupStateRequest, context: Context
) -> WriteShareGroupStateResponse:
    """Write batches over each state."""
    coordinator = context.services.share_coordinator

    async def serve(place: SharePartitionKey, asked: Any) -> dict[str, Any] | None:
        await coordinator.write(
            place,
            state_epoch=asked.state_epoch,
            leader_epoch=asked.leader_epoch,
            start_offset=asked.start_offset,
            delivery_complete_count=asked.delivery_complete_count,
            runs=runs_of(asked.state_batches),
        )
        return None

    served: WriteShareGroupStateResponse = await answer(request, WriteShareGroupStateResponse, serve)
    return served

"""ReadShareGroupStateSummary, versions 0 and 1: read states of share partitions without their batches (KIP-932).

kmini's brokers call the coordinator without this request; other programs may send it.
"""

from __future__ import annotations

from typing import Any

from ...protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from ..share_state.persister import SharePartitionKey
from .share_group_states import answer, brokers_only


@handles(
    ReadShareGroupStateSummaryRequest,
    needs=[whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    guard=brokers_only(ReadShareGroupStateSummaryResponse),
)
async def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, context: Context
) -> ReadShareGroupStateSummaryResponse:
    """Read the summary of each state. One that there is not has start offset -1."""
    coordinator = context.services.share_coordinator

    async def serve(place: SharePartitionKey, asked: Any) -> dict[str, Any] | None:
        return (await coordinator.summary(place, asked.leader_epoch))._asdict()

    served: ReadShareGroupStateSummaryResponse = await answer(request, ReadShareGroupStateSummaryResponse, serve)
    return served

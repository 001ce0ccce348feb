"""ListPartitionReassignments, version 0 (KIP-455): none, because one broker has nothing to move."""

from __future__ import annotations

from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ..context import Context
from ..registry import handles


@handles(ListPartitionReassignmentsRequest)
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Tell that nothing is under way, of whatever is asked."""
    return ListPartitionReassignmentsResponse()

"""FindCoordinator, versions 0 to 6: there is no group or transaction coordinator yet, and that is the answer.

COORDINATOR_NOT_AVAILABLE makes clients ask again, which is what they should do once there is one. The answer in its
form is complete: one key before version 4, many from there on (KIP-699).
"""

from __future__ import annotations

from ...protocol.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from ...protocol.messages.find_coordinator import (
    GROUP,
    TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ..context import Context
from ..registry import handles

BATCHED_SINCE = 4


@handles(FindCoordinatorRequest)
async def find_coordinator(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    """Tell the same of every key."""
    error = _error(request.key_type)
    if context.version < BATCHED_SINCE:
        return FindCoordinatorResponse(error_code=error.code, error_message=error.message)
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(key=key, error_code=error.code, error_message=error.message)
            for key in request.coordinator_keys
        ]
    )


def _error(key_type: int) -> KafkaError:
    if key_type == GROUP:
        return CoordinatorNotAvailable("consumer groups are not served yet: assign partitions instead of subscribing")
    if key_type == TRANSACTION:
        return CoordinatorNotAvailable("transactions are not served yet")
    return InvalidRequest(f"key type {key_type} has no coordinator here")

"""AlterUserScramCredentials, version 0 (KIP-554): set and remove the passwords of SASL/SCRAM."""

from __future__ import annotations

from ...protocol.errors import NONE
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import on_cluster
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from ..security.scram_credentials import alter


def refused(request: AlterUserScramCredentialsRequest, code: int) -> AlterUserScramCredentialsResponse:
    """Refuse every user that the request names, once."""
    response = AlterUserScramCredentialsResponse
    users = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
    return response(results=[response.Result(user=user, error_code=code) for user in users])


@handles(
    AlterUserScramCredentialsRequest,
    needs=[whole(AclOperation.ALTER, ResourceType.CLUSTER)],
    guard=on_cluster(refused),
)
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    """Change the credentials of each user; all changes of a user, or none."""
    outcomes = alter(context.services.controller, request.deletions, request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.Result(
                user=user, error_code=error.code if error else NONE, error_message=error.message if error else None
            )
            for user, error in outcomes.items()
        ]
    )

"""DescribeUserScramCredentials, version 0 (KIP-554): list mechanisms and iterations of users, and nothing secret."""

from __future__ import annotations

from collections import Counter

from ...protocol.errors import DuplicateResource, KafkaError, ResourceNotFound
from ...protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import on_cluster
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

Result = DescribeUserScramCredentialsResponse.Result


def refused(request: DescribeUserScramCredentialsRequest, code: int) -> DescribeUserScramCredentialsResponse:
    """Refuse the request, and every user that it names."""
    response = DescribeUserScramCredentialsResponse
    results = [response.Result(user=user.name, error_code=code) for user in request.users or ()]
    return response(error_code=code, results=results)


@handles(
    DescribeUserScramCredentialsRequest,
    needs=[whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
    guard=on_cluster(refused),
)
async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    """Describe the users asked for, or all that have credentials."""
    described: dict[str, list[Result.Credential]] = {}
    for (user, mechanism), credential in sorted(context.services.controller.scram_credentials.items()):
        described.setdefault(user, []).append(Result.Credential(mechanism=mechanism, iterations=credential.iterations))
    if not request.users:
        return DescribeUserScramCredentialsResponse(
            results=[Result(user=user, credential_infos=credentials) for user, credentials in described.items()]
        )
    asked = Counter(user.name for user in request.users)
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, times, described.get(name, [])) for name, times in asked.items()]
    )


def _result(name: str, times_asked: int, credentials: list[Result.Credential]) -> Result:
    error: KafkaError
    if times_asked > 1:
        error = DuplicateResource("the user is named twice")
    elif not credentials:
        error = ResourceNotFound("the user has no SCRAM credentials")
    else:
        return Result(user=name, credential_infos=credentials)
    return Result(user=name, error_code=error.code, error_message=error.message)

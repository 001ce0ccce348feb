"""DescribeUserScramCredentials, version 0 (KIP-554): nobody has a password, because nobody has to log in."""

from __future__ import annotations

from collections import Counter

from ...protocol.errors import DuplicateResource, KafkaError, ResourceNotFound
from ...protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from ..context import Context
from ..registry import handles


@handles(DescribeUserScramCredentialsRequest)
async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    """Say of each user asked for that there are no credentials."""
    users = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(results=[_result(name, times) for name, times in users.items()])


def _result(name: str, times_asked: int) -> DescribeUserScramCredentialsResponse.Result:
    error: KafkaError = ResourceNotFound("the user has no SCRAM credentials")
    if times_asked > 1:
        error = DuplicateResource("the user is named twice")
    return DescribeUserScramCredentialsResponse.Result(user=name, error_code=error.code, error_message=error.message)

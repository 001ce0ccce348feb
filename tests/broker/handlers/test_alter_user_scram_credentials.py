"""AlterUserScramCredentials, asked of the handler; `tests/broker/security/` has the logins that use the credentials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import NONE, DuplicateResource, ResourceNotFound
from kmini.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kmini.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

EXAMPLE = AlterUserScramCredentialsRequest(
    deletions=[AlterUserScramCredentialsRequest.Deletion(name="u", mechanism=1)], upsertions=[]
)

Ask = Callable[..., Awaitable[Any]]
Deletion = AlterUserScramCredentialsRequest.Deletion
SCRAM_SHA_256 = 1


def upsertion(user: str) -> AlterUserScramCredentialsRequest.Upsertion:
    return AlterUserScramCredentialsRequest.Upsertion(
        name=user, mechanism=SCRAM_SHA_256, iterations=4096, salt=b"salt", salted_password=bytes(32)
    )


async def alter(ask: Ask, broker: BrokerServer, *users: str, deleted: tuple[str, ...] = ()) -> dict[str, int]:
    """Set and remove passwords; returns the error code of each user."""
    request = AlterUserScramCredentialsRequest(
        upsertions=[upsertion(user) for user in users],
        deletions=[Deletion(name=user, mechanism=SCRAM_SHA_256) for user in deleted],
    )
    return {result.user: result.error_code for result in (await ask(broker, request)).results}


async def test_a_password_is_described_until_it_is_removed(broker: BrokerServer, ask: Ask) -> None:
    assert await alter(ask, broker, "alice") == {"alice": NONE}
    (described,) = (await ask(broker, DescribeUserScramCredentialsRequest(users=None))).results
    assert (described.user, [one.iterations for one in described.credential_infos]) == ("alice", [4096])
    assert await alter(ask, broker, deleted=("alice",)) == {"alice": NONE}
    assert (await ask(broker, DescribeUserScramCredentialsRequest(users=None))).results == []


async def test_each_user_is_answered_by_itself(broker: BrokerServer, ask: Ask) -> None:
    assert await alter(ask, broker, "alice", "bob", "bob", deleted=("carol",)) == {
        "alice": NONE,
        "bob": DuplicateResource.code,
        "carol": ResourceNotFound.code,
    }

"""DescribeUserScramCredentials, without credentials."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import NONE, DuplicateResource, ResourceNotFound
from kmini.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

EXAMPLE = DescribeUserScramCredentialsRequest(users=[DescribeUserScramCredentialsRequest.User(name="u")])

User = DescribeUserScramCredentialsRequest.User


@pytest.mark.parametrize("users", [None, []])
async def test_without_credentials_no_user_is_listed(broker: BrokerServer, ask, users) -> None:
    answer = await ask(broker, DescribeUserScramCredentialsRequest(users=users))
    assert (answer.error_code, answer.results) == (NONE, [])


async def test_an_unknown_user_is_not_found_and_a_user_named_twice_is_a_duplicate(broker: BrokerServer, ask) -> None:
    users = [User(name=name) for name in ("alice", "bob", "alice")]
    answer = await ask(broker, DescribeUserScramCredentialsRequest(users=users))
    assert answer.error_code == NONE
    assert {result.user: result.error_code for result in answer.results} == {
        "alice": DuplicateResource.code,
        "bob": ResourceNotFound.code,
    }

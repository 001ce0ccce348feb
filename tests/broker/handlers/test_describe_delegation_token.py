"""DescribeDelegationToken: which tokens a client sees."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed
from kmini.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_in, authenticated
from support.broker.token_requests import SECRET, create, described, description, expire

EXAMPLE = DescribeDelegationTokenRequest(owners=None)


async def test_a_token_is_described_with_all_that_its_creation_answered(token_broker: BrokerServer) -> None:
    made = await create(token_broker, "alice", "carol", owner="bob")
    (token,) = (await ask_in(authenticated(token_broker, 3), description(of_all=True))).tokens
    assert (token.token_id, token.hmac) == (made.token_id, made.hmac)
    assert (token.principal_type, token.principal_name) == ("User", "bob")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "alice")
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )
    assert [(each.principal_type, each.principal_name) for each in token.renewers] == [("User", "carol")]
    assert await expire(token_broker, "bob", made.hmac, 1000) == (0, made.issue_timestamp_ms + 1000)
    (token,) = (await ask_in(authenticated(token_broker, 3), description(of_all=True))).tokens
    assert token.expiry_timestamp == made.issue_timestamp_ms + 1000


async def test_owners_name_those_that_own_ask_for_or_renew_a_token(token_broker: BrokerServer) -> None:
    made = await create(token_broker, "alice", "carol", owner="bob")
    for owner in ("alice", "bob", "carol"):
        assert await described(token_broker, "eve", owner, "mallory") == [made.token_id]
    assert await described(token_broker, "alice", "mallory") == []
    answer = await ask_in(authenticated(token_broker, 3), description())
    assert (answer.error_code, answer.tokens) == (0, []), "an empty list of owners is no owner, not all"


async def test_others_see_a_token_by_a_permission_on_it_or_on_its_owner(start_broker) -> None:
    broker = await start_broker(
        delegation_token_secret_key=SECRET, authorizer_class_name=STANDARD, super_users="User:admin"
    )
    made = await create(broker, "alice", "carol", owner="bob")
    other = await create(broker, "dave")

    async def seen_by(user: str) -> list[str]:
        return [one.token_id for one in (await ask_as_user(broker, user, description(of_all=True))).tokens]

    for user in ("alice", "bob", "carol"):
        assert await seen_by(user) == [made.token_id]
    assert await seen_by("eve") == []
    assert await seen_by("admin") == [made.token_id, other.token_id]
    broker.controller.create_acls(
        [
            acl(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, made.token_id, principal="User:eve"),
            acl(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:dave", principal="User:mallory"),
        ]
    )
    assert await seen_by("eve") == [made.token_id]
    assert await seen_by("mallory") == [other.token_id]


async def test_a_client_without_authentication_or_by_a_token_is_refused(token_broker: BrokerServer, ask) -> None:
    await create(token_broker, "alice")
    for version in range(4):
        answer = await ask(token_broker, EXAMPLE, version)
        assert (answer.error_code, answer.tokens) == (DelegationTokenRequestNotAllowed.code, [])
    answer = await ask_in(authenticated(token_broker, 3, by_token=True), EXAMPLE)
    assert (answer.error_code, answer.tokens) == (DelegationTokenRequestNotAllowed.code, [])


async def test_without_a_secret_key_tokens_are_not_turned_on(broker: BrokerServer) -> None:
    answer = await ask_in(authenticated(broker, 3), EXAMPLE)
    assert (answer.error_code, answer.tokens) == (DelegationTokenAuthDisabled.code, [])

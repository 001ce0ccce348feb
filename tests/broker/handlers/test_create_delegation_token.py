"""CreateDelegationToken: which clients get a token, and what it is."""

from __future__ import annotations

import hashlib
import hmac

from kmini.broker.broker import BrokerServer
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed,
    DelegationTokenRequestNotAllowed,
    InvalidPrincipalType,
)
from kmini.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kmini.protocol.uuids import parse_uuid
from support.broker.access_rules import STANDARD, acl
from support.broker.asking import ask_as_user, ask_in, authenticated
from support.broker.consumer_lab import StillClock
from support.broker.token_requests import DAY, HOUR, SECRET, create, creation

EXAMPLE = CreateDelegationTokenRequest(
    owner_principal_type="User", owner_principal_name="bob", renewers=[], max_lifetime_ms=-1
)


async def test_a_token_has_the_hmac_of_its_id_and_the_times_of_the_settings(
    token_broker: BrokerServer, clock: StillClock
) -> None:
    answer = await create(token_broker, "alice", "carol")
    assert len(parse_uuid(answer.token_id)) == 16
    assert answer.hmac == hmac.digest(SECRET.encode(), answer.token_id.encode(), hashlib.sha512)
    now_ms = clock.now_ms()
    times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    assert times == (now_ms, now_ms + DAY, now_ms + 7 * DAY)
    assert (answer.principal_type, answer.principal_name) == ("User", "alice")
    assert (answer.token_requester_principal_type, answer.token_requester_principal_name) == ("User", "alice")
    assert (await create(token_broker, "alice")).token_id != answer.token_id


async def test_a_lifetime_that_is_asked_for_shortens_that_of_the_setting(
    token_broker: BrokerServer, clock: StillClock
) -> None:
    for asked_ms, greatest_age_ms in ((HOUR, HOUR), (2 * DAY, 2 * DAY), (8 * DAY, 7 * DAY), (0, 7 * DAY)):
        answer = await create(token_broker, "alice", lifetime_ms=asked_ms)
        assert answer.max_timestamp_ms - clock.now_ms() == greatest_age_ms
        assert answer.expiry_timestamp_ms - clock.now_ms() == min(greatest_age_ms, DAY)


async def test_lifetimes_without_end_stop_at_the_last_time_there_is(start_broker) -> None:
    broker = await start_broker(
        delegation_token_secret_key=SECRET,
        delegation_token_max_lifetime_ms=2**63 - 1,
        delegation_token_expiry_time_ms=2**63 - 1,
    )
    answer = await create(broker, "alice")
    assert (answer.max_timestamp_ms, answer.expiry_timestamp_ms) == (2**63 - 1, 2**63 - 1)


async def test_a_client_without_authentication_may_not_ask_for_a_token(token_broker: BrokerServer, ask) -> None:
    for version in range(4):
        answer = await ask(token_broker, creation(), version)
        assert answer.error_code == DelegationTokenRequestNotAllowed.code
        assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")
        assert (answer.issue_timestamp_ms, answer.token_id, answer.hmac) == (-1, "", b"")


async def test_a_client_that_a_token_authenticated_gets_no_other_token(token_broker: BrokerServer) -> None:
    answer = await ask_in(authenticated(token_broker, 3, by_token=True), creation())
    assert (answer.error_code, answer.token_id, answer.hmac) == (DelegationTokenRequestNotAllowed.code, "", b"")
    assert token_broker.controller.delegation_tokens == {}


async def test_a_client_with_a_certificate_may_ask(token_broker: BrokerServer) -> None:
    """Over SSL the principal is that of the certificate, without SASL."""
    assert (await ask_as_user(token_broker, "CN=alice", creation())).error_code == 0


async def test_a_renewer_is_a_user(token_broker: BrokerServer) -> None:
    answer = await ask_in(authenticated(token_broker, 3), creation("readers", renewer_type="Group"))
    assert (answer.error_code, answer.issue_timestamp_ms) == (InvalidPrincipalType.code, -1)


async def test_without_a_secret_key_tokens_are_not_turned_on(broker: BrokerServer, start_broker) -> None:
    context = authenticated(broker, 3)
    answer = await ask_in(context, creation())
    assert (answer.error_code, answer.issue_timestamp_ms) == (DelegationTokenAuthDisabled.code, 0)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "alice")
    answer = await ask_in(context, creation("readers", renewer_type="Group"))
    assert answer.error_code == InvalidPrincipalType.code


async def test_a_token_for_another_owner_needs_create_tokens_on_that_user(start_broker) -> None:
    broker = await start_broker(
        delegation_token_secret_key=SECRET, authorizer_class_name=STANDARD, super_users="User:admin"
    )
    for_bob, wrong = creation(owner="bob"), creation("readers", owner="bob", renewer_type="Group")
    assert (await ask_as_user(broker, "alice", creation())).error_code == 0
    assert (await ask_as_user(broker, "bob", for_bob)).error_code == 0
    for request in (for_bob, wrong):  # the permission is asked for before renewers are looked at
        refused = await ask_as_user(broker, "alice", request)
        assert refused.error_code == DelegationTokenAuthorizationFailed.code
        assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
        assert (refused.issue_timestamp_ms, refused.hmac) == (-1, b"")
    broker.controller.create_acls([acl(AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob")])
    made = await ask_as_user(broker, "alice", for_bob)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "bob", "alice")
    refused = await ask_as_user(broker, "alice", creation(owner="carol"))
    assert refused.error_code == DelegationTokenAuthorizationFailed.code


async def test_without_an_authorizer_any_user_may_be_the_owner(token_broker: BrokerServer) -> None:
    made = await create(token_broker, "alice", owner="bob")
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")

"""RenewDelegationToken: which principals give a token more time, and how much."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
)
from kmini.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from support.broker.asking import ask_in, authenticated
from support.broker.consumer_lab import StillClock
from support.broker.token_requests import DAY, HOUR, create, described, renew

EXAMPLE = RenewDelegationTokenRequest(hmac=b"token", renew_period_ms=-1)


async def test_the_owner_and_the_renewers_give_a_token_more_time(token_broker: BrokerServer, clock: StillClock) -> None:
    token = await create(token_broker, "alice", "carol", owner="bob")
    await clock.advance(HOUR)
    for user in ("bob", "carol"):
        assert await renew(token_broker, user, token.hmac) == (0, clock.now_ms() + DAY)
    for user in ("alice", "eve"):  # one that only asked for it may describe it, no more
        assert await renew(token_broker, user, token.hmac) == (DelegationTokenOwnerMismatch.code, 0)


async def test_a_period_that_is_asked_for_shortens_that_of_the_setting(
    token_broker: BrokerServer, clock: StillClock
) -> None:
    token = await create(token_broker, "alice")
    for asked_ms, period_ms in ((HOUR, HOUR), (2 * DAY, DAY), (0, DAY), (-5, DAY)):
        assert await renew(token_broker, "alice", token.hmac, asked_ms) == (0, clock.now_ms() + period_ms)


async def test_no_renewal_goes_beyond_the_greatest_age(token_broker: BrokerServer, clock: StillClock) -> None:
    token = await create(token_broker, "alice", lifetime_ms=DAY + HOUR)
    await clock.advance(2 * HOUR)
    assert await renew(token_broker, "alice", token.hmac) == (0, token.max_timestamp_ms)


async def test_an_expired_token_is_not_renewed(token_broker: BrokerServer, clock: StillClock) -> None:
    token = await create(token_broker, "alice", lifetime_ms=1000)
    await clock.advance(1000)
    assert await renew(token_broker, "alice", token.hmac) == (0, token.max_timestamp_ms)
    await clock.advance(1)
    for user in ("alice", "eve"):  # that it has expired is told first
        assert await renew(token_broker, user, token.hmac) == (DelegationTokenExpired.code, 0)
    assert await described(token_broker, "alice") == [token.token_id]


async def test_an_unknown_token_is_not_found(token_broker: BrokerServer) -> None:
    token = await create(token_broker, "alice")
    for unknown in (b"", b"token", token.hmac[:-1], token.token_id.encode()):
        assert await renew(token_broker, "alice", unknown) == (DelegationTokenNotFound.code, 0)


async def test_a_client_without_authentication_or_by_a_token_is_refused(token_broker: BrokerServer, ask) -> None:
    token = await create(token_broker, "alice")
    request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
    for version in range(3):
        answer = await ask(token_broker, request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (DelegationTokenRequestNotAllowed.code, -1)
    answer = await ask_in(authenticated(token_broker, 2, by_token=True), request)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (DelegationTokenRequestNotAllowed.code, -1)


async def test_without_a_secret_key_tokens_are_not_turned_on(broker: BrokerServer) -> None:
    assert await renew(broker, "alice", b"token") == (DelegationTokenAuthDisabled.code, 0)

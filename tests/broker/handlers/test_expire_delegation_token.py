"""ExpireDelegationToken: which principals end a token, and when."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
)
from kmini.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from support.broker.asking import ask_in, authenticated
from support.broker.consumer_lab import StillClock
from support.broker.token_requests import DAY, HOUR, create, described, expire

EXAMPLE = ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=-1)


async def test_a_negative_period_removes_the_token_at_once(token_broker: BrokerServer, clock: StillClock) -> None:
    kept, token = await create(token_broker, "alice"), await create(token_broker, "alice")
    assert await expire(token_broker, "alice", token.hmac) == (0, clock.now_ms())
    assert await described(token_broker, "alice") == [kept.token_id]
    assert await expire(token_broker, "alice", token.hmac) == (DelegationTokenNotFound.code, 0)


async def test_another_period_is_the_time_that_is_left(token_broker: BrokerServer, clock: StillClock) -> None:
    token = await create(token_broker, "alice", "carol")
    for user, period_ms in (("carol", HOUR), ("alice", 0)):
        assert await expire(token_broker, user, token.hmac, period_ms) == (0, clock.now_ms() + period_ms)
    for period_ms in (8 * DAY, 2**63 - 1):
        assert await expire(token_broker, "alice", token.hmac, period_ms) == (0, token.max_timestamp_ms)
    assert await described(token_broker, "alice") == [token.token_id]


async def test_others_may_not_end_a_token(token_broker: BrokerServer, clock: StillClock) -> None:
    token = await create(token_broker, "alice", owner="bob", lifetime_ms=1000)
    assert await expire(token_broker, "alice", token.hmac) == (DelegationTokenOwnerMismatch.code, 0)
    await clock.advance(1001)  # unlike with a renewal, this is told before that it has expired
    assert await expire(token_broker, "alice", token.hmac, 0) == (DelegationTokenOwnerMismatch.code, 0)


async def test_an_expired_token_can_be_removed_and_gets_no_other_time(
    token_broker: BrokerServer, clock: StillClock
) -> None:
    token = await create(token_broker, "alice", lifetime_ms=1000)
    await clock.advance(1001)
    assert await expire(token_broker, "alice", token.hmac, HOUR) == (DelegationTokenExpired.code, 0)
    assert await expire(token_broker, "alice", token.hmac) == (0, clock.now_ms())
    assert await described(token_broker, "alice") == []


async def test_a_client_without_authentication_or_by_a_token_is_refused(token_broker: BrokerServer, ask) -> None:
    token = await create(token_broker, "alice")
    request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    for version in range(3):
        answer = await ask(token_broker, request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (DelegationTokenRequestNotAllowed.code, -1)
    answer = await ask_in(authenticated(token_broker, 2, by_token=True), request)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (DelegationTokenRequestNotAllowed.code, -1)
    assert await described(token_broker, "alice") == [token.token_id]


async def test_without_a_secret_key_tokens_are_not_turned_on(broker: BrokerServer) -> None:
    assert await expire(broker, "alice", b"token") == (DelegationTokenAuthDisabled.code, 0)

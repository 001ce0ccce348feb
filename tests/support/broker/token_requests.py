"""Requests about delegation tokens, asked of a broker's handlers as an authenticated user."""

from __future__ import annotations

from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kmini.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kmini.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kmini.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from support.broker.asking import ask_in, authenticated

SECRET = "the-key-of-all-tokens"

HOUR, DAY = 3_600_000, 86_400_000
"""In milliseconds."""


def creation(
    *renewers: str, lifetime_ms: int = -1, owner: str | None = None, renewer_type: str = "User"
) -> CreateDelegationTokenRequest:
    Renewer = CreateDelegationTokenRequest.Renewer
    return CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
        renewers=[Renewer(principal_type=renewer_type, principal_name=name) for name in renewers],
        max_lifetime_ms=lifetime_ms,
    )


def description(*owners: str, of_all: bool = False) -> DescribeDelegationTokenRequest:
    Owner = DescribeDelegationTokenRequest.Owner
    named = [Owner(principal_type="User", principal_name=name) for name in owners]
    return DescribeDelegationTokenRequest(owners=None if of_all else named)


async def create(broker: BrokerServer, user: str, *renewers: str, **fields: Any) -> Any:
    answer = await ask_in(authenticated(broker, 3, user), creation(*renewers, **fields))
    assert answer.error_code == 0
    return answer


async def renew(broker: BrokerServer, user: str, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    """Error code and time of expiry of the answer."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    answer = await ask_in(authenticated(broker, 2, user), request)
    return answer.error_code, answer.expiry_timestamp_ms


async def expire(broker: BrokerServer, user: str, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    """Error code and time of expiry of the answer."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    answer = await ask_in(authenticated(broker, 2, user), request)
    return answer.error_code, answer.expiry_timestamp_ms


async def described(broker: BrokerServer, user: str, *owners: str) -> list[str]:
    """The ids of the tokens that a user sees, of the owners that it names or, without any, of all."""
    answer = await ask_in(authenticated(broker, 3, user), description(*owners, of_all=not owners))
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]

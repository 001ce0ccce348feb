"""ExpireDelegationToken, which is refused: there are no delegation tokens."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed
from kmini.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from support.broker.asking import ask_in, authenticated

EXAMPLE = ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=-1)


async def test_no_token_can_end(broker: BrokerServer, ask) -> None:
    for version in range(3):
        answer = await ask(broker, EXAMPLE, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (DelegationTokenRequestNotAllowed.code, -1)
    answer = await ask_in(authenticated(broker, 2), EXAMPLE)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (DelegationTokenAuthDisabled.code, 0)

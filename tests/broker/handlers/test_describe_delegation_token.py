"""DescribeDelegationToken, which is refused: there are no delegation tokens."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed
from kmini.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from support.broker.asking import ask_in, authenticated

EXAMPLE = DescribeDelegationTokenRequest(owners=None)


async def test_no_token_is_listed(broker: BrokerServer, ask) -> None:
    for version in range(4):
        answer = await ask(broker, EXAMPLE, version)
        assert (answer.error_code, answer.tokens) == (DelegationTokenRequestNotAllowed.code, [])
    answer = await ask_in(authenticated(broker, 3), EXAMPLE)
    assert (answer.error_code, answer.tokens) == (DelegationTokenAuthDisabled.code, [])

"""CreateDelegationToken, which is refused: there are no delegation tokens."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed, InvalidPrincipalType
from kmini.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from support.broker.asking import ask_in, authenticated

EXAMPLE = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)


async def test_a_client_without_authentication_may_not_ask_for_a_token(broker: BrokerServer, ask) -> None:
    for version in range(4):
        answer = await ask(broker, EXAMPLE, version)
        assert answer.error_code == DelegationTokenRequestNotAllowed.code
        assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")
        assert (answer.issue_timestamp_ms, answer.token_id, answer.hmac) == (-1, "", b"")


async def test_to_others_tokens_are_not_turned_on(broker: BrokerServer) -> None:
    context = authenticated(broker, 3)
    answer = await ask_in(context, EXAMPLE)
    assert answer.error_code == DelegationTokenAuthDisabled.code
    assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "alice")
    renewers = [CreateDelegationTokenRequest.Renewer(principal_type="Group", principal_name="g")]
    answer = await ask_in(context, CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1))
    assert answer.error_code == InvalidPrincipalType.code

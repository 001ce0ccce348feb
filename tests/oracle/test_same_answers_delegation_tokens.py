"""Requests about delegation tokens (KIP-48) are refused with the same bytes as by Apache Kafka, which has none turned
on."""

from __future__ import annotations

from kmini.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kmini.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kmini.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kmini.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kmini.testing import Wire
from support.transcript import SameAnswers, Transcript


def test_delegation_tokens(same_answers: SameAnswers) -> None:
    Renewer, Owner = CreateDelegationTokenRequest.Renewer, DescribeDelegationTokenRequest.Owner
    requests = {
        "create": CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
        "create for another": CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="bob", renewers=[], max_lifetime_ms=1
        ),
        "create with a renewer": CreateDelegationTokenRequest(
            renewers=[Renewer(principal_type="Group", principal_name="g")], max_lifetime_ms=-1
        ),
        "renew": RenewDelegationTokenRequest(hmac=b"token", renew_period_ms=-1),
        "expire": ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=-1),
        "describe": DescribeDelegationTokenRequest(owners=None),
        "describe some": DescribeDelegationTokenRequest(owners=[Owner(principal_type="User", principal_name="bob")]),
    }

    def script(transcript: Transcript) -> None:
        with Wire(transcript.server.bootstrap_servers) as wire:
            for what, request in requests.items():
                for version in range(1, request.max_version + 1):
                    answer = wire.ask(request, version)
                    transcript.note(f"{what}, v{version}", answer, api=request.name)

    same_answers(script)

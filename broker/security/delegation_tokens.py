"""Delegation tokens (KIP-48), which are refused here as by Apache Kafka without `delegation.token.secret.key`.

Their requests are told to clients all the same: clients that infer a release of Apache Kafka from the requests that it
serves would take a broker without them for Kafka 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed, KafkaError

if TYPE_CHECKING:
    from .sasl import SaslSession


def refusal(sasl: SaslSession | None) -> type[KafkaError]:
    """The error of a request about tokens, given the authentication of its connection: a client without one may not ask
    for them, and there are none."""
    return DelegationTokenRequestNotAllowed if sasl is None else DelegationTokenAuthDisabled

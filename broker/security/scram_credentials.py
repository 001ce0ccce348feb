"""SCRAM credentials and how they are managed (KIP-554): the rules of AlterUserScramCredentials.

Clients salt passwords before they send them, and a stored credential is not enough to log in (`protocol/scram.py`).
The controller's database holds the credentials; only its owner may read its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from ...protocol import scram
from ...protocol.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from ...protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest

Deletion = AlterUserScramCredentialsRequest.Deletion
Upsertion = AlterUserScramCredentialsRequest.Upsertion

MAX_SALT_BYTES = 8 * 1024 * 1024
"""Bytes of a salt beyond which a credential is refused: Apache Kafka takes none that does not fit into a batch of its
metadata log (8 MiB). A login sends the salt to the client, so it has to be bounded."""


class CredentialStore(Protocol):
    """The controller, as far as it stores credentials, by user name and mechanism number."""

    scram_credentials: dict[tuple[str, int], scram.ScramCredential]

    def alter_scram_credentials(
        self, upserted: Mapping[tuple[str, int], scram.ScramCredential], deleted: Sequence[tuple[str, int]]
    ) -> None: ...


def alter(
    controller: CredentialStore, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> dict[str, KafkaError | None]:
    """Set and delete credentials, and return for each user the error or None.

    An invalid change refuses all changes of its user, and none of another user. Raises KafkaStorageError.
    """
    changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
    times_named = Counter((change.name, change.mechanism) for change in changes)
    outcomes: dict[str, KafkaError | None] = {}
    for change in changes:
        outcomes.setdefault(change.name, None)
        try:
            _check_user(change.name, change.mechanism)
            if isinstance(change, Upsertion):
                _check_upsertion(change)
            if times_named[change.name, change.mechanism] > 1:
                raise DuplicateResource("A user credential cannot be altered twice in the same request")
            if isinstance(change, Deletion) and (change.name, change.mechanism) not in controller.scram_credentials:
                raise ResourceNotFound("Attempt to delete a user credential that does not exist")
        except KafkaError as error:
            outcomes[change.name] = outcomes[change.name] or error.with_traceback(None)
    accepted = {name for name, error in outcomes.items() if error is None}
    controller.alter_scram_credentials(
        {(one.name, one.mechanism): _credential(one) for one in upsertions if one.name in accepted},
        [(one.name, one.mechanism) for one in deletions if one.name in accepted],
    )
    return outcomes


def _check_user(name: str, mechanism: int) -> None:
    if not name:
        raise UnacceptableCredential("Username must not be empty")
    if mechanism not in scram.MECHANISMS_BY_CODE:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")


def _check_upsertion(change: Upsertion) -> None:
    """Apply Kafka's checks: a salt and a salted password may have any length, but an empty password gives no key."""
    mechanism = scram.MECHANISMS_BY_CODE[change.mechanism]
    if change.iterations < mechanism.min_iterations:
        raise UnacceptableCredential("Too few iterations")
    if change.iterations > mechanism.max_iterations:
        raise UnacceptableCredential("Too many iterations")
    if len(change.salt) > MAX_SALT_BYTES:
        raise UnacceptableCredential(f"The salt has {len(change.salt)} bytes, more than {MAX_SALT_BYTES}")
    if not change.salted_password:
        raise UnacceptableCredential("The salted password must not be empty")


def _credential(change: Upsertion) -> scram.ScramCredential:
    mechanism = scram.MECHANISMS_BY_CODE[change.mechanism]
    return scram.credential_of(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)

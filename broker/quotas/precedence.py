"""Which quota applies to a client, and which clients share it (KIP-55): Kafka's `DefaultQuotaCallback`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

USER, CLIENT_ID = "user", "client-id"
"""The entity types of clients."""


class _Absent(enum.Enum):
    ABSENT = 0


ABSENT = _Absent.ABSENT
"""In place of a name: the entity has no part of this type."""

DEFAULT = None
"""In place of a name: the entity is the default of the type."""

Name = str | None | _Absent
Sharers = tuple[str | _Absent, str | _Absent]
"""Whose use is counted together: a user, a client id, or a client id of a user."""


class Quota(NamedTuple):
    """A quota that holds for a client."""

    bound: float
    sharers: Sharers


class QuotasOfKind:
    """The quotas of one kind, such as `producer_byte_rate`."""

    def __init__(self) -> None:
        self._bounds: dict[tuple[Name, Name], float] = {}

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def set(self, entity: Mapping[str, str | None], bound: float | None) -> None:
        """Give an entity of users and client ids this quota, or none."""
        key = entity.get(USER, ABSENT), entity.get(CLIENT_ID, ABSENT)
        if bound is None:
            self._bounds.pop(key, None)
        else:
            self._bounds[key] = bound

    def of(self, user: str, client_id: str) -> Quota | None:
        """The quota of a client: the first of Kafka's eight levels that there is; None if there is none."""
        both = user, client_id
        of_user, of_client_id = (user, ABSENT), (ABSENT, client_id)
        levels: tuple[tuple[tuple[Name, Name], Sharers], ...] = (
            (both, both),
            ((user, DEFAULT), both),
            (of_user, of_user),
            ((DEFAULT, client_id), both),
            ((DEFAULT, DEFAULT), both),
            ((DEFAULT, ABSENT), of_user),
            (of_client_id, of_client_id),
            ((ABSENT, DEFAULT), of_client_id),
        )
        for entity, sharers in levels:
            bound = self._bounds.get(entity)
            if bound is not None:
                return Quota(bound, sharers)
        return None

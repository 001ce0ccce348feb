"""Which quota holds for a client, and who shares it (KIP-55)."""

from __future__ import annotations

import pytest

from kmini.broker.quotas.precedence import ABSENT, QuotasOfKind

LEVELS = [
    ({"user": "ann", "client-id": "app"}, ("ann", "app")),
    ({"user": "ann", "client-id": None}, ("ann", "app")),
    ({"user": "ann"}, ("ann", ABSENT)),
    ({"user": None, "client-id": "app"}, ("ann", "app")),
    ({"user": None, "client-id": None}, ("ann", "app")),
    ({"user": None}, ("ann", ABSENT)),
    ({"client-id": "app"}, (ABSENT, "app")),
    ({"client-id": None}, (ABSENT, "app")),
]
"""The entities whose quotas may hold for client "app" of user ann, the first that counts first, and who shares each."""


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_first_of_eight_levels_holds(first: int) -> None:
    quotas = QuotasOfKind()
    for bound, (entity, _) in enumerate(LEVELS[first:], first):
        quotas.set(entity, bound + 1)
    assert quotas.of("ann", "app") == (first + 1, LEVELS[first][1])


def test_a_client_without_an_entity_has_no_quota() -> None:
    quotas = QuotasOfKind()
    quotas.set({"user": "eve"}, 1)
    quotas.set({"client-id": "other"}, 2)
    quotas.set({"user": "ann", "client-id": "other"}, 3)
    assert quotas.of("ann", "app") is None


def test_a_quota_that_is_removed_makes_room_for_the_next_level() -> None:
    quotas = QuotasOfKind()
    for bound, (entity, _) in enumerate(LEVELS, 1):
        quotas.set(entity, bound)
    for number, (entity, _) in enumerate(LEVELS, 1):
        found = quotas.of("ann", "app")
        assert found is not None
        assert found.bound == number
        quotas.set(entity, None)
    assert not quotas


def test_a_client_without_a_client_id_has_the_quota_of_the_default_client_id() -> None:
    quotas = QuotasOfKind()
    quotas.set({"user": None}, 1)
    quotas.set({"user": None, "client-id": None}, 2)
    found = quotas.of("ann", "")
    assert found is not None
    assert found.bound == 2

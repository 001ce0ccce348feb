"""FindCoordinator while there is no coordinator: an honest answer in every version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.protocol.errors import CoordinatorNotAvailable, InvalidRequest
from kmini.protocol.messages.find_coordinator import GROUP, SHARE, TRANSACTION, FindCoordinatorRequest

Ask = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize("version", range(4))
async def test_one_key_has_no_coordinator_yet(broker: Broker, ask: Ask, version: int) -> None:
    answer = await ask(broker, FindCoordinatorRequest(key="group"), version)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (CoordinatorNotAvailable.code, -1, "", -1)
    assert (answer.error_message is not None) == (version >= 1)


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
async def test_many_keys_are_answered_one_by_one(broker: Broker, ask: Ask, version: int, key_type: int) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "", "c"])
    answers = (await ask(broker, request, version)).coordinators
    assert [answer.key for answer in answers] == ["a", "", "c"]
    assert {(answer.error_code, answer.node_id, answer.port) for answer in answers} == {
        (CoordinatorNotAvailable.code, -1, -1)
    }


@pytest.mark.parametrize("key_type", [SHARE, 9, -1])
async def test_a_kind_of_key_that_is_not_served_is_an_invalid_request(broker: Broker, ask: Ask, key_type: int) -> None:
    one = await ask(broker, FindCoordinatorRequest(key="a", key_type=key_type), 3)
    (many,) = (await ask(broker, FindCoordinatorRequest(coordinator_keys=["a"], key_type=key_type))).coordinators
    assert one.error_code == many.error_code == InvalidRequest.code

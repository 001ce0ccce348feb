"""FindCoordinator: the coordinator of a group, in every version, and keys without a coordinator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import CoordinatorNotAvailable, InvalidRequest, KafkaStorageError
from kmini.protocol.messages.find_coordinator import GROUP, SHARE, TRANSACTION, FindCoordinatorRequest
from kmini.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kmini.protocol.uuids import format_uuid


def example(resource: ResourceType, topic_id: bytes) -> FindCoordinatorRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    if resource is ResourceType.CLUSTER:
        key = f"readers:{format_uuid(topic_id)}:0"
        return FindCoordinatorRequest(key=key, key_type=SHARE, coordinator_keys=[key])
    is_id = resource is ResourceType.TRANSACTIONAL_ID
    return FindCoordinatorRequest(
        key="payments" if is_id else "readers",
        key_type=int(is_id),
        coordinator_keys=["payments" if is_id else "readers"],
    )


Ask = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize("version", range(4))
async def test_one_group_is_coordinated_here(broker: BrokerServer, ask: Ask, version: int) -> None:
    answer = await ask(broker, FindCoordinatorRequest(key="group"), version)
    assert answer.error_code == 0
    assert (answer.node_id, answer.host, answer.port) == (broker.node_id, "client-side.example", 19092)


@pytest.mark.parametrize("version", range(4, 7))
async def test_many_groups_are_answered_one_by_one(broker: BrokerServer, ask: Ask, version: int) -> None:
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["a", "", "c"])
    answers = (await ask(broker, request, version)).coordinators
    assert [answer.key for answer in answers] == ["a", "", "c"]
    assert {(answer.error_code, answer.node_id, answer.host, answer.port) for answer in answers} == {
        (0, broker.node_id, "client-side.example", 19092)
    }


async def test_the_first_question_makes_the_topic(broker: BrokerServer, ask: Ask) -> None:
    assert broker.controller.topic(CONSUMER_OFFSETS) is None
    await ask(broker, FindCoordinatorRequest(coordinator_keys=[]))
    assert broker.controller.topic(CONSUMER_OFFSETS) is None
    await ask(broker, FindCoordinatorRequest(coordinator_keys=["a", "b"]))
    assert broker.controller.topic(CONSUMER_OFFSETS) is not None


async def test_a_topic_that_cannot_be_made_is_no_coordinator(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise KafkaStorageError("the disk is full")

    monkeypatch.setattr(topics, "create_missing", refuse)
    answer = await ask(broker, FindCoordinatorRequest(key="a"), 1)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (CoordinatorNotAvailable.code, -1, "", -1)
    assert "the disk is full" in answer.error_message


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_transactional_id_is_coordinated_here_too(broker: BrokerServer, ask: Ask, version: int) -> None:
    request = FindCoordinatorRequest(key="a", coordinator_keys=["a"], key_type=TRANSACTION)
    answer = await ask(broker, request, version)
    (found,) = answer.coordinators or [answer]
    assert (found.error_code, found.node_id, found.port) == (0, broker.node_id, 19092)
    assert broker.controller.topic(TRANSACTION_STATE) is not None
    assert broker.controller.topic(CONSUMER_OFFSETS) is None


async def test_a_share_partition_has_a_coordinator_from_version_6_on(broker: BrokerServer, ask: Ask) -> None:
    topic_id = "A" * 22
    keys = [f"g:{topic_id}:0", f"a:b:{topic_id}:7", f":{topic_id}:0", f"g:{topic_id}:-1", "g:short:0", topic_id, ""]
    request = FindCoordinatorRequest(coordinator_keys=keys, key_type=SHARE)
    codes = [answer.error_code for answer in (await ask(broker, request)).coordinators]
    assert codes == [0, 0] + [InvalidRequest.code] * 5
    assert broker.controller.topic(SHARE_GROUP_STATE) is not None
    assert [answer.error_code for answer in (await ask(broker, request, 5)).coordinators] == [InvalidRequest.code] * 7


@pytest.mark.parametrize("key_type", [SHARE, 9, -1])
async def test_a_kind_of_key_that_is_not_served_is_an_invalid_request(
    broker: BrokerServer, ask: Ask, key_type: int
) -> None:
    one = await ask(broker, FindCoordinatorRequest(key="a", key_type=key_type), 3)
    (many,) = (await ask(broker, FindCoordinatorRequest(coordinator_keys=["a"], key_type=key_type))).coordinators
    assert one.error_code == many.error_code == InvalidRequest.code

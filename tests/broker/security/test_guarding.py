"""The shapes that guards share: each refuses what the client may not do, and lets the handler do the rest."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kmini.broker.api.registry import Handler, loaded
from kmini.broker.handlers import HANDLERS
from kmini.broker.security.acls import AclIndex
from kmini.broker.security.authorizer import Authorizer
from kmini.broker.security.guarding import (
    Call,
    demands,
    guarded,
    on_cluster,
    refused_by_code,
    refused_partitions,
    topic_by_topic,
)
from kmini.broker.security.permission_kinds import Permission, each, whole
from kmini.broker.security.resources import AclOperation, Principal, ResourceType
from kmini.protocol.errors import ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed
from kmini.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kmini.protocol.messages.heartbeat import HeartbeatRequest
from kmini.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kmini.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from support.broker.access_rules import HOST, acl

READ_GROUP = whole(AclOperation.READ, ResourceType.GROUP)
ALTER_CLUSTER = whole(AclOperation.ALTER, ResourceType.CLUSTER)
DELETE_TOPIC = each(AclOperation.DELETE, ResourceType.TOPIC)
TOPIC_ID = bytes(range(16))


def call(request: Any, permissions: Sequence[Permission], *rules: Any, answer: Any = None) -> tuple[Call, list[Any]]:
    """A call of "User:alice" under these rules, and the requests that reach its handler."""
    served: list[Any] = []

    async def handler(request: Any, context: Any) -> Any:
        served.append(request)
        return answer

    access = Authorizer(AclIndex(rules)).access_of(Principal.user("alice"), HOST)
    known = {TOPIC_ID: SimpleNamespace(name="known")}
    controller = SimpleNamespace(topic_by_id=known.get)
    context: Any = SimpleNamespace(services=SimpleNamespace(controller=controller))
    return Call(request, context, access, tuple(permissions), handler), served


def deletion(*names: str) -> DeleteRecordsRequest:
    Topic = DeleteRecordsRequest.Topic
    partitions = [Topic.Partition(partition_index=number, offset=0) for number in (0, 3)]
    return DeleteRecordsRequest(topics=[Topic(name=name, partitions=partitions) for name in names], timeout_ms=1)


async def test_a_demanded_right_lets_the_request_pass_or_raises_its_error() -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="x")
    guard = demands("group_id")
    refused, served = call(heartbeat, [READ_GROUP], acl(AclOperation.READ, ResourceType.GROUP, "other"))
    with pytest.raises(GroupAuthorizationFailed):
        await guard(refused)
    assert served == []
    allowed, served = call(heartbeat, [READ_GROUP], acl(AclOperation.READ, ResourceType.GROUP, "g"), answer="served")
    assert await guard(allowed) == "served"
    assert served == [heartbeat]


async def test_a_guard_demands_one_right_for_each_of_its_fields() -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="x")
    too_few, _ = call(heartbeat, [READ_GROUP, READ_GROUP], acl(AclOperation.READ, ResourceType.GROUP, "g"))
    with pytest.raises(ValueError, match="shorter"):
        await demands("group_id")(too_few)


async def test_a_request_about_the_cluster_is_answered_with_the_code_or_served() -> None:
    guard = on_cluster(refused_by_code(UnregisterBrokerResponse))
    refused, served = call(UnregisterBrokerRequest(broker_id=1), [ALTER_CLUSTER])
    assert (await guard(refused)).error_code == ClusterAuthorizationFailed.code
    assert served == []
    rule = acl(AclOperation.ALTER, ResourceType.CLUSTER)
    allowed, _ = call(UnregisterBrokerRequest(broker_id=1), [ALTER_CLUSTER], rule, answer="served")
    assert await guard(allowed) == "served"


async def test_refused_topics_are_taken_out_of_the_request_and_added_to_the_answer() -> None:
    answer = DeleteRecordsResponse(topics=[DeleteRecordsResponse.Topic(name="mine", partitions=[])])
    rule = acl(AclOperation.DELETE, ResourceType.TOPIC, "mine")
    partly, served = call(deletion("secret", "mine", "secret"), [DELETE_TOPIC], rule, answer=answer)
    answered = await topic_by_topic(refused_partitions(DeleteRecordsResponse.Topic))(partly)
    assert [topic.name for topic in served[0].topics] == ["mine"]
    assert [topic.name for topic in answered.topics] == ["mine", "secret", "secret"]
    assert [(one.partition_index, one.error_code) for one in answered.topics[1].partitions] == [
        (0, TopicAuthorizationFailed.code),
        (3, TopicAuthorizationFailed.code),
    ]


def test_an_element_without_a_name_is_left_to_the_handler() -> None:
    one, _ = call(None, [DELETE_TOPIC], acl(AclOperation.DELETE, ResourceType.TOPIC, "mine"))
    assert one.split(DELETE_TOPIC, ["mine", None, "secret"], lambda name: name) == (["mine", None], ["secret"])


@pytest.mark.parametrize(
    ("name", "topic_id", "expected"),
    [("named", TOPIC_ID, "named"), ("", TOPIC_ID, "known"), ("", bytes(15) + b"x", None), ("", bytes(16), "")],
)
def test_a_topic_goes_by_its_name_or_by_its_id(name: str, topic_id: bytes, expected: str | None) -> None:
    one, _ = call(None, [])
    assert one.topic_name(SimpleNamespace(topic_id=topic_id), name) == expected
    assert one.topic_name(SimpleNamespace(), name) == name


def test_what_may_be_done_to_the_cluster_is_told_to_a_client_that_may_describe_it() -> None:
    hidden, _ = call(None, [])
    assert hidden.cluster_operations() == 0
    altering, _ = call(None, [], acl(AclOperation.ALTER, ResourceType.CLUSTER))  # which implies DESCRIBE
    assert altering.cluster_operations() == 1 << AclOperation.ALTER | 1 << AclOperation.DESCRIBE


def test_every_handler_is_behind_its_guard_and_keeps_the_rest() -> None:
    behind = guarded(HANDLERS, Authorizer(AclIndex()))
    assert behind.keys() == HANDLERS.keys()
    assert behind[SaslHandshakeRequest.api_key] is HANDLERS[SaslHandshakeRequest.api_key]
    for api_key, handler in loaded(HANDLERS).items():
        if handler.guard is not None:
            assert behind[api_key].function is not handler.function
            others = [name for name in Handler.__slots__ if name != "function"]
            assert all(getattr(behind[api_key], name) == getattr(handler, name) for name in others)

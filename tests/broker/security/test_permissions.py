"""The table is kept to: every request, in every version, without rights and with each of those that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.api.registry import Handler, registered
from kmini.broker.broker import Broker
from kmini.broker.security.acls import AclIndex
from kmini.broker.security.authorizer import Authorizer
from kmini.broker.security.guarding import guarded
from kmini.broker.security.permissions import EITHER, OPEN, SHOWN, TABLE, Permission, permissions_of
from kmini.broker.security.resources import Operation, PatternType, PermissionType, ResourceType
from kmini.protocol import messages as m
from kmini.protocol.errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from kmini.protocol.messages.describe_topic_partitions import Cursor
from support.broker.access_rules import acl
from support.broker.guarded_requests import GROUP, ID, NAMES, REFUSALS, TOPIC, batch, codes, request_for

Ask = Callable[..., Awaitable[Any]]


def versions_for(permission: Permission) -> list[int]:
    """The versions in which an API needs this permission."""
    handler = registered()[next(r.api_key for r in m.REQUESTS.values() if r.name == permission.api)]
    versions = [*range(handler.min_version, handler.max_version + 1)]
    if permission.api == "AddPartitionsToTxn":
        is_for_brokers = permission.resource_type is ResourceType.CLUSTER
        return [version for version in versions if (version >= 4) == is_for_brokers]
    if permission.api == "Produce" and permission.resource_type is ResourceType.TRANSACTIONAL_ID:
        return [version for version in versions if version >= 3]
    if permission.api == "FindCoordinator" and permission.resource_type is ResourceType.TRANSACTIONAL_ID:
        return [version for version in versions if version >= 1]
    if permission.api == "Metadata" and permission.operation.name == "CREATE":
        return []  # tests below
    if permission.api == "DescribeLogDirs":
        return [version for version in versions if version >= 3]  # before, nothing can be said
    return versions


REFUSED = [each for each in TABLE if each.scope not in (EITHER, SHOWN) and versions_for(each)]


def name_of(permission: Permission) -> str:
    return f"{permission.api}-{permission.resource_type.name}"


@pytest.fixture
async def broker(guarded_broker: Broker, ask_as: Ask) -> Broker:
    creation = m.CreateTopicsRequest.Topic(name=TOPIC, num_partitions=1, replication_factor=1)
    answer = await ask_as(guarded_broker, "admin", m.CreateTopicsRequest(topics=[creation], timeout_ms=1000))
    assert list(codes(answer)) == [0]
    for key_type, key in enumerate((GROUP, ID)):
        asked = m.FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        assert not any(codes(await ask_as(guarded_broker, "admin", asked)))
    return guarded_broker


def topic_id(broker: Broker) -> bytes:
    return broker.controller.topics[TOPIC].id


def grant(broker: Broker, *permissions: Permission, user: str) -> None:
    broker.controller.create_acls(
        acl(each.operation, each.resource_type, NAMES[each.resource_type], principal=f"User:{user}")
        for each in permissions
    )


def test_every_api_is_in_the_table_or_said_to_be_open() -> None:
    in_table = {permission.api for permission in TABLE}
    assert in_table.isdisjoint(OPEN)
    assert in_table | {*OPEN} == {handler.request.name for handler in registered().values()}
    for permission in TABLE:
        assert permission.code in REFUSALS


def test_a_request_that_nobody_has_thought_of_is_not_open_by_mistake() -> None:
    class NewRequest:
        name, api_key = "Newcomer", 999

    handlers = {999: Handler(NewRequest, None, 0, 0, 0)}  # type: ignore[arg-type]
    with pytest.raises(LookupError, match="Newcomer"):
        guarded(handlers, Authorizer(AclIndex()))


async def test_who_lacks_only_one_right_is_refused_with_its_code_in_every_version(broker: Broker, ask_as: Ask) -> None:
    wrong = []
    for number, permission in enumerate(REFUSED):
        user = f"without-{number}"
        others = (each for each in permissions_of(permission.api) if each != permission and each.scope != EITHER)
        grant(broker, *others, user=user)
        for version in versions_for(permission):
            request = request_for(permission.api, permission.resource_type, topic_id(broker))
            found = {*codes(await ask_as(broker, user, request, version))}
            if permission.code not in found:
                wrong.append((name_of(permission), version, found))
    assert not wrong


@pytest.mark.parametrize("newest", [False, True], ids=["oldest", "newest"])
async def test_who_has_all_the_rights_in_the_table_is_not_refused(broker: Broker, ask_as: Ask, newest: bool) -> None:
    wrong = []
    for permission in sorted(REFUSED, key=lambda each: each.api == "DeleteTopics"):  # the last one takes the topic away
        grant(broker, *(each for each in permissions_of(permission.api) if each.scope != EITHER), user=permission.api)
        request = request_for(permission.api, permission.resource_type, topic_id(broker))
        found = {*codes(await ask_as(broker, permission.api, request, versions_for(permission)[-1 if newest else 0]))}
        if REFUSALS & found:
            wrong.append((name_of(permission), found))
    assert not wrong


async def test_without_any_right_everything_is_refused(broker: Broker, ask_as: Ask) -> None:
    not_refused = []
    for permission in TABLE:
        request = request_for(permission.api, permission.resource_type, topic_id(broker))
        version = 4 if permission.api == "Fetch" else None
        if not REFUSALS & {*codes(await ask_as(broker, "nobody", request, version))}:
            not_refused.append(permission.api)
    assert {*not_refused} == {"ListGroups", "ListTransactions"}, "these list what may be seen, which is nothing"


async def test_the_wider_right_makes_the_narrower_one_unnecessary(broker: Broker, ask_as: Ask) -> None:
    for permission in (each for each in TABLE if each.scope == EITHER):
        request = request_for(permission.api, permission.resource_type, topic_id(broker))
        grant(broker, permission, user=permission.api)
        if permission.api == "Metadata":
            grant(broker, permissions_of("Metadata")[0], user=permission.api)
        if permission.api == "DeleteTopics":
            request.topics[0].name = request.topic_names[0] = "no-such"
        answer = await ask_as(broker, permission.api, request)
        assert not REFUSALS & {*codes(answer)}, permission.api


async def test_a_denied_part_does_not_hinder_the_others(broker: Broker, ask_as: Ask) -> None:
    broker.controller.create_acls([acl(Operation.DELETE, ResourceType.TOPIC, TOPIC)])
    T = m.DeleteRecordsRequest.Topic
    topics = [T(name=name, partitions=[T.Partition(partition_index=0, offset=0)]) for name in ("hidden", TOPIC)]
    answer = await ask_as(broker, "alice", m.DeleteRecordsRequest(topics=topics, timeout_ms=100))
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
        TOPIC: 0,
        "hidden": TopicAuthorizationFailed.code,
    }


# --- what is filtered


async def test_all_topics_are_those_that_may_be_described(broker: Broker, ask_as: Ask) -> None:
    assert (await ask_as(broker, "alice", m.MetadataRequest(topics=None))).topics == []
    broker.controller.create_acls([acl(Operation.READ, ResourceType.TOPIC, TOPIC)])
    for version in range(14):
        everything = m.MetadataRequest(topics=[] if version == 0 else None)
        answer = await ask_as(broker, "alice", everything, version)
        assert [topic.name for topic in answer.topics] == [TOPIC]
        answer = await ask_as(broker, "bob", everything, version)
        assert answer.topics == []


async def test_version_0_of_metadata_does_not_take_a_refused_name_for_all_names(broker: Broker, ask_as: Ask) -> None:
    asked = m.MetadataRequest(topics=[m.MetadataRequest.Topic(name="secret")])
    broker.controller.create_acls([acl(Operation.DESCRIBE, ResourceType.TOPIC, TOPIC)])
    answer = await ask_as(broker, "alice", asked, 0)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("secret", TopicAuthorizationFailed.code)]


@pytest.mark.parametrize("wide", [True, False])
async def test_a_topic_is_created_by_asking_for_it_only_by_who_may(broker: Broker, ask_as: Ask, wide: bool) -> None:
    asked = m.MetadataRequest(topics=[m.MetadataRequest.Topic(name="new")])
    broker.controller.create_acls([acl(Operation.DESCRIBE, ResourceType.TOPIC, "new")])
    answer = await ask_as(broker, "alice", asked)
    assert [topic.error_code for topic in answer.topics] == [TopicAuthorizationFailed.code]
    assert broker.controller.topic("new") is None
    right = acl(Operation.CREATE, ResourceType.CLUSTER) if wide else acl(Operation.CREATE, ResourceType.TOPIC, "new")
    broker.controller.create_acls([right])
    answer = await ask_as(broker, "alice", asked)
    assert [topic.error_code for topic in answer.topics] == [0]


async def test_an_unknown_topic_is_told_from_a_secret_one_to_nobody(broker: Broker, ask_as: Ask) -> None:
    asked = m.MetadataRequest(
        topics=[m.MetadataRequest.Topic(name=name) for name in (TOPIC, "no-such")], allow_auto_topic_creation=False
    )
    answer = await ask_as(broker, "alice", asked)
    assert {topic.error_code for topic in answer.topics} == {TopicAuthorizationFailed.code}
    assert all(not topic.partitions and not any(topic.topic_id) for topic in answer.topics)
    answer = await ask_as(broker, "admin", asked)
    assert [topic.error_code for topic in answer.topics] == [0, UnknownTopicOrPartition.code]


async def test_groups_are_listed_to_who_may_describe_them(broker: Broker, ask_as: Ask) -> None:
    commit = request_for("OffsetCommit", ResourceType.GROUP, topic_id(broker))
    commit.topics[0].partitions[0].committed_offset = 0
    assert not any(codes(await ask_as(broker, "admin", commit)))
    assert (await ask_as(broker, "alice", m.ListGroupsRequest())).groups == []
    broker.controller.create_acls([acl(Operation.DESCRIBE, ResourceType.GROUP, GROUP)])
    assert [group.group_id for group in (await ask_as(broker, "alice", m.ListGroupsRequest())).groups] == [GROUP]
    assert (await ask_as(broker, "bob", m.ListGroupsRequest())).groups == []
    broker.controller.create_acls([acl(Operation.DESCRIBE, ResourceType.CLUSTER, principal="User:bob")])
    assert [group.group_id for group in (await ask_as(broker, "bob", m.ListGroupsRequest())).groups] == [GROUP]


@pytest.mark.parametrize("version", [2, 7, 8, 9, 10])
async def test_all_offsets_are_those_of_topics_that_may_be_described(broker: Broker, ask_as: Ask, version: int) -> None:
    commit = request_for("OffsetCommit", ResourceType.GROUP, topic_id(broker))
    await ask_as(broker, "admin", commit)
    G = m.OffsetFetchRequest.Group
    everything = m.OffsetFetchRequest(group_id=GROUP, topics=None, groups=[G(group_id=GROUP, topics=None)])
    broker.controller.create_acls([acl(Operation.READ, ResourceType.GROUP, GROUP)])
    answer = await ask_as(broker, "alice", everything, version)
    assert (answer.groups[0] if version >= 8 else answer).topics == []
    broker.controller.create_acls([acl(Operation.DESCRIBE, ResourceType.TOPIC, TOPIC)])
    answer = await ask_as(broker, "alice", everything, version)
    assert len((answer.groups[0] if version >= 8 else answer).topics) == 1


async def test_transactions_are_listed_to_who_may_describe_them(broker: Broker, ask_as: Ask) -> None:
    begin = m.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1000)
    assert (await ask_as(broker, "admin", begin)).error_code == 0
    everything = m.ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    assert (await ask_as(broker, "alice", everything)).transaction_states == []
    broker.controller.create_acls([acl(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ID)])
    listed = (await ask_as(broker, "alice", everything)).transaction_states
    assert [state.transactional_id for state in listed] == [ID]


async def test_pages_of_topics_do_not_name_the_next_one_to_who_may_not_know_it(broker: Broker, ask_as: Ask) -> None:
    creations = [
        m.CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1)
        for name in ("p-1", "p-2", "secret", "z")
    ]
    await ask_as(broker, "admin", m.CreateTopicsRequest(topics=creations, timeout_ms=1000))
    broker.controller.create_acls(
        [
            acl(Operation.DESCRIBE, ResourceType.TOPIC, "p-", pattern=PatternType.PREFIXED),
            acl(Operation.DESCRIBE, ResourceType.TOPIC, "z"),
        ]
    )
    seen, cursor = [], None
    for _ in range(5):
        page = await ask_as(
            broker,
            "alice",
            m.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1, cursor=cursor),
        )
        seen += [topic.name for topic in page.topics]
        if page.next_cursor is None:
            break
        cursor = Cursor(topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)
        assert cursor.topic_name in ("p-1", "p-2", "z")
    assert seen == ["p-1", "p-2", "z"]


# --- what a client is told that it may do


async def test_authorized_operations_are_those_that_are_allowed(broker: Broker, ask_as: Ask) -> None:
    broker.controller.create_acls(
        [
            acl(Operation.READ, ResourceType.TOPIC, TOPIC),
            acl(Operation.DELETE, ResourceType.GROUP, GROUP),
            acl(Operation.ALTER, ResourceType.CLUSTER),
        ]
    )
    asked = m.MetadataRequest(
        topics=[m.MetadataRequest.Topic(name=TOPIC)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = await ask_as(broker, "alice", asked, 10)
    assert answer.topics[0].topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert answer.cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    answer = await ask_as(broker, "alice", m.DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert answer.cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    answer = await ask_as(broker, "bob", m.DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert answer.cluster_authorized_operations == 0
    asked = m.DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)
    answer = await ask_as(broker, "alice", asked, 5)
    assert answer.groups[0].authorized_operations == 1 << Operation.DELETE | 1 << Operation.DESCRIBE


# --- fetch sessions


async def test_a_session_obeys_rules_that_change_while_it_lasts(broker: Broker, ask_as: Ask) -> None:
    produce = request_for("Produce", ResourceType.TOPIC, topic_id(broker))
    assert not any(codes(await ask_as(broker, "admin", produce)))
    right = acl(Operation.READ, ResourceType.TOPIC, TOPIC)
    broker.controller.create_acls([right])
    fetch = request_for("Fetch", ResourceType.TOPIC, topic_id(broker))
    fetch.session_epoch = 0
    first = await ask_as(broker, "alice", fetch, 12)
    assert first.session_id
    assert first.responses[0].partitions[0].records
    broker.controller.delete_acls([right])
    for epoch in (1, 2):
        again = m.FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, session_id=first.session_id, session_epoch=epoch, topics=[]
        )
        (topic,) = (await ask_as(broker, "alice", again, 12)).responses
        assert topic.partitions[0].error_code == TopicAuthorizationFailed.code
        assert not topic.partitions[0].records
    broker.controller.create_acls([right])
    again = m.FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, session_id=first.session_id, session_epoch=3, topics=[]
    )
    (topic,) = (await ask_as(broker, "alice", again, 12)).responses
    assert topic.partitions[0].error_code == 0
    assert topic.partitions[0].records


async def test_a_session_of_somebody_else_gives_nothing(broker: Broker, ask_as: Ask) -> None:
    await ask_as(broker, "admin", request_for("Produce", ResourceType.TOPIC, topic_id(broker)))
    fetch = request_for("Fetch", ResourceType.TOPIC, topic_id(broker))
    fetch.session_epoch = 0
    first = await ask_as(broker, "admin", fetch, 12)
    again = m.FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, session_id=first.session_id, session_epoch=1, topics=[]
    )
    (topic,) = (await ask_as(broker, "mallory", again, 12)).responses
    assert [part.error_code for part in topic.partitions] == [TopicAuthorizationFailed.code]
    assert not topic.partitions[0].records


async def test_a_produce_that_nobody_waits_for_ends_the_connection_if_it_is_refused(
    broker: Broker, ask_as: Ask
) -> None:
    request = m.ProduceRequest(
        acks=0,
        timeout_ms=100,
        topic_data=[
            m.ProduceRequest.Topic(
                name=TOPIC, partition_data=[m.ProduceRequest.Topic.Partition(index=0, records=batch())]
            )
        ],
    )
    assert await ask_as(broker, "alice", request, 9) is None
    assert broker.leader_of(next(iter(broker.partitions))).log.log_end_offset == 0


async def test_deny_is_stronger_than_allow(broker: Broker, ask_as: Ask) -> None:
    broker.controller.create_acls(
        [
            acl(Operation.ALL, ResourceType.TOPIC, "*"),
            acl(Operation.DELETE, ResourceType.TOPIC, TOPIC, permission=PermissionType.DENY),
        ]
    )
    request = request_for("DeleteRecords", ResourceType.TOPIC, topic_id(broker))
    assert TopicAuthorizationFailed.code in codes(await ask_as(broker, "alice", request))

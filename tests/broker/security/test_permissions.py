"""Guards keep to the permissions that handlers state.

Every request is sent in every version without rights, and with each of the rights that it needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.api.registry import loaded
from kmini.broker.broker import BrokerServer
from kmini.broker.handlers import HANDLERS
from kmini.broker.security.permission_kinds import Permission, Scope
from kmini.broker.security.resources import AclOperation, PatternType, PermissionType, ResourceType
from kmini.protocol import messages as m
from kmini.protocol.errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from kmini.protocol.messages.describe_topic_partitions import Cursor
from support.broker.access_rules import acl
from support.broker.permission_requests import (
    GROUP,
    ID,
    NAMES,
    NEEDS,
    REFUSALS,
    TOPIC,
    Need,
    batch,
    codes,
    permissions_of,
    request_for,
)

Ask = Callable[..., Awaitable[Any]]


def versions_for(need: Need) -> list[int]:
    """The versions in which an API needs this permission."""
    api, permission = need
    handler = next(handler for handler in loaded(HANDLERS).values() if handler.request.name == api)
    versions = [*range(handler.min_version, handler.max_version + 1)]
    if api == "AddPartitionsToTxn":
        is_for_brokers = permission.resource_type is ResourceType.CLUSTER
        return [version for version in versions if (version >= 4) == is_for_brokers]
    if api == "Produce" and permission.resource_type is ResourceType.TRANSACTIONAL_ID:
        return [version for version in versions if version >= 3]
    if api == "CreateDelegationToken":  # for another owner
        return [version for version in versions if version >= 3]
    if api == "FindCoordinator" and permission.resource_type is ResourceType.TRANSACTIONAL_ID:
        return [version for version in versions if version >= 1]
    if api == "FindCoordinator" and permission.resource_type is ResourceType.CLUSTER:
        return [version for version in versions if version >= 6]
    if api == "Metadata" and permission.operation.name == "CREATE":
        return []  # tests below
    if api == "StreamsGroupHeartbeat" and permission.operation.name == "CREATE":
        return []  # of internal topics: tests/broker/handlers/test_streams_group_heartbeat.py
    described = ("ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe")
    if api in described and permission.resource_type is ResourceType.TOPIC:
        return []  # those of the members, or of the topology: tests/broker/handlers/ of these
    if api == "DeleteShareGroupOffsets" and permission.resource_type is ResourceType.TOPIC:
        return []  # the group is looked for first: tests/broker/handlers/test_delete_share_group_offsets.py
    if api == "ShareAcknowledge" and permission.resource_type is ResourceType.TOPIC:
        return []  # it needs a share session first
    if api == "DescribeLogDirs":
        return [version for version in versions if version >= 3]  # before, nothing can be said
    return versions


REFUSED = [need for need in NEEDS if need.permission.scope not in (Scope.SUFFICES, Scope.SHOWN) and versions_for(need)]


def name_of(need: Need) -> str:
    return f"{need.api}-{need.permission.resource_type.name}"


@pytest.fixture
async def broker(guarded_broker: BrokerServer, ask_as: Ask) -> BrokerServer:
    creation = m.CreateTopicsRequest.Topic(name=TOPIC, num_partitions=1, replication_factor=1)
    answer = await ask_as(guarded_broker, "admin", m.CreateTopicsRequest(topics=[creation], timeout_ms=1000))
    assert list(codes(answer)) == [0]
    for key_type, key in enumerate((GROUP, ID)):
        asked = m.FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        assert not any(codes(await ask_as(guarded_broker, "admin", asked)))
    return guarded_broker


def topic_id(broker: BrokerServer) -> bytes:
    return broker.controller.topics[TOPIC].id


def grant(broker: BrokerServer, *permissions: Permission, user: str) -> None:
    broker.controller.create_acls(
        acl(each.operation, each.resource_type, NAMES[each.resource_type], principal=f"User:{user}")
        for each in permissions
    )


KAFKAS: dict[str, str] = {
    "Produce": "WRITE TRANSACTIONAL_ID, WRITE TOPIC",
    "Fetch": "CLUSTER_ACTION CLUSTER, READ TOPIC",
    "ListOffsets": "DESCRIBE TOPIC",
    "Metadata": "DESCRIBE TOPIC, CREATE CLUSTER, CREATE TOPIC",
    "OffsetCommit": "READ GROUP, READ TOPIC",
    "OffsetFetch": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "FindCoordinator": "DESCRIBE GROUP, DESCRIBE TRANSACTIONAL_ID, CLUSTER_ACTION CLUSTER",
    "JoinGroup": "READ GROUP",
    "Heartbeat": "READ GROUP",
    "LeaveGroup": "READ GROUP",
    "SyncGroup": "READ GROUP",
    "DescribeGroups": "DESCRIBE GROUP",
    "ListGroups": "DESCRIBE CLUSTER, DESCRIBE GROUP",
    "SaslHandshake": "",
    "ApiVersions": "",
    "CreateTopics": "CREATE CLUSTER, CREATE TOPIC",
    "DeleteTopics": "DELETE CLUSTER, DELETE TOPIC",
    "DeleteRecords": "DELETE TOPIC",
    "InitProducerId": "WRITE TRANSACTIONAL_ID, IDEMPOTENT_WRITE CLUSTER",
    "OffsetForLeaderEpoch": "CLUSTER_ACTION CLUSTER, DESCRIBE TOPIC",
    "AddPartitionsToTxn": "WRITE TRANSACTIONAL_ID, WRITE TOPIC, CLUSTER_ACTION CLUSTER",
    "AddOffsetsToTxn": "WRITE TRANSACTIONAL_ID, READ GROUP",
    "EndTxn": "WRITE TRANSACTIONAL_ID",
    "WriteTxnMarkers": "ALTER CLUSTER, CLUSTER_ACTION CLUSTER",
    "TxnOffsetCommit": "WRITE TRANSACTIONAL_ID, READ GROUP, READ TOPIC",
    "DescribeAcls": "DESCRIBE CLUSTER",
    "CreateAcls": "ALTER CLUSTER",
    "DeleteAcls": "ALTER CLUSTER",
    "DescribeConfigs": "DESCRIBE_CONFIGS TOPIC, DESCRIBE_CONFIGS GROUP, DESCRIBE_CONFIGS CLUSTER",
    "AlterConfigs": "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER",
    "AlterReplicaLogDirs": "ALTER CLUSTER",
    "DescribeLogDirs": "DESCRIBE CLUSTER",
    "SaslAuthenticate": "",
    "CreatePartitions": "ALTER TOPIC",
    "CreateDelegationToken": "CREATE_TOKENS USER",
    "RenewDelegationToken": "",
    "ExpireDelegationToken": "",
    "DescribeDelegationToken": "DESCRIBE DELEGATION_TOKEN, DESCRIBE_TOKENS USER",
    "DeleteGroups": "DELETE GROUP",
    "ElectLeaders": "ALTER CLUSTER",
    "IncrementalAlterConfigs": "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER",
    "AlterPartitionReassignments": "ALTER CLUSTER",
    "ListPartitionReassignments": "DESCRIBE CLUSTER",
    "OffsetDelete": "DELETE GROUP, READ TOPIC",
    "DescribeClientQuotas": "DESCRIBE_CONFIGS CLUSTER",
    "AlterClientQuotas": "ALTER_CONFIGS CLUSTER",
    "DescribeUserScramCredentials": "DESCRIBE CLUSTER",
    "AlterUserScramCredentials": "ALTER CLUSTER",
    "DescribeQuorum": "DESCRIBE CLUSTER",
    "UpdateFeatures": "ALTER CLUSTER",
    "DescribeCluster": "",
    "DescribeProducers": "READ TOPIC",
    "UnregisterBroker": "ALTER CLUSTER",
    "DescribeTransactions": "DESCRIBE TRANSACTIONAL_ID, DESCRIBE TOPIC",
    "ListTransactions": "DESCRIBE TRANSACTIONAL_ID",
    "ListConfigResources": "DESCRIBE_CONFIGS CLUSTER",
    "DescribeTopicPartitions": "DESCRIBE TOPIC",
    "ConsumerGroupHeartbeat": "READ GROUP, DESCRIBE TOPIC",
    "ConsumerGroupDescribe": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "ShareGroupHeartbeat": "READ GROUP, DESCRIBE TOPIC",
    "ShareGroupDescribe": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "ShareFetch": "READ GROUP, READ TOPIC",
    "ShareAcknowledge": "READ GROUP, READ TOPIC",
    "InitializeShareGroupState": "CLUSTER_ACTION CLUSTER",
    "ReadShareGroupState": "CLUSTER_ACTION CLUSTER",
    "WriteShareGroupState": "CLUSTER_ACTION CLUSTER",
    "DeleteShareGroupState": "CLUSTER_ACTION CLUSTER",
    "ReadShareGroupStateSummary": "CLUSTER_ACTION CLUSTER",
    "StreamsGroupHeartbeat": "READ GROUP, DESCRIBE TOPIC, CREATE CLUSTER, CREATE TOPIC",
    "StreamsGroupDescribe": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "DescribeShareGroupOffsets": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "AlterShareGroupOffsets": "READ GROUP, READ TOPIC",
    "DeleteShareGroupOffsets": "DELETE GROUP, READ TOPIC",
}
"""Each API's operations and resources, in the order in which Apache Kafka asks for them (its documentation's table
"Operations and Resources on Protocols"). `tests/oracle/test_acls.py` compares each answer with Kafka's."""


def test_each_api_needs_the_operations_that_kafka_documents() -> None:
    stated = {
        handler.request.name: ", ".join(f"{need.operation.name} {need.resource_type.name}" for need in handler.needs)
        for handler in loaded(HANDLERS).values()
    }
    assert stated == KAFKAS


def test_every_api_needs_permissions_or_is_open_to_every_client() -> None:
    is_open = {handler.request.name for handler in loaded(HANDLERS).values() if not handler.needs}
    tokens = {"RenewDelegationToken", "ExpireDelegationToken"}  # the token itself says who may
    assert is_open == {"ApiVersions", "DescribeCluster", "SaslAuthenticate", "SaslHandshake"} | tokens
    assert all(handler.guard is not None for handler in loaded(HANDLERS).values() if handler.needs)
    for need in NEEDS:
        assert need.permission.code in REFUSALS


async def test_a_client_without_one_right_is_refused_with_its_code_in_every_version(
    broker: BrokerServer, ask_as: Ask
) -> None:
    wrong = []
    for number, need in enumerate(REFUSED):
        api, permission = need
        user = f"without-{number}"
        others = (one for one in permissions_of(api) if one != permission and one.scope != Scope.SUFFICES)
        grant(broker, *others, user=user)
        for version in versions_for(need):
            request = request_for(api, permission.resource_type, topic_id(broker))
            found = {*codes(await ask_as(broker, user, request, version))}
            if permission.code not in found:
                wrong.append((name_of(need), version, found))
    assert not wrong


@pytest.mark.parametrize("newest", [False, True], ids=["oldest", "newest"])
async def test_a_client_with_all_the_rights_is_not_refused(broker: BrokerServer, ask_as: Ask, newest: bool) -> None:
    wrong = []
    for need in sorted(REFUSED, key=lambda need: need.api == "DeleteTopics"):  # the last one takes the topic away
        api, permission = need
        grant(broker, *(one for one in permissions_of(api) if one.scope != Scope.SUFFICES), user=api)
        request = request_for(api, permission.resource_type, topic_id(broker))
        found = {*codes(await ask_as(broker, api, request, versions_for(need)[-1 if newest else 0]))}
        if REFUSALS & found:
            wrong.append((name_of(need), found))
    assert not wrong


async def test_a_client_without_any_right_is_refused_everything(broker: BrokerServer, ask_as: Ask) -> None:
    not_refused = []
    for api, permission in NEEDS:
        request = request_for(api, permission.resource_type, topic_id(broker))
        version = 4 if api == "Fetch" else None
        if not REFUSALS & {*codes(await ask_as(broker, "nobody", request, version))}:
            not_refused.append(api)
    listing = {"DescribeDelegationToken", "ListGroups", "ListTransactions"}
    assert {*not_refused} == listing, "these list what may be seen, which is nothing"


async def test_the_wider_right_makes_the_narrower_right_unnecessary(broker: BrokerServer, ask_as: Ask) -> None:
    for api, permission in (need for need in NEEDS if need.permission.scope == Scope.SUFFICES):
        request = request_for(api, permission.resource_type, topic_id(broker))
        grant(broker, permission, user=api)
        if api == "Metadata":
            grant(broker, permissions_of("Metadata")[0], user=api)
        if api == "StreamsGroupHeartbeat":
            grant(broker, *permissions_of(api)[:2], user=api)
        if api == "DeleteTopics":
            request.topics[0].name = request.topic_names[0] = "no-such"
        answer = await ask_as(broker, api, request)
        assert not REFUSALS & {*codes(answer)}, api


async def test_a_denied_part_does_not_hinder_the_others(broker: BrokerServer, ask_as: Ask) -> None:
    broker.controller.create_acls([acl(AclOperation.DELETE, ResourceType.TOPIC, TOPIC)])
    T = m.DeleteRecordsRequest.Topic
    topics = [T(name=name, partitions=[T.Partition(partition_index=0, offset=0)]) for name in ("hidden", TOPIC)]
    answer = await ask_as(broker, "alice", m.DeleteRecordsRequest(topics=topics, timeout_ms=100))
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
        TOPIC: 0,
        "hidden": TopicAuthorizationFailed.code,
    }


# --- what is filtered


async def test_all_topics_are_those_that_may_be_described(broker: BrokerServer, ask_as: Ask) -> None:
    assert (await ask_as(broker, "alice", m.MetadataRequest(topics=None))).topics == []
    broker.controller.create_acls([acl(AclOperation.READ, ResourceType.TOPIC, TOPIC)])
    for version in range(14):
        everything = m.MetadataRequest(topics=[] if version == 0 else None)
        answer = await ask_as(broker, "alice", everything, version)
        assert [topic.name for topic in answer.topics] == [TOPIC]
        answer = await ask_as(broker, "bob", everything, version)
        assert answer.topics == []


async def test_version_0_of_metadata_does_not_take_a_refused_name_for_all_names(
    broker: BrokerServer, ask_as: Ask
) -> None:
    asked = m.MetadataRequest(topics=[m.MetadataRequest.Topic(name="secret")])
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC)])
    answer = await ask_as(broker, "alice", asked, 0)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("secret", TopicAuthorizationFailed.code)]


@pytest.mark.parametrize("wide", [True, False])
async def test_a_metadata_request_creates_a_topic_only_with_the_right_to_create_it(
    broker: BrokerServer, ask_as: Ask, wide: bool
) -> None:
    asked = m.MetadataRequest(topics=[m.MetadataRequest.Topic(name="new")])
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "new")])
    answer = await ask_as(broker, "alice", asked)
    assert [topic.error_code for topic in answer.topics] == [TopicAuthorizationFailed.code]
    assert broker.controller.topic("new") is None
    right = (
        acl(AclOperation.CREATE, ResourceType.CLUSTER) if wide else acl(AclOperation.CREATE, ResourceType.TOPIC, "new")
    )
    broker.controller.create_acls([right])
    answer = await ask_as(broker, "alice", asked)
    assert [topic.error_code for topic in answer.topics] == [0]


async def test_an_unknown_topic_is_answered_like_a_secret_one(broker: BrokerServer, ask_as: Ask) -> None:
    asked = m.MetadataRequest(
        topics=[m.MetadataRequest.Topic(name=name) for name in (TOPIC, "no-such")], allow_auto_topic_creation=False
    )
    answer = await ask_as(broker, "alice", asked)
    assert {topic.error_code for topic in answer.topics} == {TopicAuthorizationFailed.code}
    assert all(not topic.partitions and not any(topic.topic_id) for topic in answer.topics)
    answer = await ask_as(broker, "admin", asked)
    assert [topic.error_code for topic in answer.topics] == [0, UnknownTopicOrPartition.code]


async def test_groups_are_listed_to_clients_that_may_describe_them(broker: BrokerServer, ask_as: Ask) -> None:
    commit = request_for("OffsetCommit", ResourceType.GROUP, topic_id(broker))
    commit.topics[0].partitions[0].committed_offset = 0
    assert not any(codes(await ask_as(broker, "admin", commit)))
    assert (await ask_as(broker, "alice", m.ListGroupsRequest())).groups == []
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.GROUP, GROUP)])
    assert [group.group_id for group in (await ask_as(broker, "alice", m.ListGroupsRequest())).groups] == [GROUP]
    assert (await ask_as(broker, "bob", m.ListGroupsRequest())).groups == []
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.CLUSTER, principal="User:bob")])
    assert [group.group_id for group in (await ask_as(broker, "bob", m.ListGroupsRequest())).groups] == [GROUP]


@pytest.mark.parametrize("version", [2, 7, 8, 9, 10])
async def test_all_offsets_are_those_of_topics_that_may_be_described(
    broker: BrokerServer, ask_as: Ask, version: int
) -> None:
    commit = request_for("OffsetCommit", ResourceType.GROUP, topic_id(broker))
    await ask_as(broker, "admin", commit)
    G = m.OffsetFetchRequest.Group
    everything = m.OffsetFetchRequest(group_id=GROUP, topics=None, groups=[G(group_id=GROUP, topics=None)])
    broker.controller.create_acls([acl(AclOperation.READ, ResourceType.GROUP, GROUP)])
    answer = await ask_as(broker, "alice", everything, version)
    assert (answer.groups[0] if version >= 8 else answer).topics == []
    broker.controller.create_acls([acl(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC)])
    answer = await ask_as(broker, "alice", everything, version)
    assert len((answer.groups[0] if version >= 8 else answer).topics) == 1


async def test_transactions_are_listed_to_clients_that_may_describe_them(broker: BrokerServer, ask_as: Ask) -> None:
    begin = m.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1000)
    assert (await ask_as(broker, "admin", begin)).error_code == 0
    everything = m.ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    assert (await ask_as(broker, "alice", everything)).transaction_states == []
    broker.controller.create_acls([acl(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, ID)])
    listed = (await ask_as(broker, "alice", everything)).transaction_states
    assert [state.transactional_id for state in listed] == [ID]


async def test_pages_of_topics_do_not_name_a_next_topic_that_the_client_may_not_describe(
    broker: BrokerServer, ask_as: Ask
) -> None:
    creations = [
        m.CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1)
        for name in ("p-1", "p-2", "secret", "z")
    ]
    await ask_as(broker, "admin", m.CreateTopicsRequest(topics=creations, timeout_ms=1000))
    broker.controller.create_acls(
        [
            acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "p-", pattern=PatternType.PREFIXED),
            acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "z"),
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


async def test_authorized_operations_are_those_that_are_allowed(broker: BrokerServer, ask_as: Ask) -> None:
    broker.controller.create_acls(
        [
            acl(AclOperation.READ, ResourceType.TOPIC, TOPIC),
            acl(AclOperation.DELETE, ResourceType.GROUP, GROUP),
            acl(AclOperation.ALTER, ResourceType.CLUSTER),
        ]
    )
    asked = m.MetadataRequest(
        topics=[m.MetadataRequest.Topic(name=TOPIC)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = await ask_as(broker, "alice", asked, 10)
    assert answer.topics[0].topic_authorized_operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    assert answer.cluster_authorized_operations == 1 << AclOperation.ALTER | 1 << AclOperation.DESCRIBE
    answer = await ask_as(broker, "alice", m.DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert answer.cluster_authorized_operations == 1 << AclOperation.ALTER | 1 << AclOperation.DESCRIBE
    answer = await ask_as(broker, "bob", m.DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert answer.cluster_authorized_operations == 0
    asked = m.DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)
    answer = await ask_as(broker, "alice", asked, 5)
    assert answer.groups[0].authorized_operations == 1 << AclOperation.DELETE | 1 << AclOperation.DESCRIBE


# --- fetch sessions


async def test_a_session_obeys_rules_that_change_while_it_lasts(broker: BrokerServer, ask_as: Ask) -> None:
    produce = request_for("Produce", ResourceType.TOPIC, topic_id(broker))
    assert not any(codes(await ask_as(broker, "admin", produce)))
    right = acl(AclOperation.READ, ResourceType.TOPIC, TOPIC)
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


async def test_a_session_of_another_user_gives_no_records(broker: BrokerServer, ask_as: Ask) -> None:
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


async def test_a_refused_produce_without_acknowledgements_closes_the_connection(
    broker: BrokerServer, ask_as: Ask
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
    assert broker.replica_manager.leader_of(next(iter(broker.replica_manager.partitions))).log.log_end_offset == 0


async def test_deny_is_stronger_than_allow(broker: BrokerServer, ask_as: Ask) -> None:
    broker.controller.create_acls(
        [
            acl(AclOperation.ALL, ResourceType.TOPIC, "*"),
            acl(AclOperation.DELETE, ResourceType.TOPIC, TOPIC, permission=PermissionType.DENY),
        ]
    )
    request = request_for("DeleteRecords", ResourceType.TOPIC, topic_id(broker))
    assert TopicAuthorizationFailed.code in codes(await ask_as(broker, "alice", request))

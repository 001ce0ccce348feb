"""A request for every API, about one topic, one group and one transactional id; and the error codes of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kmini.broker.handlers import HANDLERS
from kmini.broker.security.permissions import Permission
from kmini.broker.security.resources import CLUSTER_NAME, ResourceType
from kmini.protocol import messages as m
from kmini.protocol.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Request, Struct

TOPIC, GROUP, ID = "orders", "readers", "payments"
NAMES = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: ID,
}
REFUSALS = {
    error.code
    for error in (
        TopicAuthorizationFailed,
        GroupAuthorizationFailed,
        ClusterAuthorizationFailed,
        TransactionalIdAuthorizationFailed,
    )
}
ALTER_CONFIG_TYPES = {ResourceType.TOPIC: (2, TOPIC), ResourceType.GROUP: (32, GROUP), ResourceType.CLUSTER: (4, "1")}


class Need(NamedTuple):
    """A permission that an API's handler states."""

    api: str
    permission: Permission


NEEDS = [
    Need(handler.request.name, permission) for _, handler in sorted(HANDLERS.items()) for permission in handler.needs
]
"""Every permission of every API, by API key and in the order in which guards ask."""


def permissions_of(api: str) -> tuple[Permission, ...]:
    """The permissions of one API."""
    return next(handler.needs for handler in HANDLERS.values() if handler.request.name == api)


def batch(*, transactional: bool = False) -> bytes:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    return bytes(build_batch([Record(0, 1, None, b"v", ())], transactional=transactional, **producer))


def request_for(api: str, resource: ResourceType, topic_id: bytes) -> Request:
    """What needs the API's permission on this kind of resource; `topic_id` is TOPIC's."""
    is_id = resource is ResourceType.TRANSACTIONAL_ID
    P = m.ProduceRequest.Topic
    F = m.FetchRequest.Topic
    config = ALTER_CONFIG_TYPES.get(resource, (2, TOPIC))
    acl_filter = {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    made = {
        "Produce": lambda: m.ProduceRequest(
            transactional_id=ID if is_id else None, acks=-1, timeout_ms=1000,
            topic_data=[P(name=TOPIC, topic_id=topic_id,
                          partition_data=[P.Partition(index=0, records=batch(transactional=is_id))])]),
        "Fetch": lambda: m.FetchRequest(
            replica_id=1 if resource is ResourceType.CLUSTER else -1,
            replica_state=m.FetchRequest.ReplicaState(replica_id=1) if resource is ResourceType.CLUSTER else None,
            max_wait_ms=0, min_bytes=0,
            topics=[F(topic=TOPIC, topic_id=topic_id,
                      partitions=[F.Partition(partition=0, fetch_offset=0, partition_max_bytes=100)])]),
        "ListOffsets": lambda: m.ListOffsetsRequest(replica_id=-1, topics=[m.ListOffsetsRequest.Topic(
            name=TOPIC, partitions=[m.ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)])]),
        "Metadata": lambda: m.MetadataRequest(topics=[m.MetadataRequest.Topic(name=TOPIC)],
                                              allow_auto_topic_creation=False),
        "OffsetCommit": lambda: m.OffsetCommitRequest(group_id=GROUP, topics=[m.OffsetCommitRequest.Topic(
            name=TOPIC, topic_id=topic_id,
            partitions=[m.OffsetCommitRequest.Topic.Partition(
                partition_index=0, committed_offset=1, committed_metadata=None)])]),
        "OffsetFetch": lambda: m.OffsetFetchRequest(
            group_id=GROUP, topics=[m.OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=[0])],
            groups=[m.OffsetFetchRequest.Group(group_id=GROUP, topics=[
                m.OffsetFetchRequest.Group.Topic(name=TOPIC, topic_id=topic_id, partition_indexes=[0])])]),
        "FindCoordinator": lambda: m.FindCoordinatorRequest(
            key=ID if is_id else GROUP, key_type=int(is_id), coordinator_keys=[ID if is_id else GROUP]),
        "JoinGroup": lambda: m.JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="",
            protocol_type="consumer", protocols=[m.JoinGroupRequest.Protocol(name="range", metadata=b"")]),
        "Heartbeat": lambda: m.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="x"),
        "LeaveGroup": lambda: m.LeaveGroupRequest(
            group_id=GROUP, member_id="x", members=[m.LeaveGroupRequest.Member(member_id="x")]),
        "SyncGroup": lambda: m.SyncGroupRequest(
            group_id=GROUP, generation_id=1, member_id="x", protocol_type="consumer", protocol_name="range"),
        "DescribeGroups": lambda: m.DescribeGroupsRequest(groups=[GROUP]),
        "ListGroups": lambda: m.ListGroupsRequest(),
        "CreateTopics": lambda: m.CreateTopicsRequest(
            topics=[m.CreateTopicsRequest.Topic(name=TOPIC, num_partitions=1, replication_factor=1)], timeout_ms=1000),
        "DeleteTopics": lambda: m.DeleteTopicsRequest(
            topics=[m.DeleteTopicsRequest.Topic(name=TOPIC)], topic_names=[TOPIC], timeout_ms=1000),
        "DeleteRecords": lambda: m.DeleteRecordsRequest(timeout_ms=1000, topics=[m.DeleteRecordsRequest.Topic(
            name=TOPIC, partitions=[m.DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)])]),
        "InitProducerId": lambda: m.InitProducerIdRequest(
            transactional_id=ID if is_id else None, transaction_timeout_ms=1000),
        "OffsetForLeaderEpoch": lambda: m.OffsetForLeaderEpochRequest(topics=[m.OffsetForLeaderEpochRequest.Topic(
            topic=TOPIC, partitions=[m.OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=0)])]),
        "AddPartitionsToTxn": lambda: m.AddPartitionsToTxnRequest(
            transactions=[m.AddPartitionsToTxnRequest.Transaction(
                transactional_id=ID, producer_id=1, producer_epoch=0, verify_only=True,
                topics=[type_of(m.AddPartitionsToTxnRequest, "v3_and_below_topics")(name=TOPIC, partitions=[0])])],
            v3_and_below_transactional_id=ID, v3_and_below_producer_id=1, v3_and_below_producer_epoch=0,
            v3_and_below_topics=[type_of(m.AddPartitionsToTxnRequest, "v3_and_below_topics")(
                name=TOPIC, partitions=[0])]),
        "AddOffsetsToTxn": lambda: m.AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=1, producer_epoch=0, group_id=GROUP),
        "EndTxn": lambda: m.EndTxnRequest(transactional_id=ID, producer_id=1, producer_epoch=0, committed=True),
        "WriteTxnMarkers": lambda: m.WriteTxnMarkersRequest(markers=[m.WriteTxnMarkersRequest.Marker(
            producer_id=1, producer_epoch=0, transaction_result=True, coordinator_epoch=0,
            topics=[m.WriteTxnMarkersRequest.Marker.Topic(name=TOPIC, partition_indexes=[0])])]),
        "TxnOffsetCommit": lambda: m.TxnOffsetCommitRequest(
            transactional_id=ID, group_id=GROUP, producer_id=1, producer_epoch=0,
            topics=[m.TxnOffsetCommitRequest.Topic(name=TOPIC, partitions=[
                m.TxnOffsetCommitRequest.Topic.Partition(
                    partition_index=0, committed_offset=1, committed_metadata=None)])]),
        "DescribeAcls": lambda: m.DescribeAclsRequest(**acl_filter),
        "CreateAcls": lambda: m.CreateAclsRequest(creations=[m.CreateAclsRequest.Creation(
            resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)]),
        "DeleteAcls": lambda: m.DeleteAclsRequest(filters=[m.DeleteAclsRequest.Filter(
            **{**acl_filter, "resource_name_filter": "no-such"})]),
        "DescribeConfigs": lambda: m.DescribeConfigsRequest(resources=[m.DescribeConfigsRequest.Resource(
            resource_type=config[0], resource_name=config[1], configuration_keys=["retention.ms"])]),
        "AlterConfigs": lambda: m.AlterConfigsRequest(validate_only=True, resources=[m.AlterConfigsRequest.Resource(
            resource_type=config[0], resource_name=config[1], configs=[])]),
        "IncrementalAlterConfigs": lambda: m.IncrementalAlterConfigsRequest(
            validate_only=True, resources=[m.IncrementalAlterConfigsRequest.Resource(
                resource_type=config[0], resource_name=config[1], configs=[])]),
        "AlterReplicaLogDirs": lambda: m.AlterReplicaLogDirsRequest(dirs=[m.AlterReplicaLogDirsRequest.Dir(
            path="/nowhere", topics=[m.AlterReplicaLogDirsRequest.Dir.Topic(name=TOPIC, partitions=[0])])]),
        "DescribeLogDirs": lambda: m.DescribeLogDirsRequest(topics=None),
        "CreatePartitions": lambda: m.CreatePartitionsRequest(
            timeout_ms=1000, validate_only=True,
            topics=[m.CreatePartitionsRequest.Topic(name=TOPIC, count=2, assignments=None)]),
        "DeleteGroups": lambda: m.DeleteGroupsRequest(groups_names=[GROUP]),
        "ElectLeaders": lambda: m.ElectLeadersRequest(
            timeout_ms=1000,
            topic_partitions=[m.ElectLeadersRequest.TopicPartitions(topic=TOPIC, partitions=[0])]),
        "AlterPartitionReassignments": lambda: m.AlterPartitionReassignmentsRequest(
            timeout_ms=1000, topics=[m.AlterPartitionReassignmentsRequest.Topic(
                name=TOPIC, partitions=[m.AlterPartitionReassignmentsRequest.Topic.Partition(
                    partition_index=0, replicas=None)])]),
        "ListPartitionReassignments": lambda: m.ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None),
        "OffsetDelete": lambda: m.OffsetDeleteRequest(group_id=GROUP, topics=[m.OffsetDeleteRequest.Topic(
            name=TOPIC, partitions=[m.OffsetDeleteRequest.Topic.Partition(partition_index=0)])]),
        "DescribeClientQuotas": lambda: m.DescribeClientQuotasRequest(components=[], strict=False),
        "AlterClientQuotas": lambda: m.AlterClientQuotasRequest(
            validate_only=True, entries=[m.AlterClientQuotasRequest.Entry(
                entity=[m.AlterClientQuotasRequest.Entry.Entity(entity_type="user", entity_name="u")], ops=[])]),
        "DescribeUserScramCredentials": lambda: m.DescribeUserScramCredentialsRequest(
            users=[m.DescribeUserScramCredentialsRequest.User(name="u")]),
        "AlterUserScramCredentials": lambda: m.AlterUserScramCredentialsRequest(
            deletions=[m.AlterUserScramCredentialsRequest.Deletion(name="u", mechanism=1)], upsertions=[]),
        "DescribeQuorum": lambda: m.DescribeQuorumRequest(topics=[m.DescribeQuorumRequest.Topic(
            topic_name="__cluster_metadata",
            partitions=[m.DescribeQuorumRequest.Topic.Partition(partition_index=0)])]),
        "UpdateFeatures": lambda: m.UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[]),
        "DescribeProducers": lambda: m.DescribeProducersRequest(topics=[m.DescribeProducersRequest.Topic(
            name=TOPIC, partition_indexes=[0])]),
        "UnregisterBroker": lambda: m.UnregisterBrokerRequest(broker_id=99),
        "DescribeTransactions": lambda: m.DescribeTransactionsRequest(transactional_ids=[ID]),
        "ListTransactions": lambda: m.ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        "ListConfigResources": lambda: m.ListConfigResourcesRequest(),
        "DescribeTopicPartitions": lambda: m.DescribeTopicPartitionsRequest(
            topics=[m.DescribeTopicPartitionsRequest.Topic(name=TOPIC)], response_partition_limit=10, cursor=None),
    }  # fmt: skip
    return made[api]()


def type_of(message: type[Struct], name: str) -> Any:
    field = next(field for field in message.__fields__ if field.name == name)
    assert field.type.element is not None
    return field.type.element.struct


def codes(value: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(value, Struct):
        for field in type(value).__fields__:
            found = getattr(value, field.name)
            if field.name.endswith("error_code") and isinstance(found, int) and field.name != "topic_config_error_code":
                yield found
            else:
                yield from codes(found)
    elif isinstance(value, list):
        for element in value:
            yield from codes(element)

"""The table: which request needs which operation on what, and with which code it is refused (KIP-11 and after).

    request     the whole request is refused
    each        what is asked about each resource is refused by itself, the rest is done
    shown       what may not be seen is left out of the answer, without a word
    either      a permission that makes the next one in the row unnecessary
    as          refused with the code of another kind of resource: Fetch has none for the cluster

`guards*.py` are what keeps to it; a test walks it, and asks for everything with no rights and with each.
"""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from .resources import Operation, ResourceType

REQUEST = "request"
EACH = "each"
SHOWN = "shown"
EITHER = "either"

_REFUSALS: dict[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}


class Permission(NamedTuple):
    """One line of the table."""

    api: str
    resource_type: ResourceType
    operation: Operation
    scope: str
    refused_as: ResourceType
    """Of whose kind the error is: of the resource's, but where the whole of something is asked part by part."""

    @property
    def refusal(self) -> type[KafkaError]:
        return _REFUSALS[self.refused_as]

    @property
    def code(self) -> int:
        return self.refusal.code


_LINES = """
    Produce                        TRANSACTIONAL_ID  WRITE             request
    Produce                        TOPIC             WRITE             each
    Fetch                          CLUSTER           CLUSTER_ACTION    each      as TOPIC
    Fetch                          TOPIC             READ              each
    ListOffsets                    TOPIC             DESCRIBE          each
    Metadata                       TOPIC             DESCRIBE          each
    Metadata                       CLUSTER           CREATE            either
    Metadata                       TOPIC             CREATE            each
    OffsetCommit                   GROUP             READ              request
    OffsetCommit                   TOPIC             READ              each
    OffsetFetch                    GROUP             DESCRIBE          each
    OffsetFetch                    TOPIC             DESCRIBE          each
    FindCoordinator                GROUP             DESCRIBE          each
    FindCoordinator                TRANSACTIONAL_ID  DESCRIBE          each
    JoinGroup                      GROUP             READ              request
    Heartbeat                      GROUP             READ              request
    LeaveGroup                     GROUP             READ              request
    SyncGroup                      GROUP             READ              request
    DescribeGroups                 GROUP             DESCRIBE          each
    ListGroups                     CLUSTER           DESCRIBE          either
    ListGroups                     GROUP             DESCRIBE          shown
    CreateTopics                   CLUSTER           CREATE            either
    CreateTopics                   TOPIC             CREATE            each
    DeleteTopics                   CLUSTER           DELETE            either
    DeleteTopics                   TOPIC             DELETE            each
    DeleteRecords                  TOPIC             DELETE            each
    InitProducerId                 TRANSACTIONAL_ID  WRITE             request
    InitProducerId                 CLUSTER           IDEMPOTENT_WRITE  request
    OffsetForLeaderEpoch           CLUSTER           CLUSTER_ACTION    either
    OffsetForLeaderEpoch           TOPIC             DESCRIBE          each
    AddPartitionsToTxn             TRANSACTIONAL_ID  WRITE             request
    AddPartitionsToTxn             TOPIC             WRITE             each
    AddPartitionsToTxn             CLUSTER           CLUSTER_ACTION    request
    AddOffsetsToTxn                TRANSACTIONAL_ID  WRITE             request
    AddOffsetsToTxn                GROUP             READ              request
    EndTxn                         TRANSACTIONAL_ID  WRITE             request
    WriteTxnMarkers                CLUSTER           ALTER             either
    WriteTxnMarkers                CLUSTER           CLUSTER_ACTION    request
    TxnOffsetCommit                TRANSACTIONAL_ID  WRITE             request
    TxnOffsetCommit                GROUP             READ              request
    TxnOffsetCommit                TOPIC             READ              each
    DescribeAcls                   CLUSTER           DESCRIBE          request
    CreateAcls                     CLUSTER           ALTER             request
    DeleteAcls                     CLUSTER           ALTER             request
    DescribeConfigs                TOPIC             DESCRIBE_CONFIGS  each
    DescribeConfigs                GROUP             DESCRIBE_CONFIGS  each
    DescribeConfigs                CLUSTER           DESCRIBE_CONFIGS  each
    AlterConfigs                   TOPIC             ALTER_CONFIGS     each
    AlterConfigs                   GROUP             ALTER_CONFIGS     each
    AlterConfigs                   CLUSTER           ALTER_CONFIGS     each
    AlterReplicaLogDirs            CLUSTER           ALTER             request
    DescribeLogDirs                CLUSTER           DESCRIBE          request
    CreatePartitions               TOPIC             ALTER             each
    DeleteGroups                   GROUP             DELETE            each
    ElectLeaders                   CLUSTER           ALTER             request
    IncrementalAlterConfigs        TOPIC             ALTER_CONFIGS     each
    IncrementalAlterConfigs        GROUP             ALTER_CONFIGS     each
    IncrementalAlterConfigs        CLUSTER           ALTER_CONFIGS     each
    AlterPartitionReassignments    CLUSTER           ALTER             request
    ListPartitionReassignments     CLUSTER           DESCRIBE          request
    OffsetDelete                   GROUP             DELETE            request
    OffsetDelete                   TOPIC             READ              each
    DescribeClientQuotas           CLUSTER           DESCRIBE_CONFIGS  request
    AlterClientQuotas              CLUSTER           ALTER_CONFIGS     request
    DescribeUserScramCredentials   CLUSTER           DESCRIBE          request
    AlterUserScramCredentials      CLUSTER           ALTER             request
    DescribeQuorum                 CLUSTER           DESCRIBE          request
    UpdateFeatures                 CLUSTER           ALTER             request
    DescribeProducers              TOPIC             READ              each
    UnregisterBroker               CLUSTER           ALTER             request
    DescribeTransactions           TRANSACTIONAL_ID  DESCRIBE          each
    DescribeTransactions           TOPIC             DESCRIBE          shown
    ListTransactions               TRANSACTIONAL_ID  DESCRIBE          shown
    ListConfigResources            CLUSTER           DESCRIBE_CONFIGS  request
    DescribeTopicPartitions        TOPIC             DESCRIBE          each
"""


def _parse(line: str) -> Permission:
    api, resource_type, operation, scope, *refused_as = line.split()
    refused = refused_as[-1] if refused_as else resource_type
    return Permission(api, ResourceType[resource_type], Operation[operation], scope, ResourceType[refused])


TABLE: tuple[Permission, ...] = tuple(map(_parse, _LINES.strip().splitlines()))

OPEN = ("ApiVersions", "DescribeCluster", "SaslAuthenticate", "SaslHandshake")
"""Requests that need no permission. What DescribeCluster tells of operations does."""


def permissions_of(api: str) -> tuple[Permission, ...]:
    """The lines of one API, in the order in which they are asked."""
    return tuple(permission for permission in TABLE if permission.api == api)

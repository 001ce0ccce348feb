"""Guards of what concerns the cluster as a whole: ACLs, settings, credentials, quotas, replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.errors import KafkaError
from ...protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from ...protocol.messages.describe_configs import TOPIC
from ...protocol.schema import Request, Response
from .guarding import Call, guards
from .resources import CLUSTER_NAME, Operation, ResourceType

GROUP = 32
"""The resource type of a group's settings."""

NO_OPERATIONS = 0

Refusal = Callable[[Any, int], Response]
"""The answer that refuses a request with an error code."""


def _top_level(response: type[Response]) -> Refusal:
    return lambda request, code: response(error_code=code)


def _alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, code: int) -> Response:
    response = AlterReplicaLogDirsResponse
    Topic = response.Topic
    by_topic: dict[str, list[Any]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            partitions = by_topic.setdefault(topic.name, [])
            partitions += [Topic.Partition(partition_index=number, error_code=code) for number in topic.partitions]
    topics = [Topic(topic_name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return response(results=topics)


def _elect_leaders(request: ElectLeadersRequest, code: int) -> Response:
    response = ElectLeadersResponse
    Result = response.ReplicaElectionResult
    results = [
        Result(
            topic=topic.topic,
            partition_result=[
                Result.PartitionResult(partition_id=number, error_code=code) for number in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return response(error_code=code, replica_election_results=results)


_REFUSALS: dict[type[Request], Refusal] = {
    AlterClientQuotasRequest: lambda request, code: _quotas_refused(request, code),
    AlterPartitionReassignmentsRequest: lambda request, code: _reassignments_refused(request, code),
    AlterReplicaLogDirsRequest: _alter_replica_log_dirs,
    AlterUserScramCredentialsRequest: lambda request, code: _credentials_refused(request, code),
    CreateAclsRequest: lambda request, code: _acls_refused(len(request.creations), code),
    DeleteAclsRequest: lambda request, code: _filters_refused(len(request.filters), code),
    DescribeAclsRequest: _top_level(DescribeAclsRequest.response),
    DescribeClientQuotasRequest: _top_level(DescribeClientQuotasRequest.response),
    DescribeLogDirsRequest: lambda request, code: DescribeLogDirsRequest.response(error_code=code, results=[]),
    DescribeQuorumRequest: _top_level(DescribeQuorumRequest.response),
    DescribeUserScramCredentialsRequest: lambda request, code: _descriptions_refused(request, code),
    ElectLeadersRequest: _elect_leaders,
    ListConfigResourcesRequest: _top_level(ListConfigResourcesRequest.response),
    ListPartitionReassignmentsRequest: _top_level(ListPartitionReassignmentsRequest.response),
    UnregisterBrokerRequest: _top_level(UnregisterBrokerRequest.response),
    UpdateFeaturesRequest: _top_level(UpdateFeaturesRequest.response),
}
"""Requests that one permission on the cluster is needed for, and what is answered without."""


def _quotas_refused(request: AlterClientQuotasRequest, code: int) -> Response:
    response = AlterClientQuotasResponse
    Entry = response.Entry
    entries = [
        Entry(
            error_code=code,
            entity=[Entry.Entity(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity],
        )
        for entry in request.entries
    ]
    return response(entries=entries)


def _credentials_refused(request: AlterUserScramCredentialsRequest, code: int) -> Response:
    response = AlterUserScramCredentialsResponse
    users = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
    results = [response.Result(user=user, error_code=code) for user in users]
    return response(results=results)


def _descriptions_refused(request: DescribeUserScramCredentialsRequest, code: int) -> Response:
    response = DescribeUserScramCredentialsResponse
    results = [response.Result(user=user.name, error_code=code) for user in request.users or ()]
    return response(error_code=code, results=results)


def _reassignments_refused(request: AlterPartitionReassignmentsRequest, code: int) -> Response:
    response = AlterPartitionReassignmentsResponse
    topics = [
        response.Topic(
            name=topic.name,
            partitions=[
                response.Topic.Partition(partition_index=part.partition_index, error_code=code)
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return response(error_code=code, responses=topics)


def _acls_refused(count: int, code: int) -> Response:
    return CreateAclsResponse(results=[CreateAclsResponse.Result(error_code=code)] * count)


def _filters_refused(count: int, code: int) -> Response:
    return DeleteAclsResponse(filter_results=[DeleteAclsResponse.FilterResult(error_code=code)] * count)


async def _on_cluster(call: Call) -> Any:
    """One permission on the cluster, or nothing of it."""
    (permission,) = call.permissions
    if call.may(permission):
        return await call.serve()
    return _REFUSALS[type(call.request)](call.request, permission.code)


for _request in _REFUSALS:
    guards(_request)(_on_cluster)


@guards(DescribeConfigsRequest)
@guards(AlterConfigsRequest)
@guards(IncrementalAlterConfigsRequest)
async def configs(call: Call) -> Any:
    """Settings: of topics, of groups, and of the cluster's brokers, each refused by itself."""
    of_topic, of_group, of_cluster = call.permissions
    by_type = {TOPIC: of_topic, GROUP: of_group}
    allowed, refused = [], []
    response = type(call.request).response
    for resource in call.request.resources:
        permission = by_type.get(resource.resource_type, of_cluster)
        if call.may(permission, resource.resource_name):
            allowed.append(resource)
        else:
            error: KafkaError = permission.refusal()
            refused.append(
                response.Resource(
                    error_code=error.code,
                    error_message=error.message or None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
    if not refused:
        return await call.serve()
    call.request.resources = allowed
    answer = await call.serve()
    (answer.results if isinstance(call.request, DescribeConfigsRequest) else answer.responses).extend(refused)
    return answer


@guards(DescribeClusterRequest)
async def describe_cluster(call: Call) -> Any:
    """Everybody may know the brokers; what may be done to the cluster is told to who may describe it."""
    answer = await call.serve()
    if call.request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = cluster_operations(call)
    return answer


def cluster_operations(call: Call) -> int:
    """What the client may do to the cluster, as bits (KIP-430)."""
    if not call.access.may_on_cluster(Operation.DESCRIBE):
        return NO_OPERATIONS
    return call.access.operations(ResourceType.CLUSTER, CLUSTER_NAME)

"""Every message that kmini speaks, one module per API, listed by hand: adding one starts here."""

from __future__ import annotations

from ..schema import Request
from .api_versions import ApiVersionsRequest, ApiVersionsResponse
from .create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from .create_topics import CreateTopicsRequest, CreateTopicsResponse
from .delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from .delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from .describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from .describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from .fetch import FetchRequest, FetchResponse
from .find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from .init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from .list_offsets import ListOffsetsRequest, ListOffsetsResponse
from .metadata import MetadataRequest, MetadataResponse
from .offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from .produce import ProduceRequest, ProduceResponse

REQUESTS: dict[int, type[Request]] = {
    request.api_key: request
    for request in (
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        FindCoordinatorRequest,
        ApiVersionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteRecordsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        DescribeConfigsRequest,
        CreatePartitionsRequest,
        DescribeClusterRequest,
    )
}
"""Request classes by API key; each knows its response."""

__all__ = [
    "REQUESTS",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
]

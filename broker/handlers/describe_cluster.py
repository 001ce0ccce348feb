"""DescribeCluster, versions 0 to 2: list the brokers, and the controller (KIP-700)."""

from __future__ import annotations

from ...protocol.errors import MismatchedEndpointType, UnsupportedEndpointType
from ...protocol.messages.describe_cluster import (
    BROKERS,
    CONTROLLERS,
    NOT_ASKED_FOR,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import Call
from ..security.permission_kinds import OPEN
from ..security.resources import CLUSTER_OPERATIONS


async def guard(call: Call) -> DescribeClusterResponse:
    """Every client may know the brokers; the authorized operations are those of the client."""
    answer: DescribeClusterResponse = await call.serve()
    if call.request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = call.cluster_operations()
    return answer


@handles(DescribeClusterRequest, needs=OPEN, guard=guard)
async def describe_cluster(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """List the brokers at the addresses where this client can reach them."""
    if request.endpoint_type == CONTROLLERS:
        return _refusal(MismatchedEndpointType("this is a broker; there is no controller to talk to by itself"))
    if request.endpoint_type != BROKERS:
        return _refusal(UnsupportedEndpointType(f"there is no endpoint type {request.endpoint_type}"))
    controller = context.services.controller
    addresses = context.advertised()
    return DescribeClusterResponse(
        cluster_id=controller.cluster_id,
        controller_id=controller.controller_id,
        brokers=[
            DescribeClusterResponse.Broker(broker_id=broker.node_id, host=host, port=port, rack=broker.rack)
            for broker in controller.brokers
            if broker.node_id in addresses
            for host, port in [addresses[broker.node_id]]
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )


def _refusal(error: MismatchedEndpointType | UnsupportedEndpointType) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=error.code, error_message=error.message, cluster_id="", controller_id=-1, brokers=[]
    )

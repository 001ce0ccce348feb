"""ListConfigResources, versions 0 to 1: list the resources that have settings, by type (KIP-714, KIP-1142).

These are the topics, the brokers with their loggers, and the groups that have settings of their own. There are no
client metrics, the only type of version 0.
"""

from __future__ import annotations

from ...protocol.errors import UnsupportedVersion
from ...protocol.messages.describe_configs import BROKER, BROKER_LOGGER, GROUP, TOPIC
from ...protocol.messages.list_config_resources import (
    CLIENT_METRICS,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import on_cluster, refused_by_code
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

Resource = ListConfigResourcesResponse.ConfigResource

_TYPES = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)

TYPES_SINCE = 1


@handles(
    ListConfigResourcesRequest,
    needs=[whole(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)],
    guard=on_cluster(refused_by_code(ListConfigResourcesResponse)),
)
async def list_config_resources(request: ListConfigResourcesRequest, context: Context) -> ListConfigResourcesResponse:
    """List the resources of the types asked for, by default of all types."""
    wanted = set(request.resource_types or _TYPES) if context.version >= TYPES_SINCE else {CLIENT_METRICS}
    if not wanted.issubset(_TYPES):
        return ListConfigResourcesResponse(error_code=UnsupportedVersion.code)
    controller = context.services.controller
    resources = [
        Resource(resource_name=str(broker.node_id), resource_type=resource_type)
        for resource_type in (BROKER_LOGGER, BROKER)
        if resource_type in wanted
        for broker in controller.brokers
    ]
    turn = Turn()
    for resource_type, names in ((GROUP, controller.group_configs), (TOPIC, controller.topics)):
        for name in list(names) if resource_type in wanted else ():
            if turn.is_over:
                await turn.next()
            resources.append(Resource(resource_name=name, resource_type=resource_type))
    return ListConfigResourcesResponse(config_resources=resources)

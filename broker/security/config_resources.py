"""The permissions and the guard of requests about settings: of topics, of groups, and of the cluster's brokers."""

from __future__ import annotations

from typing import Any

from ...protocol.messages.describe_configs import GROUP, TOPIC, DescribeConfigsRequest
from .guarding import Call
from .permission_kinds import Permission, each
from .resources import AclOperation, ResourceType


def on_each_config_resource(operation: AclOperation) -> list[Permission]:
    """The permission to do `operation` to the settings of topics, groups and the cluster, in the order that
    `config_resource_by_resource` expects."""
    return [each(operation, kind) for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)]


async def config_resource_by_resource(call: Call) -> Any:
    """Refuse each resource whose settings the client may not see or change, and serve the others."""
    of_topic, of_group, of_cluster = call.permissions
    by_type = {TOPIC: of_topic, GROUP: of_group}
    allowed, refused = [], []
    response = type(call.request).response
    for resource in call.request.resources:
        permission = by_type.get(resource.resource_type, of_cluster)
        if call.may(permission, resource.resource_name):
            allowed.append(resource)
        else:
            error = permission.refusal()
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

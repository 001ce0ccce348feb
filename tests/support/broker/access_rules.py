"""Short ways to write access rules."""

from __future__ import annotations

from kmini.broker.security.acls import AclBinding
from kmini.broker.security.resources import CLUSTER_NAME, AclOperation, PatternType, PermissionType, ResourceType

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
HOST = "192.0.2.7"


def acl(
    operation: AclOperation,
    resource_type: ResourceType = ResourceType.TOPIC,
    name: str | None = None,
    *,
    principal: str = "User:alice",
    host: str = "*",
    permission: PermissionType = PermissionType.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> AclBinding:
    """A rule; without a name, about the cluster."""
    resource = CLUSTER_NAME if name is None else name
    return AclBinding(resource_type, pattern, resource, principal, host, operation, permission)

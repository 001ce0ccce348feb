"""Short ways to write access rules."""

from __future__ import annotations

from kmini.broker.security.acls import AclBinding, AclIndex
from kmini.broker.security.authorizer import Authorizer
from kmini.broker.security.resources import CLUSTER_NAME, AclOperation, PatternType, PermissionType, ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
DENY, PREFIXED, LITERAL = PermissionType.DENY, PatternType.PREFIXED, PatternType.LITERAL

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


def may(*rules: object, operation: AclOperation = AclOperation.READ, name: str = "orders", **client: object) -> bool:
    index = AclIndex(rules)  # type: ignore[arg-type]
    return Authorizer(index).may(
        str(client.get("principal", "User:alice")), str(client.get("host", "192.0.2.7")), operation, TOPIC, name
    )

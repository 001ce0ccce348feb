"""Principals, resources and operations of access rules: Kafka's numbers and names (KIP-11, KIP-290)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

ANY = 1
"""In a filter: every value of the field."""

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

WILDCARD = "*"
"""As a resource's name: every name. As a host: every host."""

WILDCARD_PRINCIPAL = "User:*"


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    MATCH = 2
    """In a filter: every pattern that covers the name."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    DENY = 2
    ALLOW = 3


def operation_bits(*operations: AclOperation) -> int:
    """A set of operations as Metadata and DescribeCluster give it (KIP-430): one bit for each operation."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = operation_bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = operation_bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = operation_bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)

OPERATIONS: dict[ResourceType, int] = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: GROUP_OPERATIONS,
    ResourceType.CLUSTER: CLUSTER_OPERATIONS,
}
"""The operations that exist for a type of resource, as bits (KIP-430). Without an authorizer, clients are told all."""


class Principal(NamedTuple):
    """An authenticated user, as in `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def user(cls, name: str) -> Principal:
        return cls("User", name)

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Parse `Type:name`. Raises ValueError."""
        kind, colon, name = text.partition(":")
        if not (colon and kind):
            raise ValueError(f"{text!r} is no principal: Type:name was expected, as in User:alice")
        return cls(kind, name)


ANONYMOUS = Principal.user("ANONYMOUS")
"""The principal of every connection through a listener without authentication."""

"""What may be done to what, by whom: Kafka's numbers and names (KIP-11, KIP-290)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from . import acl_operations

ANY = 1
"""In a filter: everything of its kind."""

CLUSTER_NAME = "kafka-cluster"
"""The only resource of the type CLUSTER."""

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
    """In a filter: whatever pattern the name would fall under."""
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    ALL = 2
    READ = acl_operations.READ
    WRITE = acl_operations.WRITE
    CREATE = acl_operations.CREATE
    DELETE = acl_operations.DELETE
    ALTER = acl_operations.ALTER
    DESCRIBE = acl_operations.DESCRIBE
    CLUSTER_ACTION = acl_operations.CLUSTER_ACTION
    DESCRIBE_CONFIGS = acl_operations.DESCRIBE_CONFIGS
    ALTER_CONFIGS = acl_operations.ALTER_CONFIGS
    IDEMPOTENT_WRITE = acl_operations.IDEMPOTENT_WRITE
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    DENY = 2
    ALLOW = 3


OPERATIONS: dict[ResourceType, int] = {
    ResourceType.TOPIC: acl_operations.TOPIC_OPERATIONS,
    ResourceType.GROUP: acl_operations.GROUP_OPERATIONS,
    ResourceType.CLUSTER: acl_operations.CLUSTER_OPERATIONS,
}
"""The operations that a client can be told about (KIP-430), as bits."""


class Principal(NamedTuple):
    """Somebody, as authentication found out: `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def user(cls, name: str) -> Principal:
        return cls("User", name)

    @classmethod
    def parse(cls, text: str) -> Principal:
        """`Type:name`. Raises ValueError."""
        kind, colon, name = text.partition(":")
        if not (colon and kind):
            raise ValueError(f"{text!r} is no principal: Type:name was expected, as in User:alice")
        return cls(kind, name)


ANONYMOUS = Principal.user("ANONYMOUS")
"""Whoever comes through a listener that asks nobody who they are."""

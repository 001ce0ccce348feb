"""The permissions that a request needs: an operation on a resource, and what happens without it (KIP-11 and after).

Each handler's module states its own (`@handles(..., needs=...)`) beside the guard that keeps to them. The registry
collects them for the reference page and for the tests, which ask for everything with no rights and with each.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ...protocol.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from .resources import AclOperation, ResourceType

_REFUSALS: dict[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    ResourceType.USER: DelegationTokenAuthorizationFailed,
}


class Scope(Enum):
    """The part of a request that a client without the permission is refused."""

    WHOLE = "the whole request"
    EACH = "the part of the request about the resource; the rest is done"
    SHOWN = "sight of the resource, which the answer leaves out"
    SUFFICES = "nothing: with this permission the next one is not needed"


class Permission(NamedTuple):
    """The right to do `operation` to a resource."""

    operation: AclOperation
    resource_type: ResourceType
    scope: Scope
    refused_as: ResourceType
    """The kind of resource whose error refuses it: its own, except where the request has no place for that error."""

    when: str
    """The requests that need it, where not all of the API do: for the reference page."""

    @property
    def refusal(self) -> type[KafkaError]:
        return _REFUSALS[self.refused_as]

    @property
    def code(self) -> int:
        return self.refusal.code

    def __str__(self) -> str:
        kind = self.resource_type.name.lower().replace("_", " ")
        is_one = self.scope in (Scope.WHOLE, Scope.SUFFICES) or self.resource_type is ResourceType.CLUSTER
        text = f"{self.operation.name} on {'the' if is_one else 'each'} {kind}"
        if self.scope is Scope.SHOWN:
            text += " shown"
        return f"{text} ({self.when})" if self.when else text


def whole(operation: AclOperation, resource_type: ResourceType, *, when: str = "") -> Permission:
    """A permission without which the whole request is refused."""
    return Permission(operation, resource_type, Scope.WHOLE, resource_type, when)


def each(
    operation: AclOperation, resource_type: ResourceType, *, when: str = "", refused_as: ResourceType | None = None
) -> Permission:
    """A permission asked for each resource that the request names: refused ones do not hinder the others."""
    return Permission(operation, resource_type, Scope.EACH, refused_as or resource_type, when)


def shown(operation: AclOperation, resource_type: ResourceType) -> Permission:
    """A permission without which the answer leaves a resource out, without an error."""
    return Permission(operation, resource_type, Scope.SHOWN, resource_type, "")


def suffices(operation: AclOperation, resource_type: ResourceType, *, when: str = "") -> Permission:
    """A permission that makes the next one of the request unnecessary."""
    return Permission(operation, resource_type, Scope.SUFFICES, resource_type, when)


class Open(Enum):
    """The type of OPEN."""

    OPEN = "open"


OPEN = Open.OPEN
"""The `needs` of a request that every client may send."""

"""Decides whether a principal may do an operation (KIP-11, by the rules of Kafka's StandardAuthorizer).

the principal is a super user                      allowed
a rule about the resource denies the operation     denied
a rule about the resource allows the operation     allowed
rules about the resource exist, but none matches   denied
no rule is about the resource                      as allow.everyone.if.no.acl.found says

A rule is about a resource if its pattern covers it: the name, a prefix of the name, or `*` (acls.py). An allowed
operation allows those that it implies, too (`_IMPLIED_BY`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from ..network.peer_log import PeerLog
from .acls import AclBinding, AclIndex
from .resources import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    PatternType,
    PermissionType,
    Principal,
    ResourceType,
)
from .security_settings import SecurityConfig, super_users

peer_log = PeerLog(logging.getLogger("kmini.authorizer"))

_IMPLIED_BY: dict[int, int] = {
    AclOperation.DESCRIBE: (
        1 << AclOperation.READ | 1 << AclOperation.WRITE | 1 << AclOperation.DELETE | 1 << AclOperation.ALTER
    ),
    AclOperation.DESCRIBE_CONFIGS: 1 << AclOperation.ALTER_CONFIGS,
}
"""The operations, as bits, that imply this one where they are allowed. A denied operation implies nothing."""


class AuthorizerConfig(SecurityConfig, Protocol):
    """The settings of a broker that decide about its authorizer."""

    allow_everyone_if_no_acl_found: bool


class Authorizer:
    """Decides by the rules in `acls`, which may change at any time."""

    def __init__(
        self, acls: AclIndex, *, super_users: Collection[Principal] = (), allows_if_no_acl_found: bool = False
    ) -> None:
        self.acls = acls
        self._super_users = frozenset(map(str, super_users))
        self._allows_if_no_acl_found = allows_if_no_acl_found

    def access_of(self, principal: Principal, host: str) -> Access:
        """The decisions about `principal` at the address `host`."""
        return Access(self, str(principal), host)

    def may(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self._super_users:
            return True
        decision = self._decide(principal, host, operation, resource_type, name)
        return self._allows_if_no_acl_found if decision is None else decision

    def may_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether a resource of the type may exist on which the operation is allowed.

        Like Kafka, asks first about a name that no rule is about.
        """
        if self.may(principal, host, operation, resource_type, "hardcode"):
            return True
        return self._allows_some(principal, host, operation, resource_type)

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool | None:
        """True if a rule allows the operation and none denies it; None if no rule is about the resource."""
        allowed, found = False, False
        allowing = 1 << operation | _IMPLIED_BY.get(operation, 0)
        subjects = (
            (principal, host),
            (principal, WILDCARD),
            (WILDCARD_PRINCIPAL, host),
            (WILDCARD_PRINCIPAL, WILDCARD),
        )
        for rules in self.acls.rules_for(resource_type, name):
            found = True
            for subject in subjects:
                bits = rules.get(subject)
                if bits is not None:
                    if bits[1] >> operation & 1:
                        return False
                    if bits[0] & allowing:
                        allowed = True
        return allowed if found else None

    def _allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether a resource of the type may exist on which the operation is allowed (KIP-679).

        That is so if a pattern allows it, and no pattern denies all that this one covers.
        """
        allowed: list[AclBinding] = []
        denied: set[tuple[int, str]] = set()
        for acl in self.acls:
            if (
                acl.resource_type != resource_type
                or acl.operation not in (operation, AclOperation.ALL)
                or acl.host not in (host, WILDCARD)
                or acl.principal not in (principal, WILDCARD_PRINCIPAL)
            ):
                continue
            if acl.permission_type == PermissionType.ALLOW:
                allowed.append(acl)
            else:
                denied.add((acl.pattern_type, acl.resource_name))
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_covered(acl, denied) for acl in allowed)


def _is_covered(acl: AclBinding, denied: set[tuple[int, str]]) -> bool:
    """Whether the denied patterns cover all that a rule allows."""
    name = acl.resource_name
    if acl.pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def authorizer_of(config: AuthorizerConfig, acls: AclIndex) -> Authorizer | None:
    """The authorizer that `authorizer.class.name` asks for, over the rules of the cluster; None without one."""
    if not config.authorizer_class_name:
        return None
    return Authorizer(
        acls,
        super_users=super_users(config),
        allows_if_no_acl_found=config.allow_everyone_if_no_acl_found,
    )


class Access:
    """An authorizer's decisions about one connection."""

    __slots__ = ("authorizer", "host", "principal")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self.authorizer = authorizer
        self.principal = principal
        self.host = host

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str, *, is_logged: bool = True) -> bool:
        """Whether the operation is allowed. A denial is logged, unless it refuses no request (`is_logged` is False)."""
        allowed = self.authorizer.may(self.principal, self.host, operation, resource_type, name)
        if not allowed and is_logged:
            peer_log.info(
                "%s from %s may not %s %s %s", self.principal, self.host, operation.name, resource_type.name, name
            )
        return allowed

    def may_on_cluster(self, operation: AclOperation, *, is_logged: bool = True) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=is_logged)

    def may_some(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        return self.authorizer.may_some(self.principal, self.host, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations that are allowed on a resource, as bits (KIP-430)."""
        known = OPERATIONS[resource_type]
        return sum(
            1 << operation
            for operation in AclOperation
            if known >> operation & 1 and self.may(operation, resource_type, name, is_logged=False)
        )

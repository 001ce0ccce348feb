"""Access rules, and an index that finds the rules about one resource without a scan of all.

A rule allows or denies a principal, from a host, an operation on the resources of a pattern. The pattern is a name, the
name `*` (every resource of the type), or a prefix of names. The rules about one resource are indexed under its name,
under `*`, and under each of its prefixes that has rules: a decision (authorizer.py) takes as many look-ups as there are
lengths of prefixes, plus two. Each entry merges its rules to bits of operations, by principal and host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .resources import ANY, WILDCARD, AclOperation, PatternType, PermissionType, Principal

_ALL = (1 << 32) - 1


class AclBinding(NamedTuple):
    """One rule. Equal rules are the same rule."""

    resource_type: int
    pattern_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int

    def __str__(self) -> str:
        verb = "may" if self.permission_type == PermissionType.ALLOW else "may not"
        pattern = f"{self.resource_name}*" if self.pattern_type == PatternType.PREFIXED else self.resource_name
        return f"{self.principal} from {self.host} {verb} {self.operation} on {self.resource_type}:{pattern}"


class AclFilter(NamedTuple):
    """Selects rules; ANY, or None for a text, matches every value."""

    resource_type: int = ANY
    pattern_type: int = ANY
    resource_name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission_type: int = ANY

    def matches(self, acl: AclBinding) -> bool:
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        name = self.resource_name
        if self.pattern_type == PatternType.MATCH:
            if name is None:
                return True
            if acl.pattern_type == PatternType.PREFIXED:
                return name.startswith(acl.resource_name)
            return acl.resource_name in (name, WILDCARD)
        return self.pattern_type in (ANY, acl.pattern_type) and name in (None, acl.resource_name)


Rules = dict[tuple[str, str], list[int]]
"""The operations that a pattern allows and denies, each as bits, by principal and host."""


class AclIndex:
    """All rules of a cluster. `generation` counts changes."""

    def __init__(self, acls: Iterable[AclBinding] = ()) -> None:
        self.generation = 0
        self._acls: dict[AclBinding, None] = {}
        self._literal: dict[tuple[int, str], Rules] = {}
        self._prefixed: dict[tuple[int, str], Rules] = {}
        self._prefix_lengths: dict[int, list[int]] = {}
        """By resource type: the lengths of its prefixes, ascending, each once."""
        self.add(acls)

    def __len__(self) -> int:
        return len(self._acls)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self._acls)

    def __contains__(self, acl: AclBinding) -> bool:
        return acl in self._acls

    def add(self, acls: Iterable[AclBinding]) -> None:
        for acl in acls:
            if acl not in self._acls:
                self._acls[acl] = None
                self._merge(acl)
        self.generation += 1

    def remove(self, acls: Iterable[AclBinding]) -> None:
        """Remove these rules; all others of the same patterns stay in force (CVE-2024-27309)."""
        touched = set()
        for acl in acls:
            if acl in self._acls:
                del self._acls[acl]
                touched.add(acl[:3])
        for resource_type, pattern_type, name in touched:
            self._patterns(pattern_type).pop((resource_type, name), None)
        for acl in self._acls if touched else ():
            if acl[:3] in touched:
                self._merge(acl)
        lengths: dict[int, set[int]] = {}
        for resource_type, name in self._prefixed:
            lengths.setdefault(resource_type, set()).add(len(name))
        self._prefix_lengths = {resource_type: sorted(found) for resource_type, found in lengths.items()}
        self.generation += 1

    def matching(self, acl_filter: AclFilter) -> list[AclBinding]:
        """The rules that a filter matches, in the order of their creation."""
        return [acl for acl in self._acls if acl_filter.matches(acl)]

    def rules_for(self, resource_type: int, name: str) -> Iterator[Rules]:
        """The rules of every pattern that covers the resource."""
        for literal in (name, WILDCARD):
            rules = self._literal.get((resource_type, literal))
            if rules is not None:
                yield rules
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > len(name):
                break
            rules = self._prefixed.get((resource_type, name[:length]))
            if rules is not None:
                yield rules

    # ---

    def _patterns(self, pattern_type: int) -> dict[tuple[int, str], Rules]:
        return self._prefixed if pattern_type == PatternType.PREFIXED else self._literal

    def _merge(self, acl: AclBinding) -> None:
        rules = self._patterns(acl.pattern_type).setdefault((acl.resource_type, acl.resource_name), {})
        bits = rules.setdefault((acl.principal, acl.host), [0, 0])
        covered = _ALL if acl.operation == AclOperation.ALL else 1 << acl.operation
        if acl.permission_type == PermissionType.ALLOW:
            bits[0] |= covered
        else:
            bits[1] |= covered
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(acl.resource_type, [])
            if len(acl.resource_name) not in lengths:
                lengths.append(len(acl.resource_name))
                lengths.sort()


def check_can_be_created(acl: AclBinding) -> None:
    """Raise ValueError for an invalid rule."""
    from .resources import CLUSTER_NAME, ResourceType

    if acl.resource_type not in ResourceType.__members__.values():
        raise ValueError("a rule is for one type of resource")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ValueError("a rule's pattern is literal or prefixed")
    if acl.operation not in AclOperation.__members__.values():
        raise ValueError("a rule is for one operation, or for ALL")
    if acl.permission_type not in PermissionType.__members__.values():
        raise ValueError("a rule allows or denies")
    if not acl.resource_name:
        raise ValueError("a rule's resource has a name")
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise ValueError(f"the only resource of the type CLUSTER is {CLUSTER_NAME}")
    Principal.parse(acl.principal)

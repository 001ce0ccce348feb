"""Access rules: which rules a resource, a filter and a deletion match, and which rules are invalid."""

from __future__ import annotations

import pytest

from kmini.broker.security.acls import AclFilter, AclIndex, check_can_be_created
from kmini.broker.security.authorizer import Authorizer
from kmini.broker.security.resources import (
    CLUSTER_NAME,
    AclOperation,
    PatternType,
)
from support.broker.access_rules import CLUSTER, DENY, GROUP, LITERAL, PREFIXED, TOPIC, acl, may


@pytest.mark.parametrize(
    ("name", "pattern", "asked", "expected"),
    [
        ("orders", LITERAL, "orders", True),
        ("orders", LITERAL, "orders-2", False),
        ("order", LITERAL, "orders", False),
        ("*", LITERAL, "orders", True),
        ("order", PREFIXED, "orders", True),
        ("orders", PREFIXED, "orders", True),
        ("orders-2", PREFIXED, "orders", False),
        ("*", PREFIXED, "orders", False),
        ("*", PREFIXED, "*orders", True),
    ],
)
def test_a_pattern_covers(name: str, pattern: PatternType, asked: str, expected: bool) -> None:
    assert may(acl(AclOperation.READ, TOPIC, name, pattern=pattern), name=asked) is expected


def test_a_rule_is_about_one_type_of_resource() -> None:
    assert not may(acl(AclOperation.READ, GROUP, "orders"))


def test_prefixes_of_all_lengths_are_found() -> None:
    rules = [acl(AclOperation.READ, TOPIC, "orders-eu"[:length], pattern=PREFIXED) for length in (1, 4, 9)]
    for removed in rules:
        index = AclIndex(rules)
        index.remove([rule for rule in rules if rule != removed])
        assert Authorizer(index).may("User:alice", "h", AclOperation.READ, TOPIC, "orders-eu-1")


def test_deleting_one_rule_of_several_leaves_the_others_in_force() -> None:
    """CVE-2024-27309: a resource with several rules, of which one goes, was treated as if one were left."""
    rules = [
        acl(AclOperation.READ, TOPIC, "orders", principal="User:alice"),
        acl(AclOperation.READ, TOPIC, "orders", principal="User:bob"),
        acl(AclOperation.ALL, TOPIC, "orders", principal="User:eve", permission=DENY),
        acl(AclOperation.READ, TOPIC, "*", principal="User:eve"),
        acl(AclOperation.WRITE, TOPIC, "orders", principal="User:alice"),
    ]
    index = AclIndex(rules)
    authorizer = Authorizer(index)
    index.remove([rules[0]])
    assert len(index) == 4
    assert not authorizer.may("User:alice", "h", AclOperation.READ, TOPIC, "orders")
    assert authorizer.may("User:alice", "h", AclOperation.WRITE, TOPIC, "orders")
    assert authorizer.may("User:bob", "h", AclOperation.READ, TOPIC, "orders")
    assert not authorizer.may("User:eve", "h", AclOperation.READ, TOPIC, "orders"), "the denial is still there"


def test_a_resource_without_rules_is_like_one_that_never_had_any() -> None:
    rule = acl(AclOperation.READ, TOPIC, "orders", pattern=PREFIXED)
    index = AclIndex([rule])
    authorizer = Authorizer(index, allows_if_no_acl_found=True)
    assert not authorizer.may("User:bob", "h", AclOperation.READ, TOPIC, "orders")
    index.remove([rule])
    assert authorizer.may("User:bob", "h", AclOperation.READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), {"a", "b", "c", "d"}),
        (AclFilter(resource_type=TOPIC), {"a", "b", "c"}),
        (AclFilter(pattern_type=PREFIXED), {"b"}),
        (AclFilter(resource_type=TOPIC, pattern_type=LITERAL, resource_name="orders"), {"a"}),
        (AclFilter(resource_type=TOPIC, pattern_type=PatternType.MATCH, resource_name="orders"), {"a", "b", "c"}),
        (AclFilter(resource_type=TOPIC, pattern_type=PatternType.MATCH, resource_name="other"), {"c"}),
        (AclFilter(resource_type=TOPIC, resource_name="orders"), {"a"}),
        (AclFilter(principal="User:d"), {"d"}),
        (AclFilter(operation=AclOperation.ALTER), {"d"}),
        (AclFilter(permission_type=DENY), set()),
        (AclFilter(host="192.0.2.7"), set()),
    ],
)
def test_a_filter_matches(wanted: AclFilter, expected: set[str]) -> None:
    index = AclIndex(
        [
            acl(AclOperation.READ, TOPIC, "orders", principal="User:a"),
            acl(AclOperation.READ, TOPIC, "ord", pattern=PREFIXED, principal="User:b"),
            acl(AclOperation.READ, TOPIC, "*", principal="User:c"),
            acl(AclOperation.ALTER, CLUSTER, principal="User:d"),
        ]
    )
    assert {rule.principal[-1] for rule in index.matching(wanted)} == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"resource_type": 1},
        {"pattern_type": PatternType.MATCH},
        {"pattern_type": 1},
        {"operation": 1},
        {"permission_type": 1},
        {"resource_name": ""},
        {"principal": "alice"},
        {"principal": ":alice"},
        {"resource_type": CLUSTER, "resource_name": "my-cluster"},
        {"resource_type": 99},
    ],
)
def test_an_invalid_rule_is_refused(changed: dict[str, object]) -> None:
    rule = acl(AclOperation.READ, TOPIC, "orders")
    check_can_be_created(rule)
    check_can_be_created(acl(AclOperation.ALTER, CLUSTER, CLUSTER_NAME))
    with pytest.raises(ValueError):
        check_can_be_created(rule._replace(**changed))

"""The decision: Kafka's rules about rules (KIP-11, KIP-290, KIP-679)."""

from __future__ import annotations

import pytest

from kmini.broker.security.acls import AclFilter, AclIndex, check_can_be_created
from kmini.broker.security.authorizer import Authorizer
from kmini.broker.security.resources import (
    CLUSTER_NAME,
    AclOperation,
    PatternType,
    PermissionType,
    Principal,
    ResourceType,
)
from support.broker.access_rules import acl

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
DENY, PREFIXED, LITERAL = PermissionType.DENY, PatternType.PREFIXED, PatternType.LITERAL


def may(*rules: object, operation: AclOperation = AclOperation.READ, name: str = "orders", **who: object) -> bool:
    index = AclIndex(rules)  # type: ignore[arg-type]
    return Authorizer(index).may(
        str(who.get("principal", "User:alice")), str(who.get("host", "192.0.2.7")), operation, TOPIC, name
    )


def test_without_a_rule_nobody_may() -> None:
    assert not may()


def test_without_a_rule_about_the_resource_everybody_may_if_the_settings_say_so() -> None:
    authorizer = Authorizer(AclIndex([acl(AclOperation.READ, TOPIC, "orders")]), allows_if_no_acl_found=True)
    assert authorizer.may("User:bob", "h", AclOperation.READ, TOPIC, "free")
    assert authorizer.may("User:bob", "h", AclOperation.READ, GROUP, "orders")
    assert not authorizer.may("User:bob", "h", AclOperation.READ, TOPIC, "orders"), "there is a rule, for somebody else"


def test_a_super_user_may_whatever_is_denied() -> None:
    index = AclIndex([acl(AclOperation.ALL, TOPIC, "*", principal="User:*", permission=DENY)])
    authorizer = Authorizer(index, super_users=[Principal.user("admin")])
    assert authorizer.may("User:admin", "h", AclOperation.READ, TOPIC, "orders")
    assert not authorizer.may("Group:admin", "h", AclOperation.READ, TOPIC, "orders"), "another type of principal"


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


@pytest.mark.parametrize("allowed_by", [("orders", LITERAL), ("*", LITERAL), ("or", PREFIXED)])
@pytest.mark.parametrize("denied_by", [("orders", LITERAL), ("*", LITERAL), ("o", PREFIXED)])
def test_deny_is_stronger_whichever_pattern_says_it(allowed_by: tuple, denied_by: tuple) -> None:
    rules = [
        acl(AclOperation.READ, TOPIC, allowed_by[0], pattern=allowed_by[1]),
        acl(AclOperation.READ, TOPIC, denied_by[0], pattern=denied_by[1], permission=DENY),
    ]
    assert not may(*rules)
    assert not may(*reversed(rules))


@pytest.mark.parametrize("principal", ["User:alice", "User:*"])
@pytest.mark.parametrize("host", ["192.0.2.7", "*"])
def test_principal_and_host_may_be_all(principal: str, host: str) -> None:
    rule = acl(AclOperation.READ, TOPIC, "orders", principal=principal, host=host)
    assert may(rule)
    assert may(rule, principal="User:bob") is (principal == "User:*")
    assert may(rule, host="192.0.2.8") is (host == "*")
    denial = acl(AclOperation.READ, TOPIC, "orders", principal=principal, host=host, permission=DENY)
    assert not may(acl(AclOperation.READ, TOPIC, "orders"), denial)


IMPLIED = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


@pytest.mark.parametrize("asked", [each for each in AclOperation if each is not AclOperation.ALL])
@pytest.mark.parametrize("given", list(AclOperation))
def test_what_an_operation_implies(asked: AclOperation, given: AclOperation) -> None:
    expected = given in (asked, AclOperation.ALL) or given in IMPLIED.get(asked, set())
    assert may(acl(given, TOPIC, "orders"), operation=asked) is expected


@pytest.mark.parametrize("asked", [each for each in AclOperation if each is not AclOperation.ALL])
@pytest.mark.parametrize("given", list(AclOperation))
def test_what_is_denied_implies_nothing(asked: AclOperation, given: AclOperation) -> None:
    allowed = acl(AclOperation.ALL, TOPIC, "orders")
    denied = acl(given, TOPIC, "orders", permission=DENY)
    assert may(allowed, denied, operation=asked) is (given not in (asked, AclOperation.ALL))


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
    ("rules", "expected"),
    [
        ([], False),
        ([("orders", LITERAL, "allow")], True),
        ([("or", PREFIXED, "allow")], True),
        ([("*", LITERAL, "allow")], True),
        ([("*", LITERAL, "deny"), ("orders", LITERAL, "allow")], False),
        ([("orders", LITERAL, "deny"), ("orders", LITERAL, "allow")], False),
        ([("orders", LITERAL, "deny"), ("others", LITERAL, "allow")], True),
        ([("o", PREFIXED, "deny"), ("orders", LITERAL, "allow")], False),
        ([("o", PREFIXED, "deny"), ("or", PREFIXED, "allow")], False),
        ([("orders", PREFIXED, "deny"), ("or", PREFIXED, "allow")], True),
        ([("orders", LITERAL, "deny"), ("orders", PREFIXED, "allow")], True),
    ],
)
def test_who_may_write_to_some_topic(rules: list[tuple[str, PatternType, str]], expected: bool) -> None:
    index = AclIndex(
        acl(AclOperation.WRITE, TOPIC, name, pattern=pattern, permission=PermissionType[kind.upper()])
        for name, pattern, kind in rules
    )
    assert Authorizer(index).may_some("User:alice", "h", AclOperation.WRITE, TOPIC) is expected


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
def test_what_a_filter_matches(wanted: AclFilter, expected: set[str]) -> None:
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
def test_a_rule_that_means_nothing_cannot_be_made(changed: dict[str, object]) -> None:
    rule = acl(AclOperation.READ, TOPIC, "orders")
    check_can_be_created(rule)
    check_can_be_created(acl(AclOperation.ALTER, CLUSTER, CLUSTER_NAME))
    with pytest.raises(ValueError):
        check_can_be_created(rule._replace(**changed))

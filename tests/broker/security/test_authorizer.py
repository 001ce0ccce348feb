"""The decision: Kafka's rules about rules (KIP-11, KIP-290, KIP-679)."""

from __future__ import annotations

import pytest

from kmini.broker.security.acls import AclIndex
from kmini.broker.security.authorizer import Authorizer
from kmini.broker.security.resources import (
    AclOperation,
    PatternType,
    PermissionType,
    Principal,
)
from support.broker.access_rules import DENY, GROUP, LITERAL, PREFIXED, TOPIC, acl, may
from support.for_each import for_each


def test_without_a_rule_operations_are_denied() -> None:
    assert not may()


def test_without_a_rule_about_the_resource_the_setting_may_allow() -> None:
    authorizer = Authorizer(AclIndex([acl(AclOperation.READ, TOPIC, "orders")]), allows_if_no_acl_found=True)
    assert authorizer.may("User:bob", "h", AclOperation.READ, TOPIC, "free")
    assert authorizer.may("User:bob", "h", AclOperation.READ, GROUP, "orders")
    assert not authorizer.may("User:bob", "h", AclOperation.READ, TOPIC, "orders"), "there is a rule, for another user"


def test_a_super_user_may_do_what_is_denied() -> None:
    index = AclIndex([acl(AclOperation.ALL, TOPIC, "*", principal="User:*", permission=DENY)])
    authorizer = Authorizer(index, super_users=[Principal.user("admin")])
    assert authorizer.may("User:admin", "h", AclOperation.READ, TOPIC, "orders")
    assert not authorizer.may("Group:admin", "h", AclOperation.READ, TOPIC, "orders"), "another type of principal"


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


@for_each("asked", [each for each in AclOperation if each is not AclOperation.ALL])
@for_each("given", list(AclOperation))
def test_what_an_operation_implies(asked: AclOperation, given: AclOperation) -> None:
    expected = given in (asked, AclOperation.ALL) or given in IMPLIED.get(asked, set())
    assert may(acl(given, TOPIC, "orders"), operation=asked) is expected


@for_each("asked", [each for each in AclOperation if each is not AclOperation.ALL])
@for_each("given", list(AclOperation))
def test_what_is_denied_implies_nothing(asked: AclOperation, given: AclOperation) -> None:
    allowed = acl(AclOperation.ALL, TOPIC, "orders")
    denied = acl(given, TOPIC, "orders", permission=DENY)
    assert may(allowed, denied, operation=asked) is (given not in (asked, AclOperation.ALL))


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
def test_writing_to_some_topic_is_allowed(rules: list[tuple[str, PatternType, str]], expected: bool) -> None:
    index = AclIndex(
        acl(AclOperation.WRITE, TOPIC, name, pattern=pattern, permission=PermissionType[kind.upper()])
        for name, pattern, kind in rules
    )
    assert Authorizer(index).may_some("User:alice", "h", AclOperation.WRITE, TOPIC) is expected

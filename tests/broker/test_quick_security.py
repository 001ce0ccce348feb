"""Security in one line: what the arguments mean in Kafka's settings, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.quick_security import QuickSecurity, parse_acl
from kmini.broker.security.resources import AclOperation, PatternType, PermissionType, ResourceType
from kmini.client.client_config import SETTINGS, TEXTS, Access
from support.for_each import for_each


@for_each(
    "arguments, protocol",
    [
        ({}, "PLAINTEXT"),
        ({"tls": "auto"}, "SSL"),
        ({"sasl": "plain"}, "SASL_PLAINTEXT"),
        ({"tls": "mutual", "sasl": "SCRAM-SHA-512"}, "SASL_SSL"),
    ],
)
def test_the_protocol_follows_from_what_is_asked_for(arguments: dict[str, Any], protocol: str) -> None:
    security = QuickSecurity(**arguments)
    assert security.protocol == protocol
    assert security.access("at").protocol == protocol


@for_each(
    "text, expected",
    [
        ("alice Write topic:orders", (ResourceType.TOPIC, PatternType.LITERAL, "orders", AclOperation.WRITE)),
        ("User:alice All Group:*", (ResourceType.GROUP, PatternType.LITERAL, "*", AclOperation.ALL)),
        ("alice DescribeConfigs topic:eu-*", (ResourceType.TOPIC, PatternType.PREFIXED, "eu-", 10)),
        ("alice Idempotent_write CLUSTER:kafka-cluster", (4, PatternType.LITERAL, "kafka-cluster", 12)),
        ("alice Write TransactionalId:a:b", (ResourceType.TRANSACTIONAL_ID, PatternType.LITERAL, "a:b", 4)),
    ],
)
def test_a_rule_is_one_of_kafkas(text: str, expected: tuple[int, int, str, int]) -> None:
    rule = parse_acl(text)
    assert (rule.resource_type, rule.pattern_type, rule.resource_name, rule.operation) == expected
    assert (rule.principal, rule.host, rule.permission_type) == ("User:alice", "*", PermissionType.ALLOW)


@for_each(
    "arguments, told",
    [
        ({"tls": "yes"}, "tls='yes': must be one of auto, mutual"),
        ({"sasl": "GSSAPI"}, "sasl='GSSAPI': must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"users": {"alice": "x"}}, "users: they need sasl"),
        ({"sasl": "PLAIN", "users": {}}, "none of them empty"),
        ({"sasl": "PLAIN", "users": {"alice": ""}}, "none of them empty"),
        ({"acls": ["alice Write topic:orders"]}, "acls: they need users"),
        ({"tls": "auto", "acls": []}, "acls: they need users"),
        ({"sasl": "PLAIN", "acls": ["alice may write orders"]}, "acls='alice may write orders': must be"),
        ({"sasl": "PLAIN", "acls": ["alice Scribble topic:orders"]}, "operations: all, read, write"),
        ({"sasl": "PLAIN", "acls": ["alice Write queue:orders"]}, "types: topic, group"),
        ({"sasl": "PLAIN", "acls": ["alice Write topic:"]}, "must be"),
        ({"sasl": "PLAIN", "acls": ["alice Alter cluster:mine"]}, "kafka-cluster"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=r"must be|need|kafka-cluster") as refused:
        QuickSecurity(**arguments)
    assert told in str(refused.value)


def test_arguments_of_a_wrong_type_are_type_errors() -> None:
    for wrong in ({"users": ["alice"]}, {"acls": "alice Write topic:orders"}):
        with pytest.raises(TypeError, match="must be a"):
            QuickSecurity(sasl="PLAIN", **wrong)


def test_a_user_that_does_not_exist_is_refused() -> None:
    security = QuickSecurity(sasl="PLAIN", users={"alice": "x", "bob": "y"})
    with pytest.raises(ValueError, match="user='carol': must be one of alice, bob"):
        security.access("at", "carol")


def test_a_drawn_password_is_another_one_each_time() -> None:
    one, two = (QuickSecurity(sasl="PLAIN").access("at").password for _ in range(2))
    assert len(one) > 16
    assert one != two


@for_each("kind", [*SETTINGS, *TEXTS])
def test_the_settings_of_each_client_have_all_that_it_needs(kind: str) -> None:
    access = Access("h1:1,h2:2", "SASL_SSL", "", "", "SCRAM-SHA-512", "alice", 'a "quoted" one')
    said = str((SETTINGS | TEXTS)[kind](access))
    for part in ("h1:1", "h2:2", "alice", "quoted"):
        assert part in said
    assert "quoted" not in repr(access)

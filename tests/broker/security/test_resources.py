"""Principals, resources and operations: Kafka's numbers, and the sets of operations that clients are told."""

from __future__ import annotations

import pytest

from kmini.broker.security.resources import (
    ANONYMOUS,
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
    AclOperation,
    Principal,
    operation_bits,
)


def test_operations_have_kafkas_numbers() -> None:
    """org.apache.kafka.common.acl.AclOperation, without UNKNOWN and ANY."""
    names = "ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
    all_names = [*names.split(), "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"]
    assert {operation.name: operation.value for operation in AclOperation} == {
        name: number for number, name in enumerate(all_names, 2)
    }


@pytest.mark.parametrize(
    ("told", "bits"), [(TOPIC_OPERATIONS, 3576), (GROUP_OPERATIONS, 3400), (CLUSTER_OPERATIONS, 8096)]
)
def test_clients_are_told_the_operations_of_a_resource_as_bits(told: int, bits: int) -> None:
    assert told == bits


def test_a_set_of_operations_has_a_bit_for_each() -> None:
    assert operation_bits() == 0
    assert operation_bits(AclOperation.READ, AclOperation.WRITE) == 0b11000


def test_a_principal_is_written_as_it_is_read() -> None:
    assert Principal.parse("User:CN=alice:x") == Principal("User", "CN=alice:x")
    assert str(Principal.parse("User:alice")) == "User:alice"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["alice", ":alice", ""])
def test_a_principal_without_a_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Type:name was expected"):
        Principal.parse(text)

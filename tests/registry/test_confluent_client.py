"""confluent-kafka's SchemaRegistryClient against the registry: every call of it that is about REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.common.schema_registry_client import ConfigCompatibilityLevel
from confluent_kafka.schema_registry.error import SchemaRegistryError

from support.registry_api import RegistryApi

A = json.dumps({"fields": ["a"]})
B = json.dumps({"fields": ["a", "b"]})
NEEDS_B = json.dumps({"fields": ["a", "b"], "needs": ["b"]})


@pytest.fixture
def client(api: RegistryApi) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": api.url}) as client:
        yield client


def test_it_registers_and_finds_schemas(client: SchemaRegistryClient) -> None:
    assert client.register_schema("a/b value", Schema(A)) == 1
    full = client.register_schema_full_response("a/b value", Schema(B))
    assert (full.schema_id, full.version) == (2, 2)
    assert client.get_schema(1).schema_str == '{"fields":["a"]}'
    assert client.get_schema_by_guid(full.guid).schema_str == '{"fields":["a","b"]}'
    assert client.lookup_schema("a/b value", Schema(B)).version == 2
    assert client.get_latest_version("a/b value").schema_id == 2
    assert client.get_version("a/b value", 1).schema_id == 1
    assert client.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert client.get_subjects(subject_prefix="a") == ["a/b value"]
    assert client.get_subjects_by_schema_id(1) == ["a/b value"]
    (where,) = client.get_schema_versions(2)
    assert (where.subject, where.version) == ("a/b value", 2)


def test_it_deletes_softly_and_for_good(client: SchemaRegistryClient) -> None:
    client.register_schema("s", Schema(A))
    client.register_schema("s", Schema(B))
    assert client.delete_version("s", 1) == 1
    assert (client.get_versions("s"), client.get_versions("s", deleted=True)) == ([2], [1, 2])
    assert client.delete_subject("s") == [2]
    assert client.delete_subject("s", permanent=True) == [1, 2]
    assert client.get_subjects(deleted=True) == []


def test_it_asks_for_compatibility_and_sets_levels(client: SchemaRegistryClient) -> None:
    client.register_schema("s", Schema(A))
    assert client.get_compatibility() == "BACKWARD"
    assert not client.test_compatibility("s", Schema(NEEDS_B))
    assert not client.test_compatibility_all_versions("s", Schema(NEEDS_B))
    client.set_compatibility("s", "NONE")
    assert client.get_compatibility("s") == "NONE"
    assert client.test_compatibility("s", Schema(NEEDS_B))
    full = ConfigCompatibilityLevel.FULL
    client.set_config("s", ServerConfig(compatibility=full, compatibility_group="major"))
    config = client.get_config("s")
    assert (config.compatibility_level, config.compatibility_group) == (full, "major")
    assert client.delete_config("s").compatibility_level == full


def test_it_sets_modes(client: SchemaRegistryClient) -> None:
    assert client.get_global_mode() == "READWRITE"
    client.update_mode("s", "READONLY")
    assert client.get_mode("s") == "READONLY"
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("s", Schema(A))
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42205)
    client.update_global_mode("READONLY")
    assert client.get_global_mode() == "READONLY"
    assert client.get_contexts() == ["."]


def test_it_keeps_references_metadata_and_rules(client: SchemaRegistryClient) -> None:
    client.register_schema("base", Schema(A))
    rule = Rule("check", "", RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None, "true", None, None, False)
    schema = Schema(
        json.dumps({"refers": ["a"]}),
        "JSON",
        [SchemaReference("a", "base", 1)],
        Metadata(None, MetadataProperties({"owner": "me"}), None),
        RuleSet(None, [rule]),
    )
    number = client.register_schema("s", schema)
    stored = client.get_schema(number)
    assert (stored.schema_type, stored.references) == ("JSON", [SchemaReference("a", "base", 1)])
    assert stored.metadata.properties.properties == {"owner": "me"}
    assert [one.name for one in stored.rule_set.domain_rules] == ["check"]
    assert client.get_referenced_by("base", 1) == [number]
    assert client.get_latest_with_metadata("s", {"owner": "me"}).schema_id == number


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        (lambda client: client.get_version("none", 1), 404, 40401),
        (lambda client: client.get_version("s", 9), 404, 40402),
        (lambda client: client.get_schema(9), 404, 40403),
        (lambda client: client.lookup_schema("s", Schema(B)), 404, 40403),
        (lambda client: client.register_schema("s", Schema(NEEDS_B)), 409, 40901),
        (lambda client: client.register_schema("s", Schema("{")), 422, 42201),
        (lambda client: client.set_compatibility("s", "WRONG"), 422, 42203),
        (lambda client: client.delete_subject("s", permanent=True), 404, 40405),
        (lambda client: client.delete_version("s", 1, permanent=True), 404, 40407),
    ],
)
def test_it_tells_errors_by_status_and_code(client: SchemaRegistryClient, call: Any, status: int, code: int) -> None:
    client.register_schema("s", Schema(A))
    with pytest.raises(SchemaRegistryError) as told:
        call(client)
    assert (told.value.http_status_code, told.value.error_code) == (status, code)


def test_it_finds_no_associations(client: SchemaRegistryClient) -> None:
    assert client.get_associations_by_resource_name("orders", "-") == []

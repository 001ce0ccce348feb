"""Registering schemas, looking them up, the levels of `kmini.registry.compatibility`, references: over HTTP, with a
tiny format.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.registry_api import RegistryApi

A = {"fields": ["a"]}
AB = {"fields": ["a", "b"]}
NEEDS_A = {"fields": ["a"], "needs": ["a"]}
NEEDS_B = {"fields": ["a", "b"], "needs": ["b"]}


def test_one_schema_has_one_id_in_all_subjects_and_spellings(api: RegistryApi) -> None:
    assert api.registered("s", A, AB, A) == [1, 2, 1]
    assert api.registered("t", AB, A) == [2, 1]
    spaced = api.post("/subjects/u/versions", {"schema": '{ "fields" : ["a"] }'})
    assert spaced.document["id"] == 1
    assert api.get("/subjects/s/versions").document == [1, 2]
    assert api.get("/schemas/ids/1/subjects").document == ["s", "t", "u"]


def test_an_answer_to_a_registration_has_the_schema_and_its_version(api: RegistryApi) -> None:
    reply = api.register("s", A, schemaType="JSON")
    assert reply.document == {
        "id": 1,
        "version": 1,
        "guid": str(uuid.UUID(bytes=hashlib.md5(b'{"fields":["a"]}').digest())),
        "schemaType": "JSON",
        "schema": '{"fields":["a"]}',
    }


def test_many_registrations_of_one_schema_at_once_give_one_id_and_one_version(api: RegistryApi) -> None:
    with ThreadPoolExecutor(16) as pool:
        ids = [*pool.map(lambda number: api.registered(f"s{number % 3}", A)[0], range(48))]
    assert set(ids) == {1}
    assert [api.get(f"/subjects/s{number}/versions").document for number in range(3)] == [[1]] * 3
    assert len(api.records()) == 3


def test_many_registrations_of_other_schemas_at_once_give_other_ids(api: RegistryApi) -> None:
    with ThreadPoolExecutor(16) as pool:
        ids = [*pool.map(lambda number: api.registered("s", {"fields": [str(number)]})[0], range(32))]
    assert sorted(ids) == [*range(1, 33)]
    assert api.get("/subjects/s/versions").document == [*range(1, 33)]


@pytest.mark.parametrize("schema", [None, "", "  "])
def test_an_empty_schema_is_42201_in_a_new_subject(api: RegistryApi, schema: str | None) -> None:
    reply = api.post("/subjects/s/versions", {"schema": schema})
    assert (reply.status, reply.document) == (422, {"error_code": 42201, "message": "Empty schema"})


@pytest.mark.parametrize(
    ("schema", "kind", "says"),
    [
        ("{", "AVRO", "Invalid schema of type AVRO, details: it is no JSON"),
        ("[]", "JSON", "Invalid schema of type JSON, details: an object was expected"),
        ("{}", "XML", "Invalid schema type XML; there are AVRO, JSON, PROTOBUF"),
    ],
)
def test_a_text_that_is_no_schema_is_42201(api: RegistryApi, schema: str, kind: str, says: str) -> None:
    for path in ("/subjects/s/versions", "/subjects/s", "/compatibility/subjects/s/versions"):
        reply = api.post(path, {"schema": schema, "schemaType": kind})
        assert (reply.status, reply.error_code) == (422, 42201)
        assert reply.message.startswith(says)


def test_a_schema_that_is_too_large_for_the_topic_is_42209(api: RegistryApi) -> None:
    reply = api.register("s", {"fields": ["x" * 2_000_000]})
    assert (reply.status, reply.error_code) == (422, 42209)
    assert reply.message.startswith("Register operation failed because schema is too large")
    assert api.get("/subjects").document == []


def test_an_explicit_version_must_be_the_next_one(api: RegistryApi) -> None:
    assert api.registered("s", A, version=1) == [1]
    wrong = api.register("s", AB, version=7)
    assert (wrong.status, wrong.error_code) == (422, 42201)
    assert wrong.message.startswith("Version is not one more than previous version")
    assert api.registered("s", AB, version=-1) == [2]
    stored = api.get("/subjects/s/versions/latest").document
    assert (stored["version"], stored["metadata"]) == (2, {"properties": {"confluent:version": "2"}})


# --- looking up


def test_a_lookup_finds_the_version_of_a_schema_in_its_subject_alone(api: RegistryApi) -> None:
    api.registered("s", A, AB)
    api.registered("t", AB)
    found = api.post("/subjects/s", {"schema": json.dumps(AB)})
    assert (found.status, found.document["version"], found.document["id"]) == (200, 2, 2)
    missing = api.post("/subjects/t", {"schema": json.dumps(A)})
    assert (missing.status, missing.document) == (404, {"error_code": 40403, "message": "Schema not found"})


def test_a_lookup_finds_a_soft_deleted_version_if_it_is_asked_to(api: RegistryApi) -> None:
    api.registered("s", A, AB)
    api.delete("/subjects/s/versions/1")
    assert api.post("/subjects/s", {"schema": json.dumps(A)}).error_code == 40403
    assert api.post("/subjects/s?deleted=true", {"schema": json.dumps(A)}).document["version"] == 1


def test_normalizing_puts_schemas_into_one_order(api: RegistryApi) -> None:
    first, second = {"fields": ["b", "a"]}, {"fields": ["a", "b"]}
    assert api.registered("s", first) == [1]
    normalized = api.post("/subjects/s/versions?normalize=true", {"schema": json.dumps(first)})
    assert normalized.document["id"] == 2
    assert api.registered("s", second) == [2]
    assert api.post("/subjects/s?normalize=true", {"schema": json.dumps(first)}).document["version"] == 2
    api.put("/config/t", {"normalize": True})
    assert api.registered("t", first) == [2]


# --- levels

READS = {"BACKWARD": (True, False), "FORWARD": (False, True), "FULL": (True, True), "NONE": (False, False)}


@pytest.mark.parametrize("level", READS)
def test_a_level_compares_with_the_last_version_in_its_directions(api: RegistryApi, level: str) -> None:
    reads_older, read_by_older = READS[level]
    api.put("/config", {"compatibility": level})
    for subject, older, newer, is_refused in (
        ("reader", A, NEEDS_B, reads_older),
        ("writer", NEEDS_A, {"fields": []}, read_by_older),
        ("both", A, AB, False),
    ):
        api.registered(subject, older)
        reply = api.register(subject, newer)
        assert (reply.status, reply.document.get("error_code")) == ((409, 40901) if is_refused else (200, None))


@pytest.mark.parametrize("level", ["BACKWARD", "FORWARD", "FULL"])
def test_a_transitive_level_compares_with_all_versions(api: RegistryApi, level: str) -> None:
    older, newer = ([A], NEEDS_B) if level != "FORWARD" else ([NEEDS_A], {"fields": []})
    for suffix, status in (("", 200), ("_TRANSITIVE", 409)):
        subject = f"s{suffix}"
        api.put(f"/config/{subject}", {"compatibility": "NONE"})
        api.registered(subject, *older, {"fields": ["b"]})
        api.put(f"/config/{subject}", {"compatibility": f"{level}{suffix}"})
        assert api.register(subject, newer).status == status


def test_an_incompatible_schema_is_told_with_the_reason_and_the_version(api: RegistryApi) -> None:
    api.registered("s", A)
    reply = api.register("s", NEEDS_B)
    assert reply.message == (
        'Schema being registered is incompatible with an earlier schema for subject "s", details: '
        "[{errorType:'FIELD_MISSING', description:'The field 'b' is missing at /fields/b'}, {oldSchemaVersion: 1}, "
        "{oldSchema: '{\"fields\":[\"a\"]}'}, {validateFields: 'false', compatibility: 'BACKWARD'}]"
    )
    assert api.get("/subjects/s/versions").document == [1]


def test_of_two_versions_that_a_schema_is_incompatible_with_the_later_one_is_told(api: RegistryApi) -> None:
    api.put("/config/s", {"compatibility": "NONE"})
    api.registered("s", A, {"fields": ["c"]})
    api.put("/config/s", {"compatibility": "BACKWARD_TRANSITIVE"})
    assert "{oldSchemaVersion: 2}" in api.register("s", NEEDS_B).message


def test_a_schema_of_another_type_is_incompatible_unless_the_level_is_none(api: RegistryApi) -> None:
    api.registered("s", A)
    reply = api.register("s", A, schemaType="JSON")
    assert (reply.status, "different schema type" in reply.message) == (409, True)
    api.put("/config/s", {"compatibility": "NONE"})
    assert api.registered("s", A, schemaType="JSON") == [2]


def test_a_comparison_that_cannot_be_judged_is_refused_and_level_none_registers(api: RegistryApi) -> None:
    strange = {"strange": []}
    assert api.registered("s", strange) == [1]  # a first version is compared with nothing
    for path in ("/subjects/s/versions", "/compatibility/subjects/s/versions"):
        reply = api.post(path, {"schema": json.dumps(A)})
        assert (reply.status, reply.error_code) == (422, 42205)
        assert reply.message.endswith("cannot be judged: 'strange' cannot be judged; level NONE registers it")
    api.put("/config/s", {"compatibility": "NONE"})
    assert api.registered("s", A) == [2]


def test_a_soft_deleted_version_is_compared_with_no_more(api: RegistryApi) -> None:
    api.registered("s", A)
    api.delete("/subjects/s/versions/1")
    assert api.registered("s", NEEDS_B) == [2]


def test_only_versions_of_one_compatibility_group_are_compared(api: RegistryApi) -> None:
    api.put("/config/s", {"compatibilityGroup": "major"})
    api.registered("s", A, metadata={"properties": {"major": "1"}})
    assert api.registered("s", NEEDS_B, metadata={"properties": {"major": "2"}}) == [2]
    assert api.register("s", NEEDS_B, metadata={"properties": {"major": "1"}}).error_code == 40901


def test_compatibility_is_told_without_registering(api: RegistryApi) -> None:
    api.registered("s", A, AB)
    needs = {"schema": json.dumps(NEEDS_B)}
    check = "/compatibility/subjects/s/versions"
    assert api.post(check, needs).document == {"is_compatible": True}  # BACKWARD: the last version
    assert api.post(f"{check}/latest", needs).document == {"is_compatible": True}
    assert api.post(f"{check}/1", needs).document == {"is_compatible": False}
    verbose = api.post(f"{check}/1?verbose=true", needs).document
    assert verbose["is_compatible"] is False
    assert verbose["messages"][0].startswith("{errorType:'FIELD_MISSING'")
    assert api.post(f"{check}?verbose=true", needs).document == {"is_compatible": True, "messages": []}
    assert api.post("/compatibility/subjects/new/versions", needs).document == {"is_compatible": True}
    assert api.post("/compatibility/subjects/new/versions/latest", needs).document == {"is_compatible": True}
    assert api.get("/subjects/s/versions").document == [1, 2]


# --- references

TO_BASE = [{"name": "a", "subject": "base", "version": 1}]


def test_a_reference_is_resolved_and_answered(api: RegistryApi) -> None:
    api.registered("base", A)
    assert api.registered("s", {"refers": ["a"]}, references=TO_BASE) == [2]
    assert api.get("/schemas/ids/2").document["references"] == TO_BASE
    assert api.get("/subjects/base/versions/1/referencedby").document == [2]
    latest = [{"name": "a", "subject": "base", "version": -1}]
    assert api.registered("s", {"refers": ["a"]}, references=latest) == [2]


def test_references_of_references_are_resolved(api: RegistryApi) -> None:
    api.registered("base", A)
    api.registered("middle", {"refers": ["a"]}, references=TO_BASE)
    to_middle = [{"name": "m", "subject": "middle", "version": 1}]
    assert api.registered("top", {"refers": ["m"]}, references=to_middle) == [3]
    api.delete("/subjects/middle")  # refused: top refers to it
    assert api.get("/subjects").document == ["base", "middle", "top"]


def test_a_reference_to_what_is_not_registered_is_42201(api: RegistryApi) -> None:
    api.registered("base", A)
    for version in (2, 1):
        subject = "base" if version == 2 else "none"
        references = [{"name": "a", "subject": subject, "version": version}]
        reply = api.register("s", {"refers": ["a"]}, references=references)
        assert (reply.status, reply.error_code) == (422, 42201)
        assert f'No schema reference found for subject "{subject}" and version {version}' in reply.message


def test_one_text_with_other_references_is_another_schema(api: RegistryApi) -> None:
    api.registered("base", A)
    api.registered("other", AB)
    api.registered("s", {"refers": ["a"]}, references=TO_BASE)
    other = [{"name": "a", "subject": "other", "version": 1}]
    assert api.registered("t", {"refers": ["a"]}, references=other) == [4]


def test_a_lookup_finds_a_schema_that_has_its_references_written_into_it(api: RegistryApi) -> None:
    api.registered("base", A)
    api.registered("s", {"refers": ["a"]}, references=TO_BASE)
    whole = {"refers": ["a"], "with": ['{"fields":["a"]}']}
    found = api.post("/subjects/s", {"schema": json.dumps({**whole, "refers": []})})
    assert found.error_code == 40403
    api.control.run(_written(api))
    assert api.post("/subjects/t", {"schema": json.dumps({"with": ['{"fields":["a"]}']})}).document["version"] == 1


async def _written(api: RegistryApi) -> None:
    """Store a schema with a reference that its text does not name."""
    value = {"subject": "t", "version": 1, "id": 9, "references": TO_BASE, "schema": "{}", "deleted": False}
    key = b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}'
    await api.control.managed.operations.produce("_schemas", json.dumps(value).encode(), key=key)


# --- metadata and rules

METADATA = {"tags": {"t": ["PII"]}, "properties": {"owner": "me"}, "sensitive": ["s"]}
RULES = {"domainRules": [{"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}


def test_metadata_and_rules_are_stored_answered_and_part_of_the_schema(api: RegistryApi) -> None:
    assert api.registered("s", A) == [1]
    assert api.registered("s", A, metadata=METADATA, ruleSet=RULES) == [2]
    stored = api.get("/schemas/ids/2").document
    rule = {**RULES["domainRules"][0], "disabled": False}
    assert (stored["metadata"], stored["ruleSet"]) == (METADATA, {"domainRules": [rule]})
    assert api.registered("s", AB) == [3]  # without some of its own it takes those of the last version
    assert api.get("/schemas/ids/3").document["metadata"] == METADATA
    found = api.get("/subjects/s/metadata?key=owner&value=me").document
    assert (found["version"], found["id"]) == (3, 3)
    assert api.get("/subjects/s/metadata?key=owner&value=you").error_code == 40403


def test_settings_give_defaults_and_overrides_of_metadata(api: RegistryApi) -> None:
    default, override = {"properties": {"owner": "all", "a": "1"}}, {"properties": {"a": "2"}}
    api.put("/config", {"defaultMetadata": default, "overrideMetadata": override})
    assert api.registered("s", A, metadata={"properties": {"owner": "me"}}) == [1]
    assert api.get("/schemas/ids/1").document["metadata"] == {"properties": {"a": "2", "owner": "me"}}
    api.put("/config", {"overrideMetadata": {"properties": {"a": "3"}}})
    assert api.registered("s", A, metadata={"properties": {"owner": "me"}}) == [2]  # what is added has changed
    assert api.registered("s", A, metadata={"properties": {"owner": "me"}}) == [2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": {"type": "string"}},
        {"schema": "{}", "schemaType": 1},
        {"schema": "{}", "references": {}},
        {"schema": "{}", "references": [{"name": "a"}]},
        {"schema": "{}", "references": [{"name": "a", "subject": "s", "version": True}]},
        {"schema": "{}", "metadata": []},
        {"schema": "{}", "metadata": {"tags": ["a"]}},
        {"schema": "{}", "metadata": {"tags": {"a": "b"}}},
        {"schema": "{}", "metadata": {"properties": {"a": {}}}},
        {"schema": "{}", "ruleSet": {"domainRules": [1]}},
        {"schema": "{}", "id": "1"},
        {"schema": "{}", "version": 2**31},
    ],
)
def test_a_field_of_another_type_is_400_and_unknown_ones_are_taken(api: RegistryApi, wrong: dict[str, object]) -> None:
    reply = api.post("/subjects/s/versions", wrong)
    assert (reply.status, reply.error_code) == (400, 400)
    assert api.registered("s", A, propagateSchemaTags=False, schemaTagsToAdd=None, new={"a": [1]}) == [1]

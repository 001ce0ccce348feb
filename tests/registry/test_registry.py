"""What can be done to a registry: deleting softly and for good, levels, modes, each over HTTP."""

from __future__ import annotations

import pytest

from support.registry_api import RegistryApi

A = {"fields": ["a"]}
B = {"fields": ["a", "b"]}


def test_a_subject_that_is_not_registered_is_40401(api: RegistryApi) -> None:
    for reply in (
        api.get("/subjects/none/versions"),
        api.get("/subjects/none/versions/1"),
        api.get("/subjects/none/versions/latest"),
        api.get("/subjects/none/versions/1/referencedby"),
        api.get("/subjects/none/metadata?key=a&value=b"),
        api.post("/subjects/none", {"schema": "{}"}),
        api.delete("/subjects/none"),
        api.delete("/subjects/none/versions/1"),
        api.delete("/config/none"),
        api.delete("/mode/none"),
        api.post("/compatibility/subjects/none/versions/1", {"schema": "{}"}),
    ):
        assert (reply.status, reply.document) == (
            404,
            {"error_code": 40401, "message": "Subject 'none' not found."},
        )


def test_a_version_that_is_not_registered_is_40402(api: RegistryApi) -> None:
    api.registered("s", A)
    for reply in (
        api.get("/subjects/s/versions/2"),
        api.delete("/subjects/s/versions/2"),
        api.post("/compatibility/subjects/s/versions/2", {"schema": "{}"}),
    ):
        assert (reply.status, reply.document) == (404, {"error_code": 40402, "message": "Version 2 not found."})


def test_a_soft_deleted_version_is_hidden_and_its_id_is_answered(api: RegistryApi) -> None:
    api.registered("s", A, B)
    assert (api.delete("/subjects/s/versions/1").document, api.get("/subjects/s/versions").document) == (1, [2])
    assert api.get("/subjects/s/versions?deleted=true").document == [1, 2]
    assert api.get("/subjects/s/versions?deletedOnly=true").document == [1]
    assert api.get("/subjects/s/versions/1").error_code == 40402
    assert api.get("/subjects/s/versions/1?deleted=true").document["deleted"] is True
    assert api.get("/schemas/ids/1").document["schema"] == '{"fields":["a"]}'
    assert api.get("/schemas/ids/1/versions").document == []
    assert api.get("/schemas/ids/1/versions?deleted=true").document == [{"subject": "s", "version": 1}]


def test_a_version_is_deleted_softly_first_and_only_once(api: RegistryApi) -> None:
    api.registered("s", A, B)
    early = api.delete("/subjects/s/versions/1?permanent=true")
    assert (early.status, early.error_code, early.message) == (
        404,
        40407,
        "Subject 's' Version 1 was not deleted first before being permanently deleted",
    )
    assert api.delete("/subjects/s/versions/1").document == 1
    again = api.delete("/subjects/s/versions/1")
    assert (again.status, again.error_code, again.message) == (
        404,
        40406,
        "Subject 's' Version 1 was soft deleted.Set permanent=true to delete permanently",
    )
    assert api.delete("/subjects/s/versions/1?permanent=true").document == 1
    assert api.get("/subjects/s/versions?deleted=true").document == [2]
    assert api.get("/schemas/ids/1").error_code == 40403


def test_the_latest_version_is_deleted_by_name(api: RegistryApi) -> None:
    api.registered("s", A, B)
    assert api.delete("/subjects/s/versions/latest").document == 2
    assert api.delete("/subjects/s/versions/-1").document == 1
    assert api.delete("/subjects/s/versions/latest").error_code == 40402


def test_a_subject_is_deleted_softly_first_and_only_once(api: RegistryApi) -> None:
    api.registered("s", A, B)
    early = api.delete("/subjects/s?permanent=true")
    assert (early.status, early.error_code, early.message) == (
        404,
        40405,
        "Subject 's' was not deleted first before being permanently deleted",
    )
    assert (api.delete("/subjects/s").document, api.get("/subjects").document) == ([1, 2], [])
    assert api.get("/subjects?deleted=true").document == ["s"]
    assert api.get("/subjects?deletedOnly=true").document == ["s"]
    again = api.delete("/subjects/s")
    assert (again.status, again.error_code, again.message) == (
        404,
        40404,
        "Subject 's' was soft deleted.Set permanent=true to delete permanently",
    )
    assert api.delete("/subjects/s?permanent=true").document == [1, 2]
    assert api.get("/subjects?deleted=true").document == []


def test_the_id_of_a_deleted_schema_is_never_given_again(api: RegistryApi) -> None:
    api.registered("s", A)
    api.delete("/subjects/s")
    assert api.registered("t", B) == [2]
    api.delete("/subjects/s?permanent=true")
    assert api.registered("s", A) == [3]


def test_a_soft_deleted_schema_that_is_registered_again_gets_its_id_and_a_new_version(api: RegistryApi) -> None:
    api.registered("s", A)
    api.delete("/subjects/s")
    assert api.registered("s", A) == [1]
    assert api.get("/subjects/s/versions").document == [2]
    assert api.get("/subjects/s/versions?deleted=true").document == [2]


def test_deleting_a_subject_removes_its_level_and_its_mode(api: RegistryApi) -> None:
    api.registered("s", A)
    api.put("/config/s", {"compatibility": "FULL"})
    api.put("/mode/s", {"mode": "READWRITE"})
    api.delete("/subjects/s")
    assert (api.get("/config/s").error_code, api.get("/mode/s").error_code) == (40408, 40409)


def test_deleting_the_last_version_removes_the_level_and_the_mode_of_its_subject(api: RegistryApi) -> None:
    api.registered("s", A, B)
    api.put("/config/s", {"compatibility": "FULL"})
    api.delete("/subjects/s/versions/1")
    assert api.get("/config/s").document == {"compatibilityLevel": "FULL"}
    api.delete("/subjects/s/versions/2")
    assert api.get("/config/s").error_code == 40408


def test_a_version_that_another_schema_refers_to_is_not_deleted(api: RegistryApi) -> None:
    api.registered("base", A)
    refers = {"references": [{"name": "a", "subject": "base", "version": 1}]}
    assert api.register("s", {"refers": ["a"]}, **refers).status == 200
    for path in ("/subjects/base", "/subjects/base/versions/1"):
        reply = api.delete(path)
        assert (reply.status, reply.error_code, reply.message) == (
            422,
            42206,
            "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=base,version=1}.",
        )
    api.delete("/subjects/s")
    assert api.delete("/subjects/base").document == [1]


# --- levels


def test_the_level_is_backward_until_one_is_set(api: RegistryApi) -> None:
    assert api.get("/config").document == {"compatibilityLevel": "BACKWARD"}
    assert api.put("/config", {"compatibility": "full_transitive"}).document == {"compatibility": "FULL_TRANSITIVE"}
    assert api.get("/config").document == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert api.delete("/config").document == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert api.get("/config").document == {"compatibilityLevel": "BACKWARD"}


def test_a_subject_has_a_level_of_its_own(api: RegistryApi) -> None:
    missing = api.get("/config/s")
    assert (missing.status, missing.error_code, missing.message) == (
        404,
        40408,
        "Subject 's' does not have subject-level compatibility configured",
    )
    assert api.get("/config/s?defaultToGlobal=true").document == {"compatibilityLevel": "BACKWARD"}
    assert api.put("/config/s", {"compatibility": "NONE"}).document == {"compatibility": "NONE"}
    assert api.get("/config/s").document == {"compatibilityLevel": "NONE"}
    assert api.delete("/config/s").document == {"compatibilityLevel": "NONE"}
    assert api.get("/config/s").error_code == 40408


@pytest.mark.parametrize("level", ["sideways", 7, ["FULL"]])
def test_a_level_that_there_is_not_is_42203(api: RegistryApi, level: object) -> None:
    for path in ("/config", "/config/s"):
        reply = api.put(path, {"compatibility": level})
        assert (reply.status, reply.error_code) == (422, 42203)
        assert reply.message.startswith("Invalid compatibility level. Valid values are none, backward, forward")


def test_settings_keep_what_a_request_does_not_name(api: RegistryApi) -> None:
    api.put("/config/s", {"compatibility": "FULL", "normalize": True, "compatibilityGroup": "major"})
    api.put("/config/s", {"compatibility": "NONE", "normalize": None})
    assert api.get("/config/s").document == {"compatibilityLevel": "NONE", "compatibilityGroup": "major"}


# --- modes


def test_the_mode_is_readwrite_until_one_is_set(api: RegistryApi) -> None:
    assert api.get("/mode").document == {"mode": "READWRITE"}
    assert api.put("/mode", {"mode": "readonly"}).document == {"mode": "READONLY"}
    assert api.get("/mode").document == {"mode": "READONLY"}
    assert api.delete("/mode").document == {"mode": "READONLY"}
    assert api.get("/mode").document == {"mode": "READWRITE"}


def test_a_subject_has_a_mode_of_its_own(api: RegistryApi) -> None:
    missing = api.get("/mode/s")
    assert (missing.status, missing.error_code, missing.message) == (
        404,
        40409,
        "Subject 's' does not have subject-level mode configured",
    )
    assert api.get("/mode/s?defaultToGlobal=true").document == {"mode": "READWRITE"}
    assert api.put("/mode/s", {"mode": "READONLY"}).document == {"mode": "READONLY"}
    assert api.delete("/mode/s").document == {"mode": "READONLY"}


@pytest.mark.parametrize("mode", ["SOMETIMES", None, 1])
def test_a_mode_that_there_is_not_is_42204(api: RegistryApi, mode: object) -> None:
    reply = api.put("/mode/s", {"mode": mode})
    assert (reply.status, reply.error_code) == (422, 42204)
    assert reply.message.startswith("Invalid mode. Valid values are READWRITE, READONLY")


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_a_registry_that_is_read_only_changes_nothing_but_its_mode(api: RegistryApi, mode: str) -> None:
    api.registered("s", A)
    api.put("/mode", {"mode": mode})
    for reply in (
        api.register("s", B),
        api.delete("/subjects/s"),
        api.delete("/subjects/s/versions/1"),
        api.put("/config/s", {"compatibility": "NONE"}),
    ):
        assert (reply.status, reply.document) == (
            422,
            {"error_code": 42205, "message": "Subject s is in read-only mode"},
        )
    assert api.put("/config", {"compatibility": "NONE"}).message == "The registry is in read-only mode"
    assert api.registered("s", A) == [1]  # it is registered already
    assert api.put("/mode", {"mode": "READWRITE"}).status == 200
    assert api.registered("s", B) == [2]


def test_a_subject_may_be_written_in_a_read_only_registry_unless_that_overrides(api: RegistryApi) -> None:
    api.put("/mode", {"mode": "READONLY"})
    api.put("/mode/s", {"mode": "READWRITE"})
    assert api.registered("s", A) == [1]
    api.put("/mode", {"mode": "READONLY_OVERRIDE"})
    assert api.register("s", B).error_code == 42205
    assert api.get("/mode/s").document == {"mode": "READONLY_OVERRIDE"}


def test_an_import_gives_ids_and_versions(api: RegistryApi) -> None:
    refused = api.register("s", A, id=42, version=5)
    assert (refused.status, refused.document["message"]) == (422, "Subject s is not in import mode")
    assert api.put("/mode/s", {"mode": "IMPORT"}).status == 200
    without_id = api.register("s", A)
    assert (without_id.error_code, without_id.message) == (42205, "Subject s is not in read-write mode")
    assert api.registered("s", A, id=42, version=5) == [42]
    assert api.registered("s", {"needs": ["other"]}, id=7, version=2) == [7]  # compatibility does not matter
    assert api.get("/subjects/s/versions").document == [2, 5]
    taken = api.register("s", B, id=42, version=6)
    assert (taken.error_code, taken.message) == (42205, "Overwrite new schema with id 42 is not permitted.")
    api.put("/mode/s", {"mode": "READWRITE"})
    assert api.registered("t", B) == [43]


def test_an_import_may_give_a_schema_another_id_than_it_has_elsewhere(api: RegistryApi) -> None:
    """As today's server of Confluent's does; up to 5.5 it answered 42207."""
    api.registered("s", A)
    api.put("/mode/t", {"mode": "IMPORT"})
    assert api.registered("t", A, id=9, version=1) == [9]
    assert api.get("/subjects/t/versions/1").document["id"] == 9
    assert [api.get(f"/schemas/ids/{number}").document["schema"] for number in (1, 9)] == ['{"fields":["a"]}'] * 2
    assert api.registered("u", A) == [1]


def test_an_import_begins_with_an_empty_subject_unless_it_is_forced(api: RegistryApi) -> None:
    api.registered("s", A)
    for path in ("/mode/s", "/mode"):
        reply = api.put(path, {"mode": "IMPORT"})
        assert (reply.error_code, reply.message) == (42205, "Cannot import since found existing subjects")
    assert api.put("/mode/s?force=true", {"mode": "IMPORT"}).status == 200
    api.put("/mode/s", {"mode": "READWRITE"})
    api.delete("/subjects/s")
    assert api.put("/mode/s", {"mode": "IMPORT"}).status == 200
    assert api.get("/subjects?deleted=true").document == []

"""The registry over HTTP (`kmini.web.http_serving`): paths, types of content, `kmini.registry.registry_errors`, and
input that means harm.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from kmini.registry.registry_server import MAX_BODY_BYTES, ROUTES, media_type
from support.registry_api import V1_JSON, RegistryApi

A = {"fields": ["a"]}
B = {"fields": ["a", "b"]}


def test_every_path_answers_json_of_the_registrys_type(api: RegistryApi) -> None:
    api.registered("s", A)
    guid = api.get("/schemas/ids/1").document["guid"]
    names = {"{subject}": "s", "{version}": "1", "{id}": "1", "{guid}": guid, "{about:.*}": "/resources/-/t"}
    for route in ROUTES:
        path = route.path
        for name, value in names.items():
            path = path.replace(name, value)
        body = None if route.verb in ("GET", "DELETE") else b'{"schema": "{}", "mode": "READWRITE"}'
        reply = api.send(route.verb, path, body, {"Content-Type": V1_JSON} if body else {})
        assert reply.headers["Content-Type"] == V1_JSON
        assert reply.status in (200, 404, 422), (route, reply)
        reply.document  # noqa: B018 (it is JSON)


def test_what_is_read_may_be_asked_for_by_head(api: RegistryApi) -> None:
    reply = api.send("HEAD", "/subjects")
    assert (reply.status, reply.body, reply.headers["Content-Length"]) == (200, b"", "2")


def test_a_version_is_answered_with_all_that_belongs_to_it(api: RegistryApi) -> None:
    api.registered("s", A)
    schema = '{"fields":["a"]}'
    guid = api.get("/schemas/ids/1").document["guid"]
    assert api.get("/subjects/s/versions/1").document == {
        "subject": "s",
        "version": 1,
        "id": 1,
        "guid": guid,
        "schema": schema,
    }
    assert api.get("/subjects/s/versions/latest/schema").body == schema.encode()
    assert api.get("/schemas/ids/1/schema").body == schema.encode()
    assert api.get("/schemas/ids/1").document == {"guid": guid, "schema": schema}
    assert api.get("/schemas/ids/1?fetchMaxId=true").document["maxId"] == 1
    assert api.get(f"/schemas/guids/{guid}").document == {"guid": guid, "schema": schema}
    assert api.get(f"/schemas/guids/{guid}/ids").document == [{"context": ".", "id": 1}]


def test_an_unknown_expectation_is_answered_as_an_error_of_the_registry(api: RegistryApi) -> None:
    reply = api.send("POST", "/subjects/s", b"{}", {"Content-Type": V1_JSON, "Expect": "miracles"})
    assert (reply.status, reply.headers["Content-Type"]) == (417, V1_JSON)
    assert reply.document == {"error_code": 417, "message": "the header Expect must be 100-continue"}


def test_json_is_written_without_spaces_as_confluents_registry_writes_it(api: RegistryApi) -> None:
    api.registered("s", A, B)
    assert api.get("/subjects/s/versions").body == b"[1,2]"
    assert api.get("/config").body == b'{"compatibilityLevel":"BACKWARD"}'


def test_a_type_that_is_not_avro_is_told(api: RegistryApi) -> None:
    api.registered("s", A, schemaType="PROTOBUF")
    assert api.get("/schemas/ids/1").document["schemaType"] == "PROTOBUF"
    assert api.get("/schemas/types").document == ["AVRO", "JSON", "PROTOBUF"]


def test_a_format_asks_for_another_spelling(api: RegistryApi) -> None:
    api.registered("s", A)
    for path in ("/schemas/ids/1", "/subjects/s/versions/1"):
        assert api.get(f"{path}?format=loud").document["schema"] == '{"FIELDS":["A"]}'
        assert api.get(f"{path}?format=unknown").document["schema"] == '{"fields":["a"]}'
    assert api.get("/schemas/ids/1/schema?format=loud").body == b'{"FIELDS":["A"]}'


@pytest.mark.parametrize("number", ["2", "0", "-1", "x", "1.0", "99999999999", "%00"])
def test_an_id_or_a_guid_that_there_is_not_is_40403(api: RegistryApi, number: str) -> None:
    api.registered("s", A)
    for path in (f"/schemas/ids/{number}", f"/schemas/ids/{number}/schema", f"/schemas/guids/{number}"):
        reply = api.get(path)
        assert (reply.status, reply.error_code) == (404, 40403)
        assert reply.message.startswith("Schema ")
    assert api.get(f"/schemas/ids/{number}/versions").message == "Schema not found"


@pytest.mark.parametrize("version", ["0", "-2", "x", "1.5", "2147483648", "LATEST", "%20"])
def test_a_version_that_can_be_none_is_42202(api: RegistryApi, version: str) -> None:
    api.registered("s", A)
    for reply in (
        api.get(f"/subjects/s/versions/{version}"),
        api.delete(f"/subjects/s/versions/{version}"),
        api.post(f"/compatibility/subjects/s/versions/{version}", {"schema": "{}"}),
    ):
        assert (reply.status, reply.error_code) == (422, 42202)
        assert reply.message.endswith(
            'is not a valid version id. Allowed values are between [1, 2^31-1] and the string "latest"'
        )


# --- names


@pytest.mark.parametrize("name", ["a/b", "a b", "ä€😀", "%", "a%2Fb", "a+b", "?x=1#y", "..", "'; drop", '"quoted"'])
def test_a_subject_may_have_any_printable_name(api: RegistryApi, name: str) -> None:
    from urllib.parse import quote

    assert api.registered(name, A) == [1]
    assert api.get("/subjects").document == [name]
    path = f"/subjects/{quote(name, safe='').replace('.', '%2E')}"
    assert api.get(f"{path}/versions/1").document["subject"] == name
    assert api.delete(path).document == [1]


@pytest.mark.parametrize("name", ["a%00b", "a%0Ab", "%7F", "__GLOBAL", "__EMPTY"])
def test_a_name_that_is_none_of_a_subject_is_42208(api: RegistryApi, name: str) -> None:
    for reply in (
        api.post(f"/subjects/{name}/versions", {"schema": "{}"}),
        api.put(f"/mode/{name}", {"mode": "IMPORT"}),
    ):
        assert (reply.status, reply.error_code) == (422, 42208)
        assert reply.message.startswith("The specified subject '")


def test_the_default_context_may_be_named_and_no_other(api: RegistryApi) -> None:
    assert api.get("/contexts").document == ["."]
    assert api.registered(":.:s", A) == [1]
    assert api.get("/subjects").document == ["s"]
    assert api.get("/subjects?subjectPrefix=:*:").document == ["s"]
    for reply in (
        api.register(":.other:s", A),
        api.get("/subjects/:.other:s/versions"),
        api.get("/subjects?subjectPrefix=:.other:"),
        api.register("s", {"refers": []}, references=[{"name": "a", "subject": ":.other:s", "version": 1}]),
    ):
        assert (reply.status, reply.error_code) == (422, 42208)
        assert "has the default context only" in reply.message


# --- lists


def test_lists_have_prefixes_and_pages(api: RegistryApi) -> None:
    for name in ("a1", "a2", "b1"):
        api.registered(name, A)
    api.registered("a1", B)
    assert api.get("/subjects?subjectPrefix=a").document == ["a1", "a2"]
    assert api.get("/subjects?offset=1&limit=1").document == ["a2"]
    assert api.get("/subjects?offset=1&limit=-1").document == ["a2", "b1"]
    found = api.get("/schemas?subjectPrefix=a").document
    assert [(one["subject"], one["version"], one["id"]) for one in found] == [("a1", 1, 1), ("a1", 2, 2), ("a2", 1, 1)]
    latest = api.get("/schemas?latestOnly=true").document
    assert [(one["subject"], one["version"]) for one in latest] == [("a1", 2), ("a2", 1), ("b1", 1)]
    assert [one["subject"] for one in api.get("/schemas?offset=3&limit=9").document] == ["b1"]
    assert api.get("/schemas/ids/1/subjects?limit=2").document == ["a1", "a2"]
    assert api.get("/subjects?limit=x").error_code == 400


def test_associations_are_an_empty_list(api: RegistryApi) -> None:
    assert api.get("/associations/resources/-/orders?resourceType=topic").document == []
    assert api.post("/associations", {"resourceName": "t"}).error_code == 42205


def test_the_registry_says_whose_it_is(api: RegistryApi) -> None:
    clusters = api.get("/v1/metadata/id").document["scope"]["clusters"]
    assert clusters["kafka-cluster"] == api.control.done("GET", "")["cluster_id"]
    assert api.get("/v1/metadata/version").document["version"].startswith("kmini ")


# --- types of content


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", V1_JSON),
        ("*/*", V1_JSON),
        ("text/html", V1_JSON),
        ("application/json", "application/json"),
        ("application/json; q=0.5, application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ("application/vnd.schemaregistry.v1+json; q=x, APPLICATION/JSON;q=0.1", "application/json"),
        (", ;,q", V1_JSON),
    ],
)
def test_an_answer_has_the_type_that_the_client_prefers(accept: str, expected: str) -> None:
    assert media_type(accept) == expected


@pytest.mark.parametrize("kind", [V1_JSON, "application/json; charset=utf-8", "application/octet-stream"])
def test_a_body_of_json_is_taken(api: RegistryApi, kind: str) -> None:
    body = json.dumps({"schema": "{}"}).encode()
    assert api.send("POST", "/subjects/s/versions", body, {"Content-Type": kind}).status == 200


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_that_a_form_can_send_is_415(api: RegistryApi, kind: str) -> None:
    reply = api.send("POST", "/subjects/s/versions", b'{"schema":"{}"}', {"Content-Type": kind})
    assert (reply.status, reply.error_code) == (415, 415)
    assert api.get("/subjects").document == []


# --- input that means harm


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"null", 422),
        (b"[]", 422),
        (b"7", 422),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"schema": "\xed\xa0\x80"}', 400),
        (rb'{"schema": "\ud800"}', 400),
        (b"[" * 1_000_000, 400),
        (b'{"a":' * 100_000, 400),
        (b'{"schema": NaN}', 400),
        (b"1" * 5_000, 400),
    ],
)
def test_a_body_that_is_no_object_in_json_is_refused(api: RegistryApi, body: bytes, status: int) -> None:
    for verb, path in (("POST", "/subjects/s/versions"), ("PUT", "/config"), ("PUT", "/mode/s")):
        reply = api.send(verb, path, body, {"Content-Type": V1_JSON})
        assert (reply.status, reply.error_code) == (status, status)
    assert api.registered("s", A) == [1]


def test_a_schema_that_is_nested_too_deeply_is_42201(api: RegistryApi) -> None:
    deep = '{"fields":' + "[" * 100_000 + "]" * 100_000 + "}"
    reply = api.post("/subjects/s/versions", {"schema": deep})
    assert (reply.status, reply.error_code) == (422, 42201)


def test_a_body_that_is_too_large_is_413(api: RegistryApi) -> None:
    reply = api.send("POST", "/subjects/s/versions", b" " * (MAX_BODY_BYTES + 1), {"Content-Type": V1_JSON})
    assert (reply.status, reply.error_code) == (413, 413)


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/subjects/", 404), ("PATCH", "/subjects", 405), ("PUT", "/subjects/s", 405)],
)
def test_what_is_not_served_is_told_as_an_error(api: RegistryApi, verb: str, path: str, status: int) -> None:
    reply = api.send(verb, path)
    assert (reply.status, reply.error_code, reply.headers["Content-Type"]) == (status, status, V1_JSON)
    if status == 405:
        assert "GET" in reply.headers["Allow"] or "POST" in reply.headers["Allow"]


def test_what_is_no_http_is_answered_and_hurts_nothing(api: RegistryApi) -> None:
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as connection:
        connection.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error_code"] == 400
    assert api.get("/subjects").status == 200


def test_a_failure_of_ours_is_500_and_tells_nothing(api: RegistryApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise KeyError("/secret/path")

    monkeypatch.setattr("kmini.registry.registry_answers.prefix_of", fail)
    reply = api.get("/subjects")
    assert (reply.status, reply.document) == (
        500,
        {"error_code": 500, "message": "Internal Server Error: the broker's log says why"},
    )


@pytest.mark.parametrize(("release", "code"), [("4.3", 40901), ("3.9", 409)])
def test_the_code_of_an_incompatible_schema_is_that_of_the_release(tmp_path: Path, release: str, code: int) -> None:
    api = RegistryApi(str(tmp_path), config={"kmini.as.version": release}).start()
    try:
        api.registered("s", A)
        reply = api.register("s", {"needs": ["b"]})
        assert (reply.status, reply.error_code) == (409, code)
    finally:
        api.end()

"""The OpenAPI document: valid, the same as what is served, and true of real answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from kmini.control.openapi import openapi_document
from kmini.control.routes import PREFIX, ROUTES
from kmini.protocol import messages as m
from kmini.testing import Wire
from kmini.testkit.cluster import ClusterOperations
from kmini.testkit.embedded import BrokerOperations
from kmini.testkit.operations import Operations
from support.control_api import PATH_NAMES, Answer, ControlApi
from support.for_each import for_each

BESIDE = {("GET", f"{PREFIX}/openapi.json")}
"""What is served below the prefix beside the table."""

EVENTS = f"{PREFIX}/events"
"""A stream, which is no method of a table: its answer does not end."""

KINDS: list[type[Operations]] = [BrokerOperations, ClusterOperations]


def operations_of(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            yield verb.upper(), path, operation


@pytest.mark.parametrize("table", KINDS, ids=["broker", "cluster"])
def test_the_document_is_valid_openapi(table: type[Operations]) -> None:
    OpenAPIV31SpecValidator(openapi_document(table)).validate()


@pytest.mark.parametrize("table", KINDS, ids=["broker", "cluster"])
def test_every_operation_is_described_in_whole_sentences(table: type[Operations]) -> None:
    names = []
    for verb, path, operation in operations_of(openapi_document(table)):
        names.append(operation["operationId"])
        assert operation["summary"][0].isupper(), (verb, path)
        assert operation["summary"].count("(") == operation["summary"].count(")"), (verb, path)
        assert ">>>" not in operation["description"]
        assert path == EVENTS or operation["description"].startswith(operation["summary"])
        assert {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"} == {
            *re.findall(r"{(\w+)}", path)
        }
        assert ("requestBody" not in operation) or verb in ("POST", "PUT", "PATCH")
    assert len({*names}) == len(names)


def served(api: ControlApi) -> set[tuple[str, str]]:
    return {
        (method, path)
        for path, handlers in api.server.router.routes.items()
        for method in handlers
        if method != "HEAD" and path.startswith(PREFIX)
    }


def test_what_is_served_is_documented_and_the_other_way_round(api: ControlApi, cluster_api: ControlApi) -> None:
    documented: set[tuple[str, str]] = set()
    for one in (api, cluster_api):
        document = one.send("GET", f"{PREFIX}/openapi.json").document
        documented |= {(verb, path) for verb, path, _ in operations_of(document)}
    for one in (api, cluster_api):
        assert served(one) - BESIDE == documented
        assert served(one) >= BESIDE
    assert len(documented - {("GET", EVENTS)}) == len(ROUTES)


def test_a_broker_documents_no_call_that_only_a_cluster_has(api: ControlApi, cluster_api: ControlApi) -> None:
    of_broker = api.send("GET", f"{PREFIX}/openapi.json").document["paths"]
    of_cluster = cluster_api.send("GET", f"{PREFIX}/openapi.json").document["paths"]
    assert f"{PREFIX}/brokers/{{broker}}/kill" not in of_broker
    assert f"{PREFIX}/brokers/{{broker}}/kill" in of_cluster
    assert of_broker.keys() < of_cluster.keys()


QUERIES = {
    f"{PREFIX}/requests/assert-some": "?api=Metadata",
    f"{PREFIX}/requests/assert-none": "?api=Produce",
    f"{PREFIX}/records": "?topic=orders",
    f"{PREFIX}/offsets": "?topic=orders",
}

RULE = {"name": "lost", "when": {"api": ["Produce"]}, "do": [{"error": "NOT_LEADER_OR_FOLLOWER"}]}

CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/topics/orders/records", {"value": {"base64": "/w=="}, "key": "42", "headers": [["source", None]]}),
    ("POST", "/produce", {"topic": "orders", "value": None}),
    ("POST", "/topics", {"name": "users", "config": {"cleanup.policy": "compact", "retention.ms": 7}}),
    ("POST", "/topics/users/records", {"value": "alice", "key": "1"}),
    ("POST", "/topics/users/compact", {}),
    ("POST", "/compact", {"topic": "users"}),
    ("PATCH", "/topics/users/configs", {"changes": {"retention.ms": None, "segment.bytes": 2_000_000}}),
    ("PATCH", "/brokers/1/configs", {"changes": {"log.cleaner.threads": 2}}),
    ("POST", "/topics/orders/wait-for", {"count": 1}),
    ("POST", "/wait-for-records", {"topic": "orders", "count": 1}),
    ("POST", "/topics/orders/roll", {"partition": 0}),
    ("POST", "/topics/orders/retention", None),
    ("POST", "/topics/orders/delete-records", {"offset": 1, "partition": 0}),
    ("POST", "/delete-records", {"topic": "orders", "offset": 0, "partition": 1}),
    ("POST", "/retention", {}),
    ("PATCH", "/groups/billing/offsets", {"offsets": {"orders-0": 1}}),
    ("POST", "/groups/billing/wait-stable", {"members": 0}),
    ("POST", "/groups/billing/wait-caught-up", {"topic": "users", "timeout_ms": 0}),
    ("POST", "/groups/billing/reset-offsets", {"position": "earliest"}),
    ("POST", "/groups/billing/rebalance", {}),
    ("POST", "/transactions/wait-ended", {}),
    ("POST", "/transactions/tx-1/abort", {}),
    ("POST", "/faults", {"rules": [RULE, {**RULE, "name": None}]}),
    ("PUT", "/faults", {"rules": [RULE]}),
    ("POST", "/faults/lost/release", {}),
    ("POST", "/faults/assert-all-hit", {}),
    ("POST", "/clock/advance", {"duration": "1h"}),
    ("POST", "/clock/turn-back", {"duration": 1}),
    ("POST", "/advance-clock", {"duration": 1000, "liveness": True}),
    ("POST", "/requests/wait-for", {"api": "Metadata"}),
    ("POST", "/snapshots", {"name": "seeded"}),
    ("POST", "/seed", {"records": [{"topic": "orders", "value": {"id": 1}, "headers": {"a": "b"}}]}),
    ("POST", "/report", {"waits": []}),
    ("POST", "/advertise", {"host": "127.0.0.1", "port": 9, "broker": 1}),
]
"""Calls that change things, in an order in which most succeed."""


REFUSED = [
    "/groups/billing/wait-caught-up",
    "/groups/billing/rebalance",
    "/transactions/tx-1/abort",
    "/faults/assert-all-hit",
]
"""Those of them that get a problem: in vain, without members, without a transaction, without a hit."""


def check(document: dict[str, Any], verb: str, path: str, answer: Answer) -> None:
    """Compare an answer with the schema that the document has for it."""
    responses = document["paths"][path][verb.lower()]["responses"]
    if str(answer.status) not in responses:
        assert answer.is_problem, (verb, path, answer)
        (schema,) = (one["schema"] for one in document["components"]["responses"]["Problem"]["content"].values())
    elif answer.status == 204:
        assert "content" not in responses["204"]
        assert answer.body == b""
        return
    else:
        ((content_type, media),) = responses[str(answer.status)]["content"].items()
        assert answer.headers["Content-Type"].partition(";")[0] == content_type
        if content_type == "text/plain":
            return
        schema = media["schema"]
    Draft202012Validator({**schema, "components": document["components"]}).validate(answer.document)


def template(document: dict[str, Any], path: str) -> str:
    """The documented path that a request is for."""
    for found in sorted(document["paths"], key=lambda one: one.count("{")):
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", found), PREFIX + path):
            return str(found)
    raise AssertionError(f"{path} is not documented")


@pytest.mark.parametrize("kind", ["broker", "cluster"])
def test_every_answer_fits_its_schema(request: pytest.FixtureRequest, kind: str) -> None:
    api: ControlApi = request.getfixturevalue("api" if kind == "broker" else "cluster_api")
    document = api.send("GET", f"{PREFIX}/openapi.json").document
    with Wire(api.any_broker.address) as wire:
        wire.ask(m.MetadataRequest(topics=None), 12)
        refused = []
        for verb, path, body in CALLS:
            answer = api.ask(verb, path, body)
            refused += [path] if answer.is_problem else []
            check(document, verb, template(document, path), answer)
        assert refused == REFUSED
        for verb, path, _ in operations_of(document):
            if verb == "GET" and path != EVENTS:
                asked = re.sub(r"{(\w+)}", lambda found: quote(PATH_NAMES[found[1]]), path) + QUERIES.get(path, "")
                answer = api.ask(verb, asked.removeprefix(PREFIX))
                check(document, verb, path, answer)
                may_fail = path.endswith("/coordinator") and "transaction" in path
                may_fail |= "{subject}" in path  # no schema registry is served
                assert answer.status in (200, 204) or may_fail, (asked, answer.body)
    for path in ("/snapshots/seeded", "/faults/lost", "/groups/billing/offsets", "/topics/users", "/clients/missing"):
        check(document, "DELETE", template(document, path), api.ask("DELETE", path))


def test_a_wrong_argument_is_refused_by_the_schema_too(api: ControlApi) -> None:
    document = api.send("GET", f"{PREFIX}/openapi.json").document
    for path, body in (
        ("/topics/{topic}/compact", {"partition": "x"}),
        ("/topics/{topic}/compact", {"partitions": 1}),
        ("/topics/{topic}/records", {}),
        ("/faults", {"rules": {}}),
    ):
        operation = document["paths"][PREFIX + path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert not Draft202012Validator(schema).is_valid(body)
        assert api.ask("POST", path.replace("{topic}", "orders"), body).status == 422


@for_each(("verb", "path", "body"), CALLS, ids=lambda one: one if isinstance(one, str) else "")
def test_the_bodies_of_real_calls_fit_their_schemas(verb: str, path: str, body: Any) -> None:
    document = openapi_document(BrokerOperations)
    operation = document["paths"][template(document, path)][verb.lower()]
    content = operation.get("requestBody", {"required": False, "content": {}})["content"]
    if body is None:
        assert not operation.get("requestBody", {}).get("required", False)
    elif content:
        Draft202012Validator(content["application/json"]["schema"]).validate(body)
    else:
        assert body == {}

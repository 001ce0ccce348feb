"""The arguments of a call: each route's methods have a signature in JSON, and what is given is checked by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kmini.control.arguments import ONLY_PYTHON, Signature, argument_schema, signature_of
from kmini.control.control_operations import TopicControl
from kmini.control.json_types import WrongValue
from kmini.control.routes import ROUTES, Route
from kmini.protocol.topics import TopicPartition
from kmini.testkit.cluster import ClusterOperations
from kmini.testkit.embedded import BrokerOperations
from kmini.testkit.journal_handle import RequestOperations
from kmini.testkit.operations import Operations
from kmini.testkit.topic_handle import TopicOperations
from support.for_each import for_each


def methods() -> Iterator[tuple[str, Route, Any]]:
    """The method of each route, for a broker and for a cluster."""
    for kind, operations in (("broker", BrokerOperations), ("cluster", ClusterOperations)):
        for route in ROUTES:
            table = operations if route.table is Operations else route.table
            method = getattr(table, route.method, None)
            if method is not None:
                yield f"{kind}-{route.table.__name__}.{route.method}", route, method


METHODS = {name: (route, method) for name, route, method in methods()}


@for_each("name", METHODS)
def test_every_method_has_a_signature_in_json(name: str) -> None:
    route, method = METHODS[name]
    signature = signature_of(method)
    named = route.named(dict.fromkeys(route.path_arguments, "x"), signature.arguments)
    for argument in signature.arguments.values():
        assert argument.name not in ONLY_PYTHON
        assert json.dumps(argument_schema(argument))
    if signature.result is not None:
        assert json.dumps(signature.result.schema())
    unbound = {*route.path_arguments} - {"topic", "group", "rule", "broker"} - named.keys()
    assert unbound - {"name"} <= {"snapshot", "transactional_id", "client_id"}


PRODUCE = signature_of(TopicOperations.produce)
RECORDS = signature_of(TopicOperations.records)
DELETE = signature_of(TopicOperations.delete_records)
ALTER = signature_of(TopicControl.alter_configs)
COUNT = signature_of(RequestOperations.count)


def test_a_body_is_bound_by_name_with_the_values_of_python() -> None:
    document = {"value": {"base64": "/w=="}, "key": "42", "headers": {"a": "b"}, "partition": 1, "timestamp_ms": -1}
    assert PRODUCE.bind(document) == {
        "value": b"\xff",
        "key": b"42",
        "headers": (("a", b"b"),),
        "partition": 1,
        "timestamp_ms": -1,
    }


def test_a_query_is_bound_as_texts_and_otherwise_as_json() -> None:
    texts = {"partition": "1", "key": "42", "since": "7", "isolation": "all"}
    assert RECORDS.bind({}, texts) == {"partition": 1, "key": b"42", "since": 7, "isolation": "all"}
    assert RECORDS.bind({}, {"key": '{"base64": "/w=="}'}) == {"key": b'{"base64": "/w=="}'}
    assert DELETE.bind({}, {"offset": "-1"}) == {"offset": -1}


def test_a_query_and_a_body_go_together() -> None:
    assert RECORDS.bind({"partition": 1}, {"isolation": "all"}) == {"partition": 1, "isolation": "all"}


def test_null_is_the_default_where_that_is_null() -> None:
    assert RECORDS.bind({"partition": None, "key": None}) == {}
    assert PRODUCE.bind({"value": None}) == {"value": None}
    with pytest.raises(WrongValue) as refused:
        RECORDS.bind({"isolation": None})
    assert refused.value.pointer == "/isolation"


def test_the_keywords_that_choose_requests_are_arguments() -> None:
    assert COUNT.bind({"api": "Produce", "topic": "orders", "error": "NONE"}) == {
        "api": "Produce",
        "topic": "orders",
        "error": "NONE",
    }
    assert {"topic", "group", "client_id", "since"} < COUNT.arguments.keys()
    assert "where" not in COUNT.arguments
    assert COUNT.arguments["topic"].keyword_of == "what"


def test_partitions_are_keys_of_an_object() -> None:
    commit = signature_of(next(method for route, method in METHODS.values() if route.method == "commit"))
    assert commit.bind({"offsets": {"orders-0": 7}}) == {"offsets": {TopicPartition("orders", 0): 7}}


@pytest.mark.parametrize(
    ("signature", "document", "texts", "pointer", "told"),
    [
        (PRODUCE, {}, {}, "/value", "value must be given"),
        (PRODUCE, {"vlaue": "a"}, {}, "/vlaue", "there is no argument vlaue; nearest: 'value'"),
        (PRODUCE, {"records": []}, {}, "/records", "there is no argument records; POST /seed takes many records"),
        (ALTER, {"retention.ms": "7"}, {}, "/retention.ms", 'in an object: {"changes": {"retention.ms": "1000"}}'),
        (PRODUCE, {"value": "a"}, {"limit": "1"}, "/limit", "there is no argument limit"),
        (PRODUCE, {"value": "a", "where": "x"}, {}, "/where", "there is no argument where"),
        (PRODUCE, {"value": "a", "self": "x"}, {}, "/self", "there is no argument self"),
        (PRODUCE, {"value": "a", "partition": "0"}, {}, "/partition", "a whole number"),
        (PRODUCE, {"value": "a", "partition": -1}, {}, "/partition", "0 or more"),
        (PRODUCE, {"value": "a", "partition": 1 << 31}, {}, "/partition", "number of a partition"),
        (RECORDS, {}, {"partition": "x"}, "/partition", "a whole number"),
        (RECORDS, {}, {"partition": "1.5"}, "/partition", "a whole number"),
        (RECORDS, {}, {"partition": "NaN"}, "/partition", "a whole number"),
        (RECORDS, {}, {"partition": ""}, "/partition", "a whole number"),
        (RECORDS, {}, {"isolation": "none"}, "/isolation", "committed"),
        (ALTER, {"config": {"a": "1"}, "configs": {}}, {}, "/configs", "config and configs are one argument: give one"),
        (RECORDS, {"partition": 0}, {"partition": "1"}, "/partition", "partition is given twice"),
    ],
)
def test_wrong_arguments_are_refused_with_their_place(
    signature: Signature, document: dict[str, Any], texts: dict[str, str], pointer: str, told: str
) -> None:
    with pytest.raises(WrongValue) as refused:
        signature.bind(document, texts)
    assert refused.value.pointer == pointer
    assert told in refused.value.message


def test_a_schema_has_the_default_of_the_argument() -> None:
    assert argument_schema(RECORDS.arguments["isolation"])["default"] == "committed"
    assert argument_schema(DELETE.arguments["offset"])["default"] == -1
    assert "default" not in argument_schema(PRODUCE.arguments["value"])
    assert "default" not in argument_schema(RECORDS.arguments["partition"])

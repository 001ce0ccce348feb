"""What the failure report says of clients of the schema registry."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.journal.entries import JournalEntry
from kmini.broker.journal.registry_requests import RegistryCall
from kmini.testkit.report.diagnoses import (
    advertised_address_never_reached,
    no_client_came,
    registry_failed,
    schema_refused,
)
from kmini.testkit.report.facts import Facts

INCOMPATIBLE = (
    'Schema being registered is incompatible with an earlier schema for subject "orders-value", details: [{errorType:\''
    "READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'price' has no default at /fields/1'}, "
    "{oldSchemaVersion: 1}, {oldSchema: '...'}, {compatibility: 'BACKWARD'}]"
)


def asked(method: str, path: str, status: int, message: str = "", **given: Any) -> JournalEntry:
    subject = path.split("/")[2] if path.startswith("/subjects/") else None
    call = RegistryCall(method, path, subject, status, message)
    errors = (str(status),) if status >= 400 else ()
    source = (1, -1, "registry", 0, "app", "127.0.0.1:50000", "User:ANONYMOUS", 0)
    entry = JournalEntry(*source, 1_000, 1_000, 0.5, (), (), (), (), (), 10, 10, errors, None, (), call)
    return entry._replace(**given)


def facts(*requests: JournalEntry) -> Facts:
    return Facts(1.0, ("127.0.0.1:9092",), (), requests, True, 0, (), (), (), (), (), 0)


REGISTER = "/subjects/orders-value/versions?normalize=False"


def test_a_refused_schema_is_told_with_its_first_difference() -> None:
    assert schema_refused(facts(asked("POST", REGISTER, 409, INCOMPATIBLE))) == (
        "the schema registry refused orders-value of client 'app' with 409: The field 'price' has no default"
    )


def test_an_invalid_schema_is_told_with_its_message() -> None:
    assert schema_refused(facts(asked("POST", REGISTER, 422, "Invalid schema of type AVRO, details: x"))) == (
        "the schema registry refused orders-value of client 'app' with 422: Invalid schema of type AVRO, details: x"
    )


def test_a_fault_rule_that_acted_is_named() -> None:
    told = schema_refused(facts(asked("POST", REGISTER, 409, "incompatible", faults=("registry error",))))
    assert told is not None
    assert told.endswith("incompatible (fault rule 'registry error' acted)")


@pytest.mark.parametrize(
    "requests",
    [
        (asked("POST", REGISTER, 200),),
        (asked("POST", REGISTER, 409, INCOMPATIBLE), asked("POST", REGISTER, 200)),
        (asked("POST", "/subjects/orders-value", 404, "Subject not found"),),
        (asked("POST", "/compatibility/subjects/orders-value/versions/latest", 422, "x"),),
        (),
    ],
)
def test_nothing_is_refused_where_a_schema_is_taken_later(requests: tuple[JournalEntry, ...]) -> None:
    assert schema_refused(facts(*requests)) is None


def test_a_last_request_that_failed_otherwise_is_told() -> None:
    assert registry_failed(facts(asked("GET", "/schemas/ids/7", 404, "Schema 7 not found"))) == (
        "the schema registry answered GET /schemas/ids/7 of client 'app' with 404: Schema 7 not found"
    )
    assert registry_failed(facts(asked("POST", REGISTER, 409, INCOMPATIBLE))) is None
    assert registry_failed(facts(asked("GET", "/schemas/ids/7", 404), asked("GET", "/subjects", 200))) is None
    assert registry_failed(facts()) is None


def test_a_connection_that_a_rule_closed_is_told() -> None:
    closed = asked("GET", "/subjects", 0, closed="fault rule 'registry disconnect'", faults=("registry disconnect",))
    assert registry_failed(facts(closed)) == (
        "the schema registry did not answer GET /subjects of client 'app': fault rule 'registry disconnect' "
        "(fault rule 'registry disconnect' acted)"
    )


def test_a_client_of_the_registry_alone_is_a_client_and_has_reached_no_advertised_address() -> None:
    alone = facts(asked("GET", "/subjects", 200))
    assert no_client_came(alone) is None
    metadata = alone.requests[0]._replace(api="Metadata", registry=None)
    told = alone._replace(told=("kafka:9092",), requests=(*alone.requests, metadata))
    assert advertised_address_never_reached(told) is not None

"""Errors as problem documents: each kind there and back."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest

from kmini.broker.network.socket_server import PortTaken
from kmini.broker.snapshots import SnapshotError
from kmini.control.json_types import WrongValue
from kmini.control.problems import _KINDS, TYPE_PREFIX, TooMany, error_of, make_problem, problem_of, without_data_dir
from kmini.protocol.errors import (
    GroupIdNotFound,
    InvalidTopic,
    KafkaError,
    NotLeaderOrFollower,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from kmini.testkit.arrivals import RecordsMissing
from kmini.testkit.journal_handle import RequestsLost
from kmini.testkit.operations import BrokerNotRunning, NoSuchBroker
from kmini.testkit.seeds import SeedError
from kmini.testkit.waiting import NotInTime

ERRORS: list[tuple[Exception, str, int]] = [
    (RecordsMissing("no record"), "records-missing", 408),
    (NotInTime("no group"), "not-in-time", 408),
    (RequestsLost("lost"), "requests-lost", 410),
    (AssertionError("one came"), "assertion", 417),
    (BrokerNotRunning("broker 2 does not run"), "broker-not-running", 409),
    (NoSuchBroker("no broker 7"), "no-such-broker", 404),
    (SnapshotError("none"), "snapshot", 409),
    (PortTaken("taken"), "port-taken", 409),
    (SeedError("line 1"), "seed", 422),
    (ValueError("wrong"), "wrong-value", 422),
    (TypeError("wrong"), "wrong-type", 422),
    (RecursionError("deep"), "too-deep", 422),
    (TooMany("many"), "too-many", 429),
    (RuntimeError("not now"), "not-now", 409),
    (UnknownTopicOrPartition("no topic"), "kafka", 404),
    (GroupIdNotFound("no group"), "kafka", 404),
    (TopicAlreadyExists("there"), "kafka", 409),
    (InvalidTopic("name"), "kafka", 400),
    (NotLeaderOrFollower("moved"), "kafka", 409),
    (RequestTimedOut("late"), "kafka", 409),
]


@pytest.mark.parametrize(("error", "name", "status"), ERRORS, ids=[type(error).__name__ for error, _, _ in ERRORS])
def test_an_error_is_a_problem_and_the_same_error_again(error: Exception, name: str, status: int) -> None:
    problem = json.loads(json.dumps(problem_of(error)))
    assert (problem["type"], problem["status"]) == (TYPE_PREFIX + name, status)
    back = error_of(problem)
    assert type(back) is type(error)
    if not isinstance(error, RecursionError):
        assert str(back) == str(error)
    if isinstance(error, KafkaError):
        assert problem["kafka_error"] == error.kafka_name


def test_every_kind_is_tried() -> None:
    assert {kind.name for kind in _KINDS} == {name for _, name, _ in ERRORS}


def test_a_derived_error_is_the_first_kind_that_fits() -> None:
    """Each error has the kind of itself, or of the nearest class above it."""
    for number, kind in enumerate(_KINDS):
        assert not any(issubclass(kind.error, earlier.error) for earlier in _KINDS[:number]), kind.name


def test_a_wrong_value_says_where() -> None:
    problem = problem_of(WrongValue("'x': must be a whole number", "/partition"))
    assert problem["detail"] == "'x': must be a whole number"
    assert problem["errors"] == [{"pointer": "/partition", "message": "'x': must be a whole number"}]


def test_a_failure_of_kminis_tells_nothing_of_itself() -> None:
    for error in (OSError(28, "no space", "/var/lib/kmini/secret"), KeyError("password"), ZeroDivisionError("x")):
        problem = problem_of(error)
        assert problem["status"] == 500
        assert problem.keys() == {"type", "title", "status"}
        assert isinstance(error_of(problem), Exception)


def test_a_problem_of_another_server_is_an_error_with_its_text() -> None:
    assert str(error_of({"title": "Bad Gateway"})) == "Bad Gateway"
    assert str(error_of({"type": f"{TYPE_PREFIX}kafka", "kafka_error": "NEWER", "detail": "new"})) == "new"
    assert type(error_of({})) is RuntimeError


def test_an_answer_does_not_have_the_data_directory() -> None:
    assert without_data_dir("/tmp/a/snapshots/x and /tmp/a", "/tmp/a") == "DATA_DIR/snapshots/x and DATA_DIR"


def test_a_problem_without_a_detail_has_none() -> None:
    assert "detail" not in make_problem("x", HTTPStatus.CONFLICT, "Conflict")

"""Errors over HTTP: what an exception is as a problem document (RFC 9457), and which exception that was.

Each kind of exception has a line in one table, which both ends use.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple

from kmini.broker.network.socket_server import PortTaken
from kmini.broker.snapshots import SnapshotError
from kmini.control.json_types import WrongValue
from kmini.protocol.errors import (
    AnswerError,
    GroupIdNotFound,
    InvalidConfig,
    InvalidGroupId,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidTopic,
    KafkaError,
    ResourceNotFound,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
    error_named,
)
from kmini.testkit.arrivals import RecordsMissing
from kmini.testkit.journal_handle import RequestsLost
from kmini.testkit.operations import BrokerNotRunning, NoSuchBroker
from kmini.testkit.seeds import SeedError
from kmini.testkit.waiting import NotInTime

CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:kmini:problem:"

Problem = dict[str, Any]


class TooMany(RuntimeError):
    """There are as many of something as the server has room for."""


class _Kind(NamedTuple):
    """A kind of exception."""

    name: str
    error: type[Exception]
    status: HTTPStatus
    title: str


_KINDS = (
    _Kind("records-missing", RecordsMissing, HTTPStatus.REQUEST_TIMEOUT, "The records did not come in time"),
    _Kind("not-in-time", NotInTime, HTTPStatus.REQUEST_TIMEOUT, "It did not happen in time"),
    _Kind("requests-lost", RequestsLost, HTTPStatus.GONE, "The journal has lost requests that the question is about"),
    _Kind("assertion", AssertionError, HTTPStatus.EXPECTATION_FAILED, "An assertion failed"),
    _Kind("kafka", KafkaError, HTTPStatus.CONFLICT, "Kafka's rules refuse it"),
    _Kind("no-such-broker", NoSuchBroker, HTTPStatus.NOT_FOUND, "The cluster does not have the broker"),
    _Kind("broker-not-running", BrokerNotRunning, HTTPStatus.CONFLICT, "The broker does not run"),
    _Kind("snapshot", SnapshotError, HTTPStatus.CONFLICT, "The snapshot cannot be taken or restored"),
    _Kind("port-taken", PortTaken, HTTPStatus.CONFLICT, "A port is taken"),
    _Kind("seed", SeedError, HTTPStatus.UNPROCESSABLE_ENTITY, "A record cannot be loaded"),
    _Kind("wrong-value", ValueError, HTTPStatus.UNPROCESSABLE_ENTITY, "A value is not what was expected"),
    _Kind("wrong-type", TypeError, HTTPStatus.UNPROCESSABLE_ENTITY, "A value is not of the type that was expected"),
    _Kind("too-deep", RecursionError, HTTPStatus.UNPROCESSABLE_ENTITY, "A value is nested too deeply"),
    _Kind("too-many", TooMany, HTTPStatus.TOO_MANY_REQUESTS, "There are too many of them"),
    _Kind("not-now", RuntimeError, HTTPStatus.CONFLICT, "It cannot be done now"),
)
"""The first that an exception is an instance of says what it is."""

_OF_KAFKA = {
    UnknownTopicOrPartition: HTTPStatus.NOT_FOUND,
    GroupIdNotFound: HTTPStatus.NOT_FOUND,
    TransactionalIdNotFound: HTTPStatus.NOT_FOUND,
    ResourceNotFound: HTTPStatus.NOT_FOUND,
    InvalidTopic: HTTPStatus.BAD_REQUEST,
    InvalidPartitions: HTTPStatus.BAD_REQUEST,
    InvalidReplicationFactor: HTTPStatus.BAD_REQUEST,
    InvalidConfig: HTTPStatus.BAD_REQUEST,
    InvalidGroupId: HTTPStatus.BAD_REQUEST,
}
"""The status of errors of Kafka's that have one of their own in HTTP."""

_FAILURE = _Kind(
    "failure", Exception, HTTPStatus.INTERNAL_SERVER_ERROR, "The request failed; the broker's log says why"
)


def problem_of(error: Exception) -> Problem:
    """The problem document of an exception. What has no kind is a failure of kmini's, and tells nothing of itself."""
    kind = next((one for one in _KINDS if isinstance(error, one.error)), _FAILURE)
    problem = make_problem(kind.name, kind.status, kind.title, "" if kind is _FAILURE else text_of(error))
    if isinstance(error, KafkaError):
        problem["kafka_error"] = error.kafka_name
        if kind.name == "kafka":
            problem["status"] = _OF_KAFKA.get(type(error), HTTPStatus.CONFLICT).value
    if isinstance(error, RecursionError):
        problem["detail"] = "arrays and objects are nested too deeply"
    if isinstance(error, AnswerError) and error.pointer is not None:
        problem["errors"] = [{"pointer": error.pointer, "message": text_of(error)}]
    return problem


def make_problem(name: str, status: HTTPStatus, title: str, detail: str = "") -> Problem:
    """A problem document."""
    problem: Problem = {"type": TYPE_PREFIX + name, "title": title, "status": status.value}
    return {**problem, "detail": detail} if detail else problem


def without_data_dir(text: str, data_dir: str) -> str:
    """The text without the path of the data directory, which is nothing that a client of the API can use."""
    return text.replace(data_dir, "DATA_DIR")


def text_of(error: Exception) -> str:
    """What an exception says, without Kafka's name of it, which is a member of its own."""
    return error.message if isinstance(error, KafkaError | WrongValue) else str(error)


def error_of(problem: Problem) -> Exception:
    """The exception that a problem document stands for."""
    name = str(problem.get("type", "")).removeprefix(TYPE_PREFIX)
    detail = str(problem.get("detail") or problem.get("title") or problem)
    if name == "kafka":
        try:
            return error_named(problem["kafka_error"])(detail)
        except KeyError:
            return RuntimeError(detail)
    kind = next((one for one in _KINDS if one.name == name), None)
    return RuntimeError(detail) if kind is None else kind.error(detail)

"""Bad input: each gets a problem that says what is wrong and where, and the server goes on."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from kmini.control.control_server import MAX_BODY_BYTES
from kmini.control.routes import PREFIX
from kmini.web import http_serving
from support.control_api import ControlApi, problem_of

JSON = {"Content-Type": "application/json"}

BODIES = {
    "cut off": (b'{"value": "pla', "", "the body is no JSON"),
    "a text": (b"placed", "", "the body is no JSON"),
    "an array": (b"[]", "", "must be an object"),
    "null": (b"null", "", "must be an object"),
    "not UTF-8": (b'{"value": "\xff"}', "", "the byte at 11 is no UTF-8"),
    "UTF-16": ('{"value": "placed"}'.encode("utf-16"), "", "no UTF-8"),
    "half of a pair": (rb'{"value": "\ud800"}', "", "surrogate"),
    "NaN": (b'{"timestamp_ms": NaN}', "", "NaN is no number"),
    "Infinity": (b'{"timestamp_ms": -Infinity}', "", "-Infinity is no number"),
    "too large a number": (b'{"timestamp_ms": 1e999}', "", "too large"),
    "too long a number": (b'{"timestamp_ms": ' + b"9" * 5000 + b"}", "", "the body is no JSON"),
    "deep arrays": (b"[" * 100_000, "", "nested too deeply"),
    "deep objects": (b'{"value":' * 100_000, "", "nested too deeply"),
    "an unknown argument": (b'{"vlaue": "placed"}', "/vlaue", "nearest: 'value'"),
    "an argument of the path": (b'{"name": "users"}', "/name", "there is no argument name"),
    "a missing argument": (b"{}", "/value", "value must be given"),
    "a text for a number": (b'{"value": "a", "partition": "x"}', "/partition", "a whole number"),
    "true for a number": (b'{"value": "a", "partition": true}', "/partition", "a whole number"),
    "a number out of range": (b'{"value": "a", "partition": -1}', "/partition", "0 or more"),
    "base64 that is none": (b'{"value": {"base64": "*"}}', "/value/base64", "base64"),
    "base64 of a number": (b'{"value": {"base64": 7}}', "/value/base64", "base64"),
    "headers of a number": (b'{"value": "a", "headers": 7}', "/headers", "headers"),
}
"""Bodies for a produce: the place that the problem names, and what it says."""


@pytest.fixture(autouse=True)
def lives(api: ControlApi) -> Iterator[None]:
    """Whatever a test has sent, the server answers, and nothing was produced."""
    yield
    assert api.done("GET", "/topics/orders/records") == []


@pytest.mark.parametrize("name", BODIES)
def test_a_wrong_body_is_refused_with_its_place(api: ControlApi, name: str) -> None:
    body, pointer, told = BODIES[name]
    problem = problem_of(api.send("POST", f"{PREFIX}/topics/orders/records", body, JSON))
    assert problem["status"] == 422
    (error,) = problem["errors"]
    assert error["pointer"] == pointer
    assert told in error["message"]
    assert told in problem["detail"]


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/topics/orders/records?partition=x", "/partition"),
        ("/topics/orders/records?partition=1.5", "/partition"),
        ("/topics/orders/records?partition=NaN", "/partition"),
        ("/topics/orders/records?partition=-1", "/partition"),
        ("/topics/orders/records?isolation=none", "/isolation"),
        ("/topics/orders/records?limit=0", "/limit"),
        ("/topics/orders/records?partition=0&partition=1", "/partition"),
        ("/topics/orders/records?decode=", "/decode"),
        ("/requests?since=x", "/since"),
        ("/brokers/x/configs", "/broker"),
    ],
)
def test_a_wrong_query_is_refused_with_its_place(api: ControlApi, path: str, pointer: str) -> None:
    assert api.problem("GET", path)["errors"][0]["pointer"] == pointer


def chunks(size: int) -> Iterator[bytes]:
    piece = b" " * (1 << 20)
    for _ in range(size >> 20):
        yield piece


@pytest.mark.parametrize("form", ["with a length", "in chunks", "compressed"])
def test_a_body_over_16_mib_is_refused(api: ControlApi, form: str) -> None:
    body = b" " * (MAX_BODY_BYTES + 1)
    if form == "compressed":
        zipped = gzip.compress(body)
        answer = api.send("POST", f"{PREFIX}/produce", zipped, {**JSON, "Content-Encoding": "gzip"})
    elif form == "in chunks":
        answer = api.send("POST", f"{PREFIX}/produce", chunks(MAX_BODY_BYTES + (1 << 20)), JSON)
    else:
        answer = api.send("POST", f"{PREFIX}/produce", body, JSON)
    problem = problem_of(answer)
    assert (problem["status"], problem["type"]) == (413, "urn:kmini:problem:too-large")
    assert str(MAX_BODY_BYTES) in problem["detail"]


def test_a_body_of_16_mib_is_read(api: ControlApi) -> None:
    body = b" " * (MAX_BODY_BYTES - 2) + b"{}"
    assert problem_of(api.send("POST", f"{PREFIX}/produce", body, JSON))["errors"][0]["pointer"] == "/topic"


def test_a_body_that_is_not_compressed_as_it_says_is_refused(api: ControlApi) -> None:
    answer = api.send("POST", f"{PREFIX}/produce", b"no gzip at all, but text", {**JSON, "Content-Encoding": "gzip"})
    assert problem_of(answer)["status"] == 400


@pytest.mark.parametrize("name", ["..", "../x", "../../etc", "/etc", ".hidden", "a/b", "a\\b", "a\0b", "", "x" * 101])
def test_the_name_of_a_snapshot_is_no_path(api: ControlApi, name: str) -> None:
    assert api.problem("POST", "/snapshots", {"name": name})["errors"][0]["pointer"] == "/name"
    quoted = "".join(f"%{byte:02x}" for byte in name.encode())
    for verb, path in (("POST", f"/snapshots/{quoted}/restore"), ("DELETE", f"/snapshots/{quoted}")):
        problem = api.problem(verb, path)
        assert problem["status"] in (404, 405, 422), problem  # an empty name is another path
    assert api.done("GET", "/snapshots") == []


def test_a_directory_beside_the_snapshots_is_none(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is no snapshot either, although a restore in Python takes one."""
    api.done("POST", "/snapshots", {"name": "seeded"})
    monkeypatch.chdir(f"{api.data_dir}/snapshots")
    api.done("POST", "/snapshots", {"name": "other"})
    api.done("DELETE", "/snapshots/other")
    monkeypatch.chdir(api.data_dir)
    problem = api.problem("POST", "/snapshots/snapshots/restore")
    assert problem["detail"] == "there is no snapshot snapshots; there are: seeded"
    api.done("DELETE", "/snapshots/seeded")


@pytest.mark.parametrize(
    "quoted", ["%2e%2e%2f%2e%2e%2fetc", "..%2fkmini.db", "%00", "%ff%fe", "a%0d%0aX-Header:%20y", "%e2%80%ae"]
)
@pytest.mark.parametrize("rest", ["", "/records", "/segments", "/configs"])
def test_a_topic_that_cannot_be_is_not_there(api: ControlApi, quoted: str, rest: str) -> None:
    problem = api.problem("GET", f"/topics/{quoted}{rest}")
    assert (problem["status"], problem["kafka_error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


@pytest.mark.parametrize("name", ["../x", "a/b", "a\0b", "", "..", "\u202e", "x" * 250])
def test_a_topic_that_cannot_be_is_not_created(api: ControlApi, name: str) -> None:
    assert api.problem("POST", "/topics", {"name": name})["kafka_error"] == "INVALID_TOPIC_EXCEPTION"
    assert api.problem("POST", "/produce", {"topic": name, "value": "a"})["kafka_error"] == "INVALID_TOPIC_EXCEPTION"
    assert api.done("GET", "/topics") == ["orders"]


@pytest.mark.parametrize("path", ["/nothing", f"{PREFIX}/nothing", f"{PREFIX}/topics/orders/", "/../etc/passwd"])
def test_an_unknown_path_says_where_the_paths_are(api: ControlApi, path: str) -> None:
    problem = problem_of(api.send("GET", path))
    assert problem["status"] == 404
    assert f"{PREFIX}/openapi.json" in problem["detail"]


@pytest.mark.parametrize("verb", ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE"])
def test_a_wrong_method_says_which_there_are(api: ControlApi, verb: str) -> None:
    answer = api.send(verb, f"{PREFIX}/topics")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET,POST")
    if verb != "HEAD":
        assert problem_of(answer)["detail"] == f"{verb} is none for {PREFIX}/topics; there are: GET,POST"


GARBAGE = {
    "words": b"GARBAGE\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a Kafka request": b"\x00\x00\x00\x14\x00\x12\x00\x00\x00\x00\x00\x01\x00\x0aadminclient",
    "another version": b"GET / HTTP/9.9\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\nHost: localhost\r\nno name\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
    "a long query": b"GET /metrics?" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    "a negative length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a chunk without a size": b"POST /api/v1/produce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_what_is_no_http_is_answered_with_a_problem_and_the_end_of_the_connection(api: ControlApi, name: str) -> None:
    with api.raw() as connection:
        connection.sendall(GARBAGE[name])
        received = b""
        try:
            while piece := connection.recv(65_536):
                received += piece
        except ConnectionResetError:
            assert received, "no answer came before the end"
    head, _, body = received.partition(b"\r\n\r\n")
    assert b" 400 " in head.split(b"\r\n")[0]
    assert b"application/problem+json" in head
    assert b" cannot be read" in body
    assert b"xxxx" not in body
    assert b"Traceback" not in body


def test_a_body_that_does_not_come_ends_its_request(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_serving, "READ_S", 0.05)
    with api.raw() as slow, slow.makefile("rb") as answer:
        slow.sendall(b"POST /api/v1/produce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        slow.sendall(b"Content-Length: 1000\r\n\r\n{")
        assert answer.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
    assert api.done("GET", "/topics") == ["orders"]


def test_headers_that_do_not_come_end_their_connection(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_serving, "IDLE_S", 0.05)
    with api.raw() as first:
        first.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
        assert first.recv(1) == b""
    with api.raw() as second, second.makefile("rb") as answers:
        second.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health/live HTTP/1.1\r\nHo")
        assert answers.read().count(b"HTTP/1.1") <= 1
    assert api.done("GET", "/topics") == ["orders"]


def test_headers_that_have_begun_have_as_long_as_a_body(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also bytes of them that come one by one give them no longer time; a connection without any may stay."""
    assert http_serving.READ_S == 10
    monkeypatch.setattr(http_serving, "READ_S", 0.05)
    with api.raw() as unused, api.raw() as slow, unused.makefile("rb") as answers:
        slow.sendall(b"G")
        slow.sendall(b"ET /metrics HTTP/1.1\r\nHost: loc")
        assert slow.recv(1) == b""
        for _ in range(2):
            unused.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            while answers.readline() != b"\r\n":
                pass
            assert answers.read(len(b'{"is_live": true}')) == b'{"is_live": true}'


def test_a_request_that_waits_is_served_after_the_time_for_headers(
    api: ControlApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_serving, "IDLE_S", 0.01)
    with api.raw() as waiting, waiting.makefile("rb") as answer:
        path = f"{PREFIX}/groups/none/wait-stable?members=1&timeout_ms=100"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n"
        waiting.sendall(head.encode())
        assert answer.readline() == b"HTTP/1.1 408 Request Timeout\r\n"


@pytest.mark.parametrize("path", ["/api/v1/produce", "/api/v1/topics"])
def test_an_unknown_expectation_is_answered_with_a_problem(api: ControlApi, path: str) -> None:
    answer = api.send("POST", path, b"{}", {**JSON, "Expect": "miracles"})
    assert answer.status == 417
    assert problem_of(answer)["detail"] == "the header Expect must be 100-continue"


def test_a_client_that_expects_100_continue_is_asked_for_the_body(api: ControlApi) -> None:
    with api.raw() as connection, connection.makefile("rb") as answer:
        connection.sendall(b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        connection.sendall(b"Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n")
        assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        connection.sendall(b"[]")
        assert answer.readline() == b"\r\n"
        assert answer.readline().startswith(b"HTTP/1.1 422 ")


def test_slow_clients_delay_no_other_and_end_with_the_server(api: ControlApi) -> None:
    with api.raw() as silent, api.raw() as half, api.raw() as bodiless:
        half.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
        bodiless.sendall(b"POST /api/v1/produce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        bodiless.sendall(b"Content-Length: 1000\r\n\r\n{")
        assert api.done("GET", "/topics") == ["orders"]
        half.sendall(b"alhost\r\nConnection: close\r\n\r\n")
        with half.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
        assert silent.fileno() > 0

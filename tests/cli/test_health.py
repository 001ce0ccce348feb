"""`kmini health`: an exit code that tells whether a broker answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

Serve = Callable[[bytes], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Listen, answer whatever comes with these bytes, and hang up; nothing at all is silence."""
    opened: list[socket.socket] = []

    def listen(answer: bytes) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        opened.append(listening)

        def answer_one() -> None:
            connection, _ = listening.accept()
            opened.append(connection)
            connection.recv(1024)
            if answer:
                connection.sendall(answer)
                connection.close()

        threading.Thread(target=answer_one, daemon=True).start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield listen
    for one in opened:
        one.close()


def test_a_broker_that_answers_is_healthy(run, broker) -> None:
    result = run("health", "-b", broker.bootstrap_servers)
    assert result.exit_code == 0
    assert result.stdout == f"{broker.bootstrap_servers} answers\n"


def test_the_broker_of_the_container_is_found_by_its_environment(run, broker) -> None:
    said = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092"}
    result = run("health", "--env", **said, KAFKA_LISTENERS=f"PLAINTEXT://{broker.bootstrap_servers}")
    assert result.exit_code == 0, result.stderr
    everywhere = f"PLAINTEXT://0.0.0.0:{broker.bootstrap_servers.rpartition(':')[2]}"
    assert run("health", "--env", **said, KAFKA_LISTENERS=everywhere).exit_code == 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "this is no Kafka broker"),
        (b"\0\0\0\6\0\0\0\1\0\0", "this is no Kafka broker"),
        (b"x", "this is no Kafka broker"),
        (b"", "timed out"),
    ],
)
def test_who_answers_otherwise_or_not_at_all_is_unhealthy(run, serve: Serve, answer: bytes, said: str) -> None:
    address = serve(answer)
    result = run("health", "-b", address, "--timeout-ms", 50 if not answer else 10_000)
    assert result.exit_code == 1
    assert result.stderr == f"kmini: {address} does not answer: {said}\n"


def test_nobody_is_unhealthy(run) -> None:
    result = run("health", "-b", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr == "kmini: 127.0.0.1:1 does not answer: Connection refused\n"


@pytest.mark.parametrize("address", ["localhost", ":9092", "host:port"])
def test_an_address_that_is_none_is_wrong_usage(run, address: str) -> None:
    result = run("health", "-b", address)
    assert result.exit_code == 2
    assert "HOST:PORT was expected" in result.stderr


def test_any_free_port_in_the_environment_is_one_that_health_cannot_know(run) -> None:
    result = run("health", "--env", PATH="", KAFKA_LISTENERS="PLAINTEXT://:0")
    assert result.exit_code == 2
    assert "PLAINTEXT://:0 stands for any free port, which kmini health cannot know" in result.stderr
    result = run("health", "--env", PATH="", KMINI_HTTP="0")
    assert result.exit_code == 2
    assert "KMINI_HTTP=0 stands for any free port, which kmini health cannot know; give it a number" in result.stderr


MISSING = b'HTTP/1.0 503 Service Unavailable\r\n\r\n{"is_ready": false, "missing": ["topic orders", "a seed"]}'


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (MISSING, "topic orders, a seed"),
        (b"HTTP/1.1 200 OK\r\n\r\n", ""),
        (b"HTTP/1.1 404 Not Found\r\n\r\n{}", "this is no control API"),
        (b"SSH-2.0-none\r\n", "this is no control API"),
    ],
    ids=["missing", "ready", "not found", "another program"],
)
def test_a_container_is_healthy_when_its_control_api_says_that_all_is_ready(
    run, broker, serve: Serve, answer: bytes, said: str
) -> None:
    http = serve(answer)
    result = run(
        "health",
        "--env",
        KAFKA_LISTENERS=f"PLAINTEXT://{broker.bootstrap_servers}",
        KMINI_HTTP=http.rpartition(":")[2],
        KMINI_HTTP_HOST="127.0.0.1",
    )
    assert result.exit_code == (1 if said else 0)
    assert result.stderr == (f"kmini: http://{http}/health: {said}\n" if said else "")


def test_a_control_api_that_does_not_listen_is_unhealthy(run, broker) -> None:
    listeners = f"PLAINTEXT://{broker.bootstrap_servers}"
    result = run("health", "--env", KAFKA_LISTENERS=listeners, KMINI_HTTP="1", KMINI_HTTP_HOST="127.0.0.1")
    assert (result.exit_code, result.stderr) == (1, "kmini: http://127.0.0.1:1/health: Connection refused\n")

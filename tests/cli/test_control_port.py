"""`kmini serve --http`: when the control API is served, where, with which token, and what clients of Kafka wait for."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kmini
from support.server_process import answers
from support.until import until

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/(#token=(\S+))?\n")


class Api(NamedTuple):
    """A control API, and the token that it wants."""

    port: int
    token: str = ""

    def ask(self, verb: str, path: str, document: Any = None, **headers: str) -> tuple[int, Any]:
        """The status of an answer, and its JSON."""
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if document is not None:
            headers["Content-Type"] = "application/json"
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


Begin = Callable[..., tuple[Any, list[str], Api]]


@pytest.fixture
def begin(start) -> Begin:
    """Start `kmini serve --http 0` with more arguments: the process, the addresses of its brokers, and the API."""

    def serve(*arguments: object, brokers: int = 1, **options: Any) -> tuple[Any, list[str], Api]:
        process = start("serve", "--port", 0, "--http", 0, "--brokers", brokers, *arguments, **options)
        addresses = [process.stdout.readline().strip() for _ in range(brokers)]
        link = LINK.fullmatch(process.stdout.readline())
        assert link
        return process, addresses, Api(int(link[1]), link[3] or "")

    return serve


def test_the_control_api_steers_the_broker_that_clients_reach(begin: Begin, run) -> None:
    _, (address,), api = begin("--topic", "orders:2")
    assert api.ask("GET", "/health") == (200, {"is_ready": True, "missing": []})
    run("produce", "orders", "-b", address, stdin="one\n")
    status, records = api.ask("GET", "/api/v1/topics/orders/records")
    assert (status, [record["value"] for record in records]) == (200, ["one"])
    assert api.ask("GET", "/api/v1")[1]["addresses"] == {"1": address}


def test_it_steers_several_brokers(begin: Begin) -> None:
    _, addresses, api = begin("--topic", "orders:1", "-c", "default.replication.factor=3", brokers=3)
    assert api.ask("GET", "/api/v1/brokers") == (200, [1, 2, 3])
    leader = api.ask("GET", "/api/v1/topics/orders/leader?partition=0")[1]
    assert api.ask("POST", f"/api/v1/brokers/{leader}/kill", {})[0] < 300
    assert api.ask("GET", "/health") == (503, {"is_ready": False, "missing": [f"broker {leader} does not run"]})
    assert [answers(*address.rsplit(":", 1)) for address in addresses].count(False) == 1
    assert api.ask("POST", f"/api/v1/brokers/{leader}/restart", {})[0] < 300
    assert api.ask("GET", "/health")[0] == 200


def test_a_broker_that_was_stopped_by_the_api_ends_in_order_and_comes_back_where_it_was(begin: Begin, stop) -> None:
    process, (address,), api = begin()
    assert api.ask("POST", "/api/v1/stop", {})[0] == 204
    assert not answers(*address.rsplit(":", 1))
    assert api.ask("POST", "/api/v1/start", {})[0] == 204
    assert answers(*address.rsplit(":", 1))
    assert api.ask("POST", "/api/v1/stop", {})[0] == 204
    assert stop(process)[0] == 0


HELD = """
import os, sys, time
from kmini.cli import http_ports
from kmini.cli.serve import serve

go, found = sys.argv.pop(1), http_ports.import_module

def import_later(name):
    while not os.path.exists(go):
        time.sleep(0.001)
    return found(name)

http_ports.import_module = import_later
serve()
"""
"""`kmini serve`, in which the control server is imported once a file is there."""


def test_clients_of_kafka_are_answered_before_the_control_server_is_in_memory_and_the_api_waits(tmp_path: Path) -> None:
    files = go, port_file = tmp_path / "go", tmp_path / "http-port"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = ["--port", "0", "--http", str(port), "--http-port-file", str(port_file)]
    with subprocess.Popen(
        [sys.executable, "-c", HELD, str(go), *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert answers(*process.stdout.readline().strip().rsplit(":", 1))
            early: list[tuple[int, Any]] = []
            asks = threading.Thread(target=lambda: early.append(Api(port).ask("GET", "/health")))
            asks.start()
            assert not early
            assert not port_file.exists()
            go.touch()
            asks.join(60)
            assert early == [(200, {"is_ready": True, "missing": []})]
            until(port_file.exists, "the port is not written")
            assert port_file.read_text() == f"{port}\n"
        finally:
            process.terminate()
    assert [file.name for file in files if file.exists()] == ["go"]


def modules_after(program: str) -> set[str]:
    """The modules in memory at the end of a program, in a process of its own."""
    words = [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.split())


def test_a_broker_with_a_control_api_starts_without_rules_and_metrics() -> None:
    imported = modules_after("import kmini.control.managed_brokers")
    later = ("kmini.broker.faults", "kmini.broker.metrics_text")
    assert not [name for name in imported if name.startswith((*later, "h11", "shutil", "difflib"))]


def test_the_server_keeps_out_of_memory_what_of_kmini_it_does_not_use() -> None:
    imported = modules_after("import kmini.control.control_server")
    assert "kmini.control.control_server" in imported
    assert not [name for name in imported if name.startswith(("kmini.client.", "kmini.remote"))]


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_client_that_waits_does_not_delay_the_end(begin: Begin, stop, brokers: int) -> None:
    process, _, api = begin("--topic", "orders:1", brokers=brokers)
    ended: list[tuple[int, Any]] = []

    def wait() -> None:
        ended.append(api.ask("POST", "/api/v1/topics/orders/wait-for", {"wanted": 1, "timeout_ms": 600_000}))

    waiter = threading.Thread(target=wait)
    waiter.start()
    purgatory = "/api/v1/brokers/1/purgatory"
    until(lambda: api.ask("GET", purgatory)[1]["waiting"] > 0, "the wait does not begin")
    code, stderr = stop(process)
    assert code == 0
    assert "stopped" in stderr
    waiter.join(30)
    assert [(status, problem["detail"]) for status, problem in ended] == [(409, "the control server has stopped")]


# --- addresses and tokens


def test_a_taken_port_is_told_before_anything_starts(run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", 0, "--http", port, "--data-dir", data)
    assert result.exit_code == 2
    assert result.stderr == (
        f"kmini serve: cannot listen on HTTP://127.0.0.1:{port}: Address already in use; stop the program that listens "
        "there, or choose another port with --http (0 takes any free one) (kmini serve --help explains)\n"
    )
    assert not data.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--http", "x"), "'x' is not a valid integer"),
        (("--http", 65536), "65536 is not in the range"),
        (("--http-host", "127.0.0.1"), "--http-host: there is no control API without --http PORT"),
        (("--http-port-file", "port"), "--http-port-file: there is no control API without --http PORT"),
        (("--http", 0, "--http-host", "203.0.113.1"), "choose an address of this machine with --http-host"),
    ],
)
def test_wrong_arguments_are_one_sentence(run, arguments: tuple[object, ...], said: str) -> None:
    result = run("serve", "--port", 0, *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr


def test_without_the_extra_it_says_what_to_install(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kmini.testkit.installed.find_spec", lambda name: None)
    result = run("serve", "--port", 0, "--http", 0)
    assert result.exit_code == 2
    assert "h11 is not installed; pip install '.[http]'" in result.stderr


def test_beyond_loopback_it_makes_a_token_which_the_link_alone_tells(begin: Begin, stop) -> None:
    process, _, api = begin("--http-host", "0.0.0.0", "--log-level", "debug")
    assert len(api.token) > 30
    status, problem = Api(api.port).ask("GET", "/api/v1")
    assert (status, problem["type"]) == (401, "urn:kmini:problem:token")
    assert Api(api.port).ask("GET", "/health")[0] == 200
    assert Api(api.port, "guessed").ask("GET", "/api/v1")[0] == 401
    assert api.ask("GET", "/api/v1")[0] == 200
    assert api.ask("POST", "/api/v1/topics", {"nmae": api.token})[0] == 422
    assert api.token not in stop(process)[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_token_of_the_environment_is_needed_at_every_address_and_printed_nowhere(
    begin: Begin, stop, host: str
) -> None:
    token = "s3cret-of-the-team"
    environ = {**os.environ, "KMINI_HTTP_TOKEN": f" {token} "}
    process, _, api = begin("--http-host", host, "--log-level", "debug", env=environ)
    assert api.token == ""
    assert api.ask("GET", "/api/v1")[0] == 401
    assert Api(api.port, token).ask("GET", "/api/v1")[0] == 200
    assert token not in stop(process)[1]


def test_a_container_has_it_where_its_variables_say(start, stop, run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        kafka, http = first.getsockname()[1], second.getsockname()[1]
    environ = {
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{kafka}",
        "KAFKA_CREATE_TOPICS": "orders:1:1",
        "KMINI_HTTP": str(http),
        "KMINI_HTTP_HOST": "127.0.0.1",
    }
    process = start("serve", "--env", "--data-dir", tmp_path / "data", env={**environ, "PATH": ""})
    assert process.stdout.readline() == f"127.0.0.1:{kafka}\n"
    assert process.stdout.readline().startswith("ready: ")
    assert process.stdout.readline() == f"http://127.0.0.1:{http}/\n"
    assert Api(http).ask("GET", "/api/v1/topics") == (200, ["orders"])
    assert run("health", "--env", **environ).exit_code == 0
    assert Api(http).ask("POST", "/api/v1/stop", {})[0] == 204
    assert run("health", "--env", **environ).exit_code == 1
    stop(process)


def test_a_container_listens_at_every_address_and_its_link_has_a_token(start, tmp_path: Path) -> None:
    environ = {"KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0", "KMINI_HTTP": "0", "PATH": ""}
    process = start("serve", "--env", "--data-dir", tmp_path / "data", env=environ)
    lines = [process.stdout.readline() for _ in range(3)]
    link = LINK.fullmatch(lines[-1])
    assert link
    assert link[3]
    assert Api(int(link[1]), link[3]).ask("GET", "/api/v1")[0] == 200


def test_what_others_reach_is_served_by_tls_where_the_broker_has_it(start, stop, tmp_path, monkeypatch) -> None:
    everywhere = ("--http-host", "0.0.0.0", "--registry", 0, "--registry-host", "0.0.0.0")
    data = ("--data-dir", tmp_path, "--tls", "auto")
    process = start("serve", "--port", 0, "--http", 0, *everywhere, *data)
    _, registry, link = (process.stdout.readline().strip() for _ in range(3))
    registry = registry.rpartition(" ")[2]
    url, _, token = link.partition("#token=")
    authority = ssl.create_default_context(cafile=tmp_path / "security" / "authority.pem")
    asked = urllib.request.Request(f"{url}api/v1/topics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=60, context=authority) as answer:
        assert answer.status == 200
    with urllib.request.urlopen(f"{registry}/subjects", timeout=60, context=authority) as answer:
        assert json.load(answer) == []
    assert (url[:8], registry[:8]) == ("https://", "https://")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "security" / "authority.pem"))
    with kmini.connect(url, token=token) as broker:
        broker.create_topic("orders")
        assert broker.topics() == ["orders"]
    with pytest.raises(OSError):  # it does not speak plaintext
        urllib.request.urlopen(f"http{registry[5:]}/subjects", timeout=60)
    assert stop(process)[0] == 0


def test_made_certificates_are_for_the_hosts_of_the_other_ports(start, stop, tmp_path) -> None:
    elsewhere = ("--http", 0, "--http-host", "127.0.0.2", "--registry", 0, "--registry-host", "127.0.0.3")
    process = start("serve", "--port", 0, "--tls", "auto", "--data-dir", tmp_path, *elsewhere)
    host, _, port = process.stdout.readline().strip().rpartition(":")
    authority = ssl.create_default_context(cafile=tmp_path / "security" / "authority.pem")
    for name in (host, "127.0.0.2", "127.0.0.3"):
        with (
            socket.create_connection((host, int(port)), 30) as plain,
            authority.wrap_socket(plain, server_hostname=name),
        ):
            pass  # the names were compared
    assert stop(process)[0] == 0


def test_what_this_machine_alone_reaches_stays_as_it_is(start, stop, tmp_path) -> None:
    process = start("serve", "--port", 0, "--http", 0, "--data-dir", tmp_path, "--tls", "auto")
    _, link = (process.stdout.readline().strip() for _ in range(2))
    with urllib.request.urlopen(f"{link}health", timeout=60) as answer:
        assert answer.status == 200
    assert stop(process)[0] == 0

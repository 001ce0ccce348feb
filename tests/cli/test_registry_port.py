"""`kmini serve --registry`: where the schema registry is served, and how it is told (`kmini.cli.http_ports`)."""

from __future__ import annotations

import json
import os
import re
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import kmini
from support.until import until

TOLD = re.compile(r"schema registry (http://127\.0\.0\.1:(\d+))\n")


def ask(url: str, path: str, document: Any = None, verb: str = "GET") -> Any:
    data = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=verb)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def url_of(process: Any, brokers: int = 1) -> str:
    """The address of the registry, from the lines that a process prints."""
    for _ in range(brokers):
        process.stdout.readline()
    told = TOLD.fullmatch(process.stdout.readline())
    assert told
    return told[1]


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_registry_is_served_in_front_of_brokers(start, run, brokers: int) -> None:
    process = start("serve", "--port", 0, "--brokers", brokers, "--registry", 0)
    addresses = [process.stdout.readline().strip() for _ in range(brokers)]
    url = url_of(process, 0)
    assert ask(url, "/config", {"compatibility": "FULL"}, "PUT") == {"compatibility": "FULL"}
    assert ask(url, "/config") == {"compatibilityLevel": "FULL"}
    consumed = run("consume", "_schemas", "-b", addresses[0])
    assert '{"compatibilityLevel":"FULL"}' in consumed.stdout


def test_what_was_registered_survives_a_kill(start, tmp_path: Path) -> None:
    schema = {"schema": 'syntax = "proto3"; message Order { int64 id = 1; }', "schemaType": "PROTOBUF"}
    options = ("serve", "--port", 0, "--registry", 0, "--data-dir", tmp_path / "data")
    process = start(*options)
    url = url_of(process)
    assert ask(url, "/subjects/orders-value/versions", schema, "POST")["id"] == 1
    ask(url, "/config", {"compatibility": "FULL"}, "PUT")
    before = ask(url, "/schemas")
    process.kill()
    process.wait(30)
    url = url_of(start(*options))
    assert (ask(url, "/schemas"), ask(url, "/config")) == (before, {"compatibilityLevel": "FULL"})
    assert ask(url, "/subjects/orders-value/versions", schema, "POST")["id"] == 1


def test_the_port_is_in_a_file_until_the_end(start, tmp_path: Path) -> None:
    file = tmp_path / "port"
    process = start("serve", "--port", 0, "--registry", 0, "--registry-port-file", file)
    until(file.exists)
    assert ask(f"http://127.0.0.1:{int(file.read_text())}", "/subjects") == []
    process.terminate()
    assert process.wait(30) == 0
    assert not file.exists()


def test_the_control_api_is_ready_when_the_registry_is(start) -> None:
    process = start("serve", "--port", 0, "--registry", 0, "--http", 0)
    url = url_of(process)
    link = process.stdout.readline().strip()
    assert ask(link, "health") == {"is_ready": True, "missing": []}
    assert ask(url, "/subjects") == []
    with kmini.connect(link) as broker:
        assert broker.registry_url == broker.aio.registry_url == url


def test_a_taken_port_is_told(run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("serve", "--port", 0, "--registry", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "stop the program that listens there, or choose another port with --registry" in result.stderr


@pytest.mark.parametrize("option", ["--registry-host", "--registry-port-file"])
def test_an_option_of_a_registry_needs_one(run, option: str) -> None:
    result = run("serve", "--port", 0, option, "x")
    assert result.exit_code == 2
    assert f"{option}: there is no schema registry without --registry PORT" in result.stderr


def test_a_registry_needs_its_extra(monkeypatch: pytest.MonkeyPatch, run) -> None:
    import click

    from kmini.cli.http_ports import RegistryPort

    monkeypatch.setattr("kmini.testkit.installed.find_spec", lambda name: None if name == "avro" else object())
    with pytest.raises(click.UsageError, match=r"avro is not installed; pip install '\.\[registry\]'"):
        RegistryPort("127.0.0.1", 0)


def test_the_environment_of_a_container_asks_for_a_registry(start) -> None:
    environ = {
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KMINI_SCHEMA_REGISTRY": "0",
        "KMINI_SCHEMA_REGISTRY_HOST": "127.0.0.1",
    }
    process = start("serve", "--env", env={**os.environ, **environ})
    lines = iter(process.stdout.readline, "")
    told = next(match for line in lines if (match := TOLD.fullmatch(line)))
    assert ask(told[1], "/subjects") == []

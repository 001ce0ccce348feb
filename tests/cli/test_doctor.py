"""`kmini doctor`: what it prints and its exit codes."""

from __future__ import annotations

import json
import socket

import pytest

from kmini import Broker


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
    return port


def test_a_healthy_broker_is_exit_code_0_and_no_warning(run, broker: Broker) -> None:
    result = run("doctor", broker.bootstrap_servers)
    assert (result.exit_code, result.stderr) == (0, "kmini: 0 failures, 0 warnings\n")
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert lines[0] == ["check", "level", "finding", "text", "change"]
    assert lines[1][:3] == ["reach", "ok", "reached"]


def test_a_failure_is_exit_code_1_and_json_has_its_name(run, broker: Broker, free_port: int) -> None:
    broker.advertise("127.0.0.1", free_port)
    result = run("doctor", broker.bootstrap_servers, "--format", "json")
    assert (result.exit_code, result.stderr) == (1, "kmini: 1 failure, 0 warnings\n")
    (failed,) = [one for one in json.loads(result.stdout) if one["level"] == "fail"]
    assert (failed["check"], failed["finding"]) == ("addresses", "nothing-listens")
    assert "advertised.listeners" in failed["change"]


def test_an_address_without_a_broker_is_exit_code_3(run, free_port: int) -> None:
    result = run("doctor", f"127.0.0.1:{free_port}")
    assert result.exit_code == 3
    assert result.stdout.splitlines()[1].split("\t")[:3] == ["reach", "fail", "nothing-answers"]


def test_text_that_is_no_address_is_wrong_usage(run) -> None:
    result = run("doctor", "localhost:port")
    assert result.exit_code == 2
    assert result.stderr == (
        "kmini doctor: 'localhost:port' is no address: host:port was expected (kmini doctor --help explains)\n"
    )


def test_the_address_may_come_from_the_environment(run, broker: Broker) -> None:
    assert run("doctor", KAFKA_BOOTSTRAP_SERVERS=broker.bootstrap_servers).exit_code == 0


def test_credentials_come_from_a_file_as_of_the_other_commands(run, broker: Broker, tmp_path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=TLS\n", encoding="utf-8")
    result = run("doctor", broker.bootstrap_servers, "--command-config", config)
    assert result.exit_code == 2
    assert "security.protocol=TLS is none of PLAINTEXT, SSL" in result.stderr


def test_a_terminal_gets_paragraphs_no_wider_than_it_is(on_terminal, broker: Broker, free_port: int) -> None:
    broker.advertise("127.0.0.1", free_port)
    lines = on_terminal("doctor", broker.bootstrap_servers, width=90, streams=("stdout",), code=1).splitlines()
    assert lines[0].startswith(" reach      ok     127.0.0.1:")
    assert any(line.startswith(" addresses  FAIL   you asked 127.0.0.1:") for line in lines)
    assert max(map(len, lines)) <= 90
    assert any(line.startswith("                   -> start that broker") for line in lines)


def test_what_a_broker_advertises_cannot_drive_the_terminal(on_terminal, broker: Broker) -> None:
    broker.advertise("\x1b[2Jkafka", 9092)
    printed = on_terminal("doctor", broker.bootstrap_servers, streams=("stdout",), code=1)
    assert "\x1b" not in printed
    assert "\\x1b[2Jkafka" in printed


def test_text_has_ten_findings_alike_and_json_has_all(run, broker: Broker) -> None:
    broker.create_topic("orders")
    broker.produce("orders", b"placed")
    for number in range(12):
        broker.group(f"group-{number}").commit({("orders", 0): 0})
    result = run("doctor", broker.bootstrap_servers)
    assert result.stdout.count("group-without-members") == 10
    assert result.stderr == "kmini: 0 failures, 12 warnings; 2 more like those printed, with --format json\n"
    result = run("doctor", broker.bootstrap_servers, "--format", "json")
    assert result.stdout.count("group-without-members") == 12

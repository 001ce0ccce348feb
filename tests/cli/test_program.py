"""The program as a whole: help, sentences, exit codes, imports, and calls of brokers (cli/broker_call.py)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kmini import Broker
from support.until import PATIENCE

COMMANDS = ["serve", "topic", "group", "config", "produce", "consume", "delete-records", "log", "health"]
LEAVES = [
    ["serve"],
    ["topic", "create"],
    ["topic", "list"],
    ["topic", "describe"],
    ["topic", "alter"],
    ["topic", "delete"],
    ["group", "list"],
    ["group", "describe"],
    ["group", "reset"],
    ["group", "delete"],
    ["config", "describe"],
    ["config", "alter"],
    ["produce"],
    ["consume"],
    ["delete-records"],
    ["log", "dump"],
    ["health"],
    ["doctor"],
]


def modules_after(*arguments: str) -> set[str]:
    """The modules a fresh process has imported after it ran `kmini` with these arguments, as users run it."""
    code = "import sys; from kmini.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    environment = {name: value for name, value in os.environ.items() if name != "KMINI_PURE"}
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return set(finished.stderr.splitlines()[-1].split())


def test_help_names_every_command(run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_the_help_of_every_command_shows_an_example(run, command: list[str]) -> None:
    result = run(*command, "-h")
    assert result.exit_code == 0
    assert f"  kmini {' '.join(command)}" in result.stdout.partition("Options:")[0].partition("\n")[2]


def test_help_imports_no_command() -> None:
    imported = modules_after("--help")
    heavy = ("kmini.cli.", "kmini.broker", "kmini.client", "rich")
    assert {name for name in imported if name.startswith(heavy)} == {"kmini.cli.output", "kmini.cli.escaping"}


def test_serve_imports_neither_client_nor_what_draws_tables_nor_an_embedded_broker() -> None:
    imported = modules_after("serve", "-c", "log.retention.ms=never")
    assert "kmini.broker.settings.broker_config" in imported
    assert not {name for name in imported if name.startswith(("kmini.client", "rich", "kmini.testkit.embedded"))}


def test_a_health_check_imports_neither_broker_nor_client() -> None:
    imported = modules_after("health", "-b", "127.0.0.1:1")
    heavy = ("kmini.broker", "kmini.client", "kmini.protocol", "rich")
    assert not {name for name in imported if name.startswith(heavy)}


@pytest.mark.parametrize(
    "command", [["topic", "list", "-b", "127.0.0.1:1"], ["doctor", "127.0.0.1:1"]], ids=["topic", "doctor"]
)
def test_commands_that_ask_import_no_broker(command: list[str]) -> None:
    imported = modules_after(*command)
    assert "kmini.client" in imported
    assert not {name for name in imported if name.startswith(("kmini.broker", "kmini.storage", "rich", "uvloop"))}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["sevre"],
            "there is no command 'sevre' (did you mean 'serve'?), the commands are serve, topic, group",
        ),
        (["--verison"], "--verison"),
        (["topic", "create"], "NAME[:PARTITIONS[:compact]]..."),
        (["topic", "crate"], "crate"),
        (["consume", "t", "--count", "0"], "0 is not in the range"),
        (["produce", "t", "-z", "zip"], "'zip' is not one of"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(run, arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("kmini")
    assert said in result.stderr
    assert "--help explains" in result.stderr
    assert not result.stdout


def test_without_a_command_it_shows_its_help_and_fails(run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_python_m_kmini_is_the_same_program() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "kmini", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert finished.stdout.startswith("kmini ")


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "list"],
        ["group", "describe", "g"],
        ["group", "delete", "g"],
        ["consume", "t"],
        ["produce", "t"],
        ["delete-records", "t:0:1"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_without_a_broker_the_remedy_is_told(run, command: list[str]) -> None:
    result = run(*command, "--bootstrap-server", "127.0.0.1:1", stdin="line\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("kmini: no broker answers: cannot connect to 127.0.0.1:1: Connection refused")
    assert "kmini serve starts a broker" in result.stderr
    assert len(result.stderr.splitlines()) == 1


ASKING = [
    ["topic", "create", "t"],
    ["topic", "list"],
    ["topic", "describe"],
    ["topic", "alter", "t", "-p", "2"],
    ["topic", "delete", "t"],
    ["group", "list"],
    ["group", "describe"],
    ["group", "reset", "g", "t", "--to-latest"],
    ["group", "delete", "g"],
    ["txn", "list"],
    ["txn", "describe"],
    ["txn", "abort", "t"],
    ["config", "describe", "topic", "t"],
    ["config", "alter", "topic", "t", "-c", "retention.ms=1"],
    ["produce", "t"],
    ["consume", "t"],
    ["delete-records", "--before", "2026-01-31T12:00:00Z", "t"],
]
"""A call of every command that asks a broker by itself."""


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("command", ASKING, ids=lambda command: " ".join(command[:2]))
def test_every_command_that_asks_a_broker_ends_after_its_time_out(run, silent_address: str, command: list[str]) -> None:
    # short: a command that has no time to connect says so in another sentence, and ends as well
    result = run(*command, "-b", silent_address, "--timeout-ms", 100, stdin="line\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("kmini: no broker answers: ")


def test_an_address_that_accepts_connections_and_does_not_answer_is_told(run, silent_address: str) -> None:
    # short: the address has accepted the connection before the command asks for it
    result = run("topic", "list", "-b", silent_address, "--timeout-ms", 1_000 * PATIENCE)
    *_, last = result.stderr.splitlines()  # one before it may say that the command still tries
    assert last == (
        f"kmini: no broker answers: {silent_address} accepts connections but does not answer as a Kafka broker; "
        "kmini serve starts a broker, --bootstrap-server HOST:PORT names another one"
    )


@pytest.mark.parametrize(
    "command",
    [*ASKING, ["archive", "t", "out"], ["audit", "data"], ["pipeline", "run"]],
    ids=lambda command: " ".join(command[:2]),
)
def test_every_command_that_asks_a_broker_waits_ten_seconds_by_default(run, command: list[str]) -> None:
    names = command[: 1 if command[0] in ("produce", "consume", "delete-records", "archive", "audit") else 2]
    (told,) = [told for told in run(*names, "--help").stdout.split("--") if told.startswith("timeout-ms MS")]
    assert "[default: 10000" in " ".join(told.split())


def test_a_wrong_advertised_listener_is_told_with_the_broker_that_names_it(run) -> None:
    with Broker(config={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}, topics={"t": 1}) as broker:
        result = run("consume", "t", "-b", broker.bootstrap_servers, "--timeout-ms", 1_000 * PATIENCE)
        address = broker.bootstrap_servers
    assert result.exit_code == 1
    *_, last = result.stderr.splitlines()
    assert last == (
        f"kmini: cannot connect to broker 1 at 127.0.0.1:1, as {address} advertises it: Connection refused; "
        "is that broker down, or its advertised.listeners wrong?"
    )


def test_a_wrong_advertised_listener_is_told_while_the_command_still_tries(run, monkeypatch) -> None:
    monkeypatch.setattr("kmini.client.cluster_connections.REPORT_AFTER_MS", 1)
    with Broker(config={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}, topics={"t": 1}) as broker:
        result = run("consume", "t", "-b", broker.bootstrap_servers, "--timeout-ms", 1_000 * PATIENCE)
        address = broker.bootstrap_servers
    early = [line for line in result.stderr.splitlines() if line.endswith("(still trying)")]
    assert sum(f"broker 1 at 127.0.0.1:1, as {address} advertises it" in line for line in early) == 1


def test_an_address_that_is_none_is_wrong_usage(run) -> None:
    result = run("topic", "list", "--bootstrap-server", "here:port")
    assert result.exit_code == 2
    assert "'here:port' is no address: host:port was expected" in result.stderr


def test_an_error_that_a_broker_answers_is_one_sentence_and_exit_code_1(run, broker: Broker) -> None:
    for command in (["topic", "describe", "none"], ["group", "describe", "none"], ["consume", "none"]):
        result = run(*command, "--bootstrap-server", broker.bootstrap_servers)
        assert (result.exit_code, result.stderr[:7], result.stderr.count("\n")) == (1, "kmini: ", 1), result.stderr


def test_a_fault_of_our_own_is_a_sentence_too(run, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the unforeseen")

    monkeypatch.setattr("kmini.cli.topic.ask", fail)
    result = run("topic", "list")
    assert result.exit_code == 1
    assert result.stderr == (
        "kmini: a fault in kmini itself, RuntimeError: the unforeseen (KMINI_TRACEBACK=1 shows where)\n"
    )
    assert isinstance(run("topic", "list", KMINI_TRACEBACK="1").exception, RuntimeError)


def test_ctrl_c_is_exit_code_130_without_a_word(run, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kmini.cli.topic.ask", interrupt)
    result = run("topic", "list")
    assert result.exit_code == 130
    assert not result.stderr.strip()

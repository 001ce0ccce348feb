"""Output that cannot be written: a sentence, no fault; a closed pipe: no word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kmini.cli.output import CLOSED_PIPE

COMMANDS = [
    ["topic", "list"],
    ["topic", "describe"],
    ["topic", "describe", "--format", "json"],
    ["consume", "t"],
    ["consume", "t", "--format", "json"],
    ["consume", "t", "--follow"],
    ["help"],
]


@pytest.fixture
def address(broker) -> str:
    broker.produce("t", b"v" * 100)
    return broker.bootstrap_servers


def run_into(output: object, command: list[str], address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kmini", *command],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": address},
    )  # type: ignore[call-overload, no-any-return]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_told_and_is_exit_code_1(command: list[str], address: str) -> None:
    with open("/dev/full", "wb") as full:
        finished = run_into(full, command, address)
    assert finished.stderr == "kmini: cannot write the output: No space left on device\n"
    assert finished.returncode == 1


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_closed_pipe_ends_a_command_without_a_word(command: list[str], address: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        finished = run_into(writing, command, address)
    finally:
        os.close(writing)
    assert finished.stderr == ""
    assert finished.returncode == CLOSED_PIPE


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_output_that_was_closed_before_is_told(command: list[str], address: str) -> None:
    finished = run_in_shell(command, ">&-", address)
    assert finished.stderr == "kmini: cannot write the output: it is closed\n"
    assert finished.returncode == 1


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_input_that_was_closed_before_is_told(address: str) -> None:
    finished = run_in_shell(["produce", "t"], "<&-", address)
    assert "kmini produce: standard input is closed: --file FILE" in finished.stderr
    assert finished.returncode == 2


def run_in_shell(command: list[str], redirection: str, address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "kmini", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": address},
    )


def test_records_that_could_not_be_printed_are_not_committed(address: str, run) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        finished = run_into(writing, ["consume", "t", "--group", "g"], address)
    finally:
        os.close(writing)
    assert finished.returncode == CLOSED_PIPE
    assert "GROUP_ID_NOT_FOUND" in run("group", "describe", "g", "-b", address).stderr

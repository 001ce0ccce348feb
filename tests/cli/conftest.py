"""The command line in this process and in one of its own, and a broker to talk to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from kmini import Broker
from kmini.cli import kmini


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run `kmini` with these arguments in this process."""

    def invoke(*arguments: object, stdin: str | bytes | None = None, **environment: str) -> Result:
        runner = CliRunner(env={"KAFKA_BOOTSTRAP_SERVERS": None, **environment})
        return runner.invoke(kmini, [str(argument) for argument in arguments], input=stdin, prog_name="kmini")

    return invoke


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def ask(run: Callable[..., Result], broker: Broker) -> Callable[..., Result]:
    """Run a command that is to succeed, against `broker`."""

    def invoke(*arguments: object, stdin: str | bytes | None = None) -> Result:
        result = run(*arguments, stdin=stdin, KAFKA_BOOTSTRAP_SERVERS=broker.bootstrap_servers)
        assert result.exit_code == 0, result.stderr
        return result

    return invoke


@pytest.fixture
def refuse(run: Callable[..., Result], broker: Broker) -> Callable[..., str]:
    """Run a command that is to fail, against `broker`; the sentence that it says."""

    def invoke(*arguments: object, code: int, stdin: str | bytes | None = None) -> str:
        result = run(*arguments, stdin=stdin, KAFKA_BOOTSTRAP_SERVERS=broker.bootstrap_servers)
        assert result.exit_code == code, result.output
        assert isinstance(result.exception, SystemExit)
        lines: list[str] = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        return lines[0]

    return invoke


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `kmini` in a process of its own, which ends with the test."""
    started = []

    def launch(*arguments: object, **options: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kmini", *map(str, arguments)]
        options.setdefault("env", {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("scratch"))})
        process: subprocess.Popen[str] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )  # type: ignore[call-overload]
        started.append(process)
        return process

    yield launch
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def stop() -> Callable[[subprocess.Popen[str]], tuple[int, str]]:
    """End a process that serves; its exit code and what it said on stderr."""

    def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str]:
        os.kill(process.pid, number)
        _, stderr = process.communicate(timeout=30)
        return process.returncode, stderr

    return end

"""A Kafka-speaking server of any make as a child process.

The one thing asked of a launch command: its first line on stdout is the address. Ready means that it answers there.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from support import apache_kafka
from support.until import until

API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 7, -1)
PORT = "{port}"
"""Stands in a launch command for the port: 0 at first, unless given, and afterwards the one the server chose."""


def kmini_command(data_dir: Path, config: dict[str, str]) -> list[str]:
    command = [sys.executable, "-m", "kmini", "serve", "--port", PORT, "--data-dir", str(data_dir)]
    return command + [part for key, value in config.items() for part in ("-c", f"{key}={value}")]


def kafka_command(data_dir: Path, config: dict[str, str], *flags: str) -> list[str]:
    command = [sys.executable, apache_kafka.__file__, "--port", PORT, "--data-dir", str(data_dir), *flags]
    return command + [part for key, value in config.items() for part in ("-c", f"{key}={value}")]


def answers(host: str, port: int, timeout: float = 2.0) -> bool:
    """Say whether a broker answers an ApiVersions request there."""
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(API_VERSIONS_V0)
            return connection.recv(10, socket.MSG_WAITALL)[4:] == struct.pack(">ih", 7, 0)
    except OSError:
        return False


_written_before: dict[Path, int] = {}
"""The logs of all servers of this run, and how long each was when the test under way began."""


def test_begins() -> None:
    for log in _written_before:
        _written_before[log] = log.stat().st_size if log.exists() else 0


def logs_since_test_began() -> Iterator[str]:
    """What servers have written during the test under way."""
    for log, length in _written_before.items():
        if log.exists():
            yield log.read_bytes()[length:].decode(errors="replace")


class ServerProcess:
    """One server, started when constructed, with its own data directory; stderr goes to `log`.

    A server that prints no address is given a port. One with TLS is not asked whether it answers.
    """

    def __init__(
        self, command: list[str], log: Path, *, port: int = 0, start_timeout: float = 90.0, has_tls: bool = False
    ) -> None:
        self.command = command
        self.log = log
        self.start_timeout = start_timeout
        self._has_tls = has_tls
        self.host, self.port = "127.0.0.1", port
        self._says_its_address = port == 0
        self._process: subprocess.Popen[bytes] | None = None
        _written_before.setdefault(log, 0)
        self._release_port: Callable[[], object] = lambda: None
        self.start()

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        """Launch, and return once the server answers. A second start keeps the port and the data."""
        deadline = time.monotonic() + self.start_timeout
        command = [part.replace(PORT, str(self.port)) for part in self.command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            if self._says_its_address:
                self.host, port = self._first_line(deadline).rsplit(":", 1)
                self.port = int(port)
            until(lambda: self._is_up(deadline), timeout_s=self.start_timeout, poll_s=0.01)
            self._release_port()
        except BaseException:
            self.kill()
            raise

    def _hold_port(self) -> None:
        """Keep the port from other processes until the server answers again: it is bound, and nothing listens there.
        Servers set SO_REUSEADDR, too, and can bind it."""
        bound = socket.socket()
        self._release_port = weakref.finalize(self, bound.close)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # another process was quicker; the start reports it
            bound.bind((self.host, self.port))

    def kill(self) -> None:
        """End the process as `kill -9` does; what it had written to files stays."""
        self._end(signal.SIGKILL, 30.0)

    def stop(self, timeout: float = 30.0) -> int:
        """Ask for a clean shutdown and return the exit code."""
        return self._end(signal.SIGTERM, timeout)

    def resident_bytes(self) -> int:
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self) -> float:
        """Processor time used so far, in user and system mode."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _end(self, number: signal.Signals, timeout: float) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
            self._release_port()
            self._hold_port()

    def _first_line(self, deadline: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        stdout, line = self._process.stdout.fileno(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"no address from {self.command[:4]} in time:\n{self.log_tail()}")
                character = os.read(stdout, 1)
                if not character:
                    raise RuntimeError(f"{self.command[:4]} ended at once:\n{self.log_tail()}")
                line += character
        return line.decode().strip()

    def _is_up(self, deadline: float) -> bool:
        """Raises RuntimeError where the process has ended, and TimeoutError after the deadline."""
        if self._has_tls or answers(self.host, self.port):
            return True
        self._check_alive(deadline)
        return False

    def _check_alive(self, deadline: float) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"ended with {self._process.returncode} before it answered:\n{self.log_tail()}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{self.host}:{self.port} does not answer:\n{self.log_tail()}")

    def log_tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-2000:]


class StartServer(Protocol):
    """Start a server with a fresh data directory; it ends with the test."""

    def __call__(self, **config: str) -> ServerProcess: ...

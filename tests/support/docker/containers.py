"""Containers of the image, without an engine: namespaces, the image's files in a root of their own, published ports."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from support.docker.container_init import Spec

TESTS = Path(__file__).resolve().parents[2]
NAMESPACES = ["unshare", "--mount", "--uts", "--net", "--pid", "--fork"]
TIMEOUT_S = 60
"""How long a container may take for anything, on a busy machine."""
HOSTNAME = "f00dcafe1234"


def why_not() -> str:
    """Why no containers can be made here; empty where they can."""
    if missing := [tool for tool in ("unshare", "nsenter", "mount", "chroot") if shutil.which(tool) is None]:
        return f"there is no {missing[0]}"
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root can make containers"
    made = subprocess.run([*NAMESPACES, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return "" if made.returncode == 0 else "no namespaces can be made"


class Container:
    """A running container of the image. Its lines are kept by stream, `stdout` and `stderr`."""

    def __init__(self, root: Path, command: Sequence[str], environ: Mapping[str, str], **options: Any) -> None:
        """`root` is an empty directory; `options` are those of `Spec`."""
        self._stack = ExitStack()
        self._heard = threading.Condition()
        self.lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._open = set(self.lines)
        self.command, self.environ = list(command), dict(environ)
        self._root = root
        self._options = options

    def __enter__(self) -> Container:
        reading, writing = os.pipe()
        with open(reading, "rb") as ready:
            process = subprocess.Popen(
                [*NAMESPACES, sys.executable, "-m", "support.docker.container_init", str(writing)],
                cwd=TESTS,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[writing],
            )
            os.close(writing)
            self.process = self._stack.enter_context(process)
            self._stack.callback(process.kill)
            spec = Spec(str(self._root), self.command, self.environ, HOSTNAME, **self._options)
            assert process.stdin is not None
            process.stdin.write(json.dumps({**spec._asdict(), "binds": {**spec.binds}}))
            process.stdin.close()
            for name in self.lines:
                threading.Thread(target=self._listen, args=(name, getattr(process, name)), daemon=True).start()
            self.pid = ready.readline().decode().strip()  # unshare keeps the other end open
        assert self.pid, self.said()
        self._stack.callback(self._kill)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def put(self, path: str, text: str | bytes, mode: int) -> None:
        """Copy a file into the container as an engine does: as root, whole and with this mode when it shows."""
        target = Path(f"/proc/{self.pid}/root{path}")
        new = target.with_name(f".{target.name}.new")
        target.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(text.encode() if isinstance(text, str) else text)
        new.chmod(mode)
        new.rename(target)

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program beside the container's own, as its user, with its environment."""
        environ = Path(f"/proc/{self.pid}/environ").read_text().split("\0")
        inside = ["nsenter", "-t", self.pid, "-m", "-u", "-n", "-p", "-r", "-w", "-S", "1000", "-G", "0", "env", "-i"]
        return subprocess.run(
            [*inside, *filter(None, environ), *command],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def publish(self, port: int) -> int:
        """Publish a port of the container at any free port of 127.0.0.1; return that."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            number = str(listening.fileno())
            inside = ["nsenter", "-t", self.pid, "-n", sys.executable, "-m", "support.docker.published_port"]
            proxy = subprocess.Popen([*inside, number, str(port)], cwd=TESTS, pass_fds=[listening.fileno()])
            self._stack.enter_context(proxy)
            self._stack.callback(proxy.kill)
            published: int = listening.getsockname()[1]
            return published

    def wait_for(self, pattern: str, *streams: str) -> None:
        """Wait until a line on one of these streams matches. AssertionError says what came instead."""
        compiled = re.compile(pattern)

        def has_come() -> bool:
            return any(compiled.search(line) for name in streams for line in self.lines[name])

        with self._heard:
            self._heard.wait_for(lambda: has_come() or not self._open, TIMEOUT_S)
            assert has_come(), f"{pattern} did not come\n{self.said()}"

    def output(self, streams: Sequence[str], *, follows: bool) -> Iterator[tuple[str, str]]:
        """The lines of these streams so far, each with its stream; with `follows` those to come, too, until the end."""
        given = dict.fromkeys(streams, 0)
        while True:
            with self._heard:
                new = [(name, line) for name in streams for line in self.lines[name][given[name] :]]
                is_over = not follows or not self._open
                if not new and not is_over:
                    self._heard.wait(0.5)
            for name, line in new:
                given[name] += 1
                yield name, line
            if is_over and not new:
                return

    def said(self) -> str:
        return "\n".join(f"{name}: {line}" for name, lines in self.lines.items() for line in lines)

    def _kill(self) -> None:
        """End the container: its first process takes all others along."""
        with suppress(ProcessLookupError):
            os.kill(int(self.pid), signal.SIGKILL)

    def _listen(self, name: str, stream: IO[str]) -> None:
        for line in stream:
            with self._heard:
                self.lines[name].append(line.rstrip("\n"))
                self._heard.notify_all()
        with self._heard:
            self._open.discard(name)
            self._heard.notify_all()

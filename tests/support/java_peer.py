"""The test run's one JVM (`JavaPeer.java`), from the Python side."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, Protocol

from support import apache_kafka

PACKAGES = {
    "ConsoleConsumer": "org.apache.kafka.tools.consumer",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group",
}


class Finished(NamedTuple):
    """How a tool's run ended."""

    exit: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


class RunTool(Protocol):
    """Run one of Kafka's command line tools to its end."""

    def __call__(self, main: str, *arguments: object, stdin: str = "") -> Finished: ...


class JavaPeer:
    """A running JVM; its methods may be called from several threads."""

    def __init__(self, log: Path) -> None:
        source = Path(apache_kafka.__file__).with_name("JavaPeer.java")
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", f"-Dcompiled.classes={log.parent}"]
        command = [*apache_kafka.java_command(*options), str(source)]
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        self._log = log
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Finished]] = {}
        self._reader = threading.Thread(target=self._read_answers, daemon=True)
        self._reader.start()

    def submit(self, main: str, *arguments: object, stdin: str = "") -> Future[Finished]:
        """Start a tool (a bare name of Kafka's, or "produce", "consume" or "administer"), or the main of a Java source
        of ours, named by its path, and return at once."""
        number = next(self._ids)
        texts = [str(argument) for argument in arguments]
        request = {"id": number, "main": _class_name(main), "arguments": texts, "stdin": stdin}
        future: Future[Finished] = Future()
        with self._lock:
            self._waiting[number] = future
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        return future

    def run(self, main: str, *arguments: object, stdin: str = "", timeout: float = 60.0) -> Finished:
        """Run a tool to its end; what it exits with is the caller's to judge."""
        return self.submit(main, *arguments, stdin=stdin).result(timeout)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._lock:
                future = self._waiting.pop(answer["id"])
            future.set_result(Finished(answer["exit"], answer["stdout"], answer["stderr"]))
        with self._lock:
            abandoned, self._waiting = self._waiting, {}
        for future in abandoned.values():
            future.set_exception(RuntimeError(f"the JVM ended:\n{self._log.read_text()[-2000:]}"))


def _class_name(main: str) -> str:
    if main in ("produce", "consume", "administer") or "." in main:
        return main
    return f"{PACKAGES.get(main, 'org.apache.kafka.tools')}.{main}"

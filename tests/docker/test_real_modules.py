"""Testcontainers' own modules, unmodified, start the image: they ask an engine that makes namespaces for containers.

`make testcontainers` fetches the modules of Java, Go and Node. What each asks for is what `support/docker/wrappers.py`
says, whose sequences are run without the modules, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from support.docker.containers import HOSTNAME, TIMEOUT_S, why_not
from support.docker.dockerfile import ROOT, tag
from support.docker.engine import Box, Engine
from support.docker.wrappers import (
    GO,
    JAVA_APACHE,
    JAVA_CONFLUENT,
    JAVA_KRAFT,
    JAVA_ZOOKEEPER,
    NODE_11,
    PYTHON,
    PYTHON_KRAFT,
    Wrapper,
)

kafka = pytest.importorskip("kafka")

PROGRAMS = ROOT / "tests" / "support" / "docker" / "modules"
FETCHED = ROOT / ".peers" / "testcontainers"
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{FETCHED / 'java'}/*", str(PROGRAMS / "java" / "Start.java")]


class Module(NamedTuple):
    """A way of a module to start a broker."""

    wrapper: Wrapper
    """What is said of it."""
    command: list[str]
    arguments: tuple[str, ...] = ()
    needs: Path | None = None
    """What `make testcontainers` fetches."""

    @property
    def why_not(self) -> str:
        if self.needs is None:
            return "" if find_spec("testcontainers") else "testcontainers is not installed"
        if shutil.which(self.command[0]) is None:
            return f"no {self.command[0]}"
        return (
            ""
            if self.needs.exists()
            else f"there is no {self.needs.relative_to(ROOT)} (`make testcontainers` fetches it)"
        )


MODULES = [
    Module(PYTHON, [sys.executable, str(PROGRAMS / "python.py")]),
    Module(PYTHON_KRAFT, [sys.executable, str(PROGRAMS / "python.py")], ("with_kraft",)),
    Module(JAVA_APACHE, JAVA, ("KafkaContainer",), FETCHED / "java" / ".complete"),
    Module(JAVA_CONFLUENT, JAVA, ("ConfluentKafkaContainer",), FETCHED / "java" / ".complete"),
    Module(JAVA_ZOOKEEPER, JAVA, ("deprecated",), FETCHED / "java" / ".complete"),
    Module(JAVA_KRAFT, JAVA, ("deprecated, withKraft",), FETCHED / "java" / ".complete"),
    Module(GO, [str(FETCHED / "go")], (), FETCHED / "go"),
    Module(NODE_11, ["node", str(PROGRAMS / "node" / "start.js")], (), FETCHED / "node" / ".complete"),
]


@pytest.fixture
def engine() -> Iterator[Engine]:
    if reason := why_not():
        pytest.skip(reason)
    with Engine() as running:
        yield running
        assert running.refused == []


def sorted_lists(environ: dict[str, str]) -> dict[str, list[str]]:
    """The variables with their lists in order: Java's modules have sets of listeners."""
    return {name: sorted(value.split(",")) for name, value in environ.items()}


def lines_of(script: str) -> list[str]:
    """The lines of a script that do something, without what differs from start to start."""
    text = re.sub(r"(localhost|127\.0\.0\.1):\d+", "localhost:{port}", script).replace(HOSTNAME, "{hostname}")
    return [line.strip() for line in text.splitlines() if line.strip()]


def check_what_was_asked(box: Box, wrapper: Wrapper) -> None:
    """Check that the table of wrappers says what the module does."""
    assert [text.strip() for text in box.command] == [text.strip() for text in wrapper.command]
    assert sorted_lists(box.environ) == sorted_lists({**wrapper.environ})
    assert lines_of(box.written[wrapper.path]) == lines_of(wrapper.script)
    assert f"{wrapper.port}/tcp" in box.ports


@pytest.mark.parametrize("module", MODULES, ids=[module.wrapper.name for module in MODULES])
def test_a_module_starts_the_image_by_its_name(module: Module, engine: Engine) -> None:
    if reason := module.why_not:
        pytest.skip(reason)
    environ = {**os.environ, **engine.environ, "NODE_PATH": str(FETCHED / "node" / "node_modules")}
    command = [*module.command, f"kmini:{tag()}", *module.arguments]
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        too_long = threading.Timer(TIMEOUT_S * 2, process.kill)
        too_long.start()
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if address:
                (box,) = engine.boxes.values()
                check_what_was_asked(box, module.wrapper)
                exchange(address)
            _, errors = process.communicate()
        finally:
            too_long.cancel()
            process.kill()
    assert address, f"{errors}\n{engine.said()}"
    assert process.returncode == 0, errors


def exchange(address: str) -> None:
    """Produce a record, through what the broker tells its clients."""
    producer = kafka.KafkaProducer(bootstrap_servers=address)
    try:
        assert producer.send("orders", b"hello").get(timeout=TIMEOUT_S).offset == 0
    finally:
        producer.close()

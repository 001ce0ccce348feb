"""What an editor shows for the names of kmini in a program: mypy's types of calls, and of calls that are wrong."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kmini

ROOT = Path(__file__).resolve().parent.parent.parent

PROGRAM = """
from typing import Any

from kmini import *


async def program(broker: Broker, cluster: Cluster, aio: AsyncBroker, many: AsyncCluster, {handles}) -> None:
"""

HANDLES = {name.lower(): name for name in kmini.__all__ if f"Async{name}" in kmini.__all__ or name.startswith("Async")}
"""Classes whose methods call a broker, by the name of a variable."""

TYPES = {
    "Broker().__enter__()": "Broker",
    "await Broker().__aenter__()": "AsyncBroker",
    "broker.bootstrap_servers": "str",
    "broker.produce('orders', b'v')": "int",
    "broker.records('orders')": "list[Record]",
    "broker.offsets('orders')": "PartitionOffsets",
    "cluster.offsets('orders')": "dict[int, ReplicaOffsets]",
    "cluster.leader('orders')": "int",
    "await aio.produce('orders', b'v')": "int",
    "await many.leader('orders')": "int",
    "broker.clock": "Clock",
    "many.clock": "AsyncClock",
    "await broker.aio.clock.now_ms()": "int",
    "broker.topic('orders')": "Topic",
    "cluster.topic('orders')": "Topic",
    "aio.topic('orders')": "AsyncTopic",
    "broker.topic('orders').partitions()": "list[TopicPartitionState]",
    "broker.topic('orders').offsets()": "dict[int, PartitionOffsets]",
    "broker.topic('orders').mark()": "Mark",
    "broker.topic('orders').wait_for(lambda record: record.text() == 'v')": "list[Record]",
    "await aio.topic('orders').wait_for(3, key=b'42', since=await aio.topic('orders').mark())": "list[Record]",
    "broker.topic('orders').expect(count=1).__enter__()": "list[Record]",
    "await aio.topic('orders').expect(count=1).__aenter__()": "list[Record]",
    "broker.topic('orders').records()[0].header('trace')": "bytes | None",
    "broker.topic('orders').produce(b'v').json()": "Any",
    "broker.group('billing').offsets()['orders', 0]": "int",
    "broker.faults.on('Produce').once().hold().__enter__()": "Fault",
    "await aio.faults.on('Produce').once().hold().__aenter__()": "AsyncFault",
    "await aio.faults.on('Produce').once().disconnect()": "AsyncFault",
}

WRONG = {
    "broker.produce('orders', 'text')": "arg-type",
    "broker.produce('orders', b'v', keys=b'k')": "call-arg",
    "broker.topic('orders').wait_for('3')": "arg-type",
    "broker.topic('orders').wait_for(lambda record: record.values())": "attr-defined",
    "broker.topic('orders').expect(isolation='comitted')": "arg-type",
    "aio.topics()": "unused-coroutine",
    "broker.topic(1)": "arg-type",
    "broker.tipic('orders')": "attr-defined",
    "cluster.kill('1')": "arg-type",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says about each expression."""
    variables = ", ".join(f"{variable}_: {name}" for variable, name in HANDLES.items())
    lines = PROGRAM.format(handles=variables).splitlines()
    places: dict[int, str] = {}
    methods = [
        f"{variable}_.{name}"
        for variable, cls in HANDLES.items()
        for name in dir(getattr(kmini, cls))
        if not name.startswith("_") and inspect.isfunction(inspect.getattr_static(getattr(kmini, cls), name))
    ]
    for expression in [*TYPES, *methods]:
        lines.append(f"    reveal_type({expression})")
        places[len(lines)] = expression
    for expression in WRONG:
        lines.append(f"    {expression}")
        places[len(lines)] = expression
    directory = tmp_path_factory.mktemp("program")
    (directory / "program.py").write_text("\n".join(lines) + "\n")
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", "--config-file=", "--python-version=3.10"]
    finished = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "program.py"],
        cwd=directory,
        env={**os.environ, "MYPYPATH": str(ROOT / ".typing")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found: dict[str, list[str]] = {expression: [] for expression in places.values()}
    for line in finished.stdout.splitlines():
        place = re.match(r"program\.py:(\d+): (.*)", line)
        assert place is not None, finished.stdout + finished.stderr
        assert int(place[1]) in places, line
        found[places[int(place[1])]].append(place[2])
    return found


def plain(line: str) -> str:
    """A revealed type as one writes it."""
    shown = re.sub(r"tuple\[.*fallback=([\w.]+)\]", r"\1", line.partition('"')[2].rstrip('"'))
    return re.sub(r"\b(?:kmini|builtins|typing)\.(?:\w+\.)*", "", shown)


@pytest.mark.parametrize("expression", TYPES)
def test_an_expression_has_its_type(told: dict[str, list[str]], expression: str) -> None:
    assert [plain(line) for line in told[expression]] == [TYPES[expression]]


@pytest.mark.parametrize("expression", WRONG)
def test_a_wrong_call_is_marked(told: dict[str, list[str]], expression: str) -> None:
    assert any(line.endswith(f"[{WRONG[expression]}]") for line in told[expression]), told[expression]


def test_no_method_has_a_parameter_or_a_result_of_any_type(told: dict[str, list[str]]) -> None:
    methods = {expression: lines for expression, lines in told.items() if re.fullmatch(r"\w+_\.\w+", expression)}
    assert len(methods) > 100
    for expression, lines in methods.items():
        (line,) = lines
        shown = re.sub(r"Coroutine\[Any, Any, ", "Coroutine[", plain(line).replace("bound method ", ""))
        assert shown.startswith("def "), line
        shown = shown.replace("dict[str, Any]", "JSON object")
        assert not re.search(r"\bAny\b|\*args|\.\.\.", shown), (expression, line)

"""`kmini trace`: live, in front of a broker, and from a file."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kmini import Broker
from kmini.cli.output import CLOSED_PIPE
from kmini.client import Client, Sasl, record
from kmini.trace.trace_file import TraceWriter
from support.exchanges import exchange
from support.server_process import answers

Run = Callable[..., Result]


class Tracing:
    """A `kmini trace` of its own process."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.port = port
        self.output = self.notices = ""
        self._process = process

    def ends_without_reader(self) -> int:
        """The exit code after the reader of the output has gone and a request has passed."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        answers("127.0.0.1", self.port, 30)
        return self._process.wait(60)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self._process.send_signal(number)
        self.output, self.notices = self._process.communicate(timeout=60)
        return self._process.returncode


@contextmanager
def tracing(broker: Broker, *options: object) -> Iterator[Tracing]:
    command = [sys.executable, "-m", "kmini", "trace", broker.bootstrap_servers, "--listen", "0", *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        found = re.match(r"kmini: clients connect to 127\.0\.0\.1:(\d+), which stands for ", first)
        assert found, first + process.stderr.read()
        yield Tracing(process, int(found[1]))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def test_requests_are_shown_and_statistics_end_the_trace(broker: Broker) -> None:
    with tracing(broker, "--statistics") as trace:
        assert answers("127.0.0.1", trace.port, 30)
        assert trace.stop() == 0
    line, *rest = trace.output.splitlines()
    assert re.fullmatch(r"\+\d+\.\d{3} #1 ApiVersions v0 - -> ok \d+\.\d ms, 0 B in, \d+ B out", line)
    assert rest[1].startswith("API\tREQUESTS\tERRORS")
    assert rest[2].startswith("ApiVersions\t1\t0\t")


def test_json_lines_are_objects_and_a_file_has_the_same(broker: Broker, run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "a.kmtrace"
    with tracing(broker, "--format", "json", "--save", saved) as trace:
        assert answers("127.0.0.1", trace.port, 30)
        assert trace.stop(signal.SIGTERM) == 0
    (shown,) = [json.loads(line) for line in trace.output.splitlines()]
    assert shown["header"]["type"] == "ApiVersions"
    again = run("trace", saved, "--format", "json")
    assert again.exit_code == 0
    assert again.stdout == trace.output


def test_a_fault_of_a_file_acts_and_is_told_of(broker: Broker, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"name": "no", "when": {"api": ["ApiVersions"]}, "do": [{"disconnect": True}]}]))
    with tracing(broker, "--fault", rules) as trace:
        assert not answers("127.0.0.1", trace.port, 30)
        assert trace.stop() == 0
    assert "ApiVersions v0 - -> closed: fault rule 'no'" in trace.output
    assert "fault rule 'no': it acted once on 1 request that it means" in trace.notices


def test_a_client_without_tls_is_traced_in_front_of_a_broker_with_tls(tmp_path: Path) -> None:
    async def produce(port: int, sasl: Sasl) -> int:
        async with Client(f"127.0.0.1:{port}", sasl=sasl) as client:
            return (await client.produce("orders", 0, [record(b"one")])).base_offset

    with Broker(tls="auto", sasl="PLAIN", users={"alice": "secret-of-alice"}, topics={"orders": 1}) as secured:
        settings = tmp_path / "client.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in secured.client_config("java").items()))
        with tracing(secured, "--command-config", settings) as trace:
            assert asyncio.run(produce(trace.port, Sasl("PLAIN", "alice", "secret-of-alice"))) == 0
            assert trace.stop() == 0
    assert re.search(r"Produce v\d+ kmini orders-0:1 -> ok", trace.output)
    assert "secret-of-alice" not in trace.output + trace.notices


def test_settings_without_tls_are_refused(run: Run, tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("security.protocol=SASL_PLAINTEXT\n")
    result = run("trace", "127.0.0.1:9092", "--command-config", settings)
    assert result.exit_code == 2
    assert "security.protocol=SASL_PLAINTEXT has no TLS" in result.stderr


def test_the_trace_ends_with_the_reader_of_its_output(broker: Broker) -> None:
    with tracing(broker) as trace:
        assert trace.ends_without_reader() == CLOSED_PIPE


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "b.kmtrace"
    with path.open("w", encoding="utf-8") as file:
        writer = TraceWriter(file, "127.0.0.1:9092")
        writer.write(exchange("Produce", "app-1", topic="orders"))
        writer.write(exchange("Fetch", "billing", topic="orders", errors=("UNKNOWN_TOPIC_ID",)))
        writer.write(exchange("Produce", "app-2", topic="bills", closed="no answer is due"))
    return path


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), ["app-1", "billing", "app-2"]),
        (("--topic", "orders"), ["app-1", "billing"]),
        (("--client", "app-*"), ["app-1", "app-2"]),
        (("--api", "fetch"), ["billing"]),
        (("--errors",), ["billing"]),
        (("--group", "none"), []),
    ],
    ids=["all", "topic", "client", "api", "errors", "group"],
)
def test_a_file_is_shown_with_the_same_filters(
    run: Run, saved: Path, options: tuple[str, ...], shown: list[str]
) -> None:
    result = run("trace", saved, "--format", "json", *options)
    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["header"]["clientId"] for line in result.stdout.splitlines()] == shown


def test_a_truncated_file_is_shown_up_to_the_damage_and_says_so(run: Run, saved: Path) -> None:
    saved.write_text(saved.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    result = run("trace", saved)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 2
    assert "line 4 is damaged" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "HOST:PORT was expected, and no file has this name"),
        (("127.0.0.1:9", "--listen", "x"), "--listen"),
        (("127.0.0.1:9", "--api", "Produse"), "Kafka has no such API"),
        (("127.0.0.1:9", "--fault", "missing.json"), "--fault missing.json: No such file"),
        (("127.0.0.1:9", "--save", "missing/a"), "--save missing/a: No such file"),
    ],
    ids=["target", "listen", "api", "fault", "save"],
)
def test_what_cannot_be_is_refused_with_a_sentence(run: Run, arguments: tuple[Any, ...], sentence: str) -> None:
    result = run("trace", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_is_not_overwritten_and_a_wrong_rule_is_refused(run: Run, saved: Path, tmp_path: Path) -> None:
    result = run("trace", "127.0.0.1:9", "--save", saved)
    assert result.exit_code == 2
    assert "the file exists already" in result.stderr
    rules = tmp_path / "rules.json"
    rules.write_text('[{"when": {"api": ["disk"]}, "do": [{"disk": "full"}]}]')
    result = run("trace", "127.0.0.1:9", "--listen", "0", "--fault", rules)
    assert result.exit_code == 2
    assert "a rule about the disk needs a broker of kmini" in result.stderr

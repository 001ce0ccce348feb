"""The image, as far as it can be had without an engine: what its files say, and its programs run outside of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from packaging.version import Version

from kmini.cli.init_directory import TIMEOUT_MS
from support.docker.dockerfile import BROKER, DOCKER, ROOT, Instruction, last_of, read_stages, tag

KNOWN = {
    *("FROM", "RUN", "CMD", "LABEL", "EXPOSE", "ENV", "COPY", "USER", "WORKDIR", "VOLUME"),
    *("STOPSIGNAL", "HEALTHCHECK"),
}


@pytest.fixture(scope="module")
def stages() -> dict[str, list[Instruction]]:
    return read_stages()


@pytest.fixture(scope="module")
def broker_stage(stages: dict[str, list[Instruction]]) -> dict[str, Instruction]:
    assert list(stages)[-1] == BROKER, "what is built without a target"
    return last_of(stages[BROKER])


# --- what the files say


def test_every_instruction_is_one_of_docker(stages: dict[str, list[Instruction]]) -> None:
    assert {instruction.name for stage in stages.values() for instruction in stage} <= KNOWN


def test_what_is_copied_is_there_and_not_ignored(stages: dict[str, list[Instruction]]) -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for instruction in (one for stage in stages.values() for one in stage if one.name == "COPY"):
        if source := re.search(r"--from=(\S+)", instruction.rest):
            assert source[1] in stages
            continue
        for path in instruction.words[:-1]:
            assert (ROOT / path).exists(), path
            assert path.partition("/")[0] in kept, path


def test_the_users_token_goes_neither_to_a_builder_nor_into_git() -> None:
    """compose reads `.env` beside its file."""
    assert (ROOT / ".dockerignore").read_text().splitlines()[-1] == "**/.env", (
        "after what is kept: the last match counts"
    )
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_wheel_is_built_from_every_package(stages: dict[str, list[Instruction]]) -> None:
    copied = {word for one in stages["build"] if one.name == "COPY" for word in one.words[:-1]}
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders <= copied
    assert {"pyproject.toml", "setup.py", "README.md", "LICENSE"} <= copied


def test_nothing_runs_as_root(stages: dict[str, list[Instruction]]) -> None:
    for name in ("sample", "broker"):
        (user,) = (one.rest for one in stages[name] if one.name == "USER")
        assert int(user) > 0


def test_no_step_is_of_one_architecture(stages: dict[str, list[Instruction]]) -> None:
    text = " ".join(instruction.rest for stage in stages.values() for instruction in stage)
    assert not re.findall(r"amd64|x86_64|arm64|aarch64|--platform|TARGETARCH", text)
    (base,) = {one.words[0] for stage in stages.values() for one in stage if one.name == "FROM"}
    assert re.fullmatch(r"python:3\.13-slim@sha256:[0-9a-f]{64}", base)


def test_a_command_of_the_users_replaces_ours(stages: dict[str, list[Instruction]]) -> None:
    assert "ENTRYPOINT" not in {one.name for one in stages["broker"]}


def test_the_control_api_has_a_port_and_what_it_needs(stages, broker_stage: dict[str, Instruction]) -> None:
    assert "KMINI_HTTP=8090" in broker_stage["ENV"].words
    assert broker_stage["EXPOSE"].words == ["9092", "8090", "8081"]
    assert any("pip install --no-cache-dir '.[http,registry,tls,oauth]'" in one.rest for one in stages["build"])


# --- the tag

NODES_PATTERN = re.compile(r"\d+\.\d+\.\d+(-[\da-z-]+(\.[\da-z-]+)*)?", re.IGNORECASE)
"""What Node's module reads as a version, for which it knows whether it is at least 8.0.0."""


def test_a_start_may_take_longer_than_a_script_of_the_init_directory(broker_stage: dict[str, Instruction]) -> None:
    minutes = broker_stage["HEALTHCHECK"].options["start-period"].removesuffix("m")
    assert int(minutes) * 60_000 > TIMEOUT_MS


def test_node_and_python_read_the_tag_as_a_version_without_zookeeper() -> None:
    assert NODES_PATTERN.fullmatch(tag())
    assert int(tag().partition(".")[0]) >= 8
    assert Version(tag()) >= Version("8.0.0")


def test_every_page_and_file_names_the_image_with_its_tag() -> None:
    pages = [*DOCKER.rglob("*"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = [
        found
        for page in pages
        if page.is_file()
        for found in re.findall(r"(?<![\w./:-])kmini:([\w.-]+)", page.read_text(encoding="utf-8"))
    ]
    assert len(named) > 8
    assert set(named) == {tag()}


# --- its programs, outside


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def image(broker_stage: dict[str, Instruction], tmp_path: Path) -> dict[str, str]:
    """The environment in the image, but for what would be shared with the machine: the address, and the data."""
    said = dict(word.partition("=")[::2] for word in broker_stage["ENV"].words)
    bin_directory, init_directory = tmp_path / "bin", tmp_path / "ready.d"
    bin_directory.mkdir()
    init_directory.mkdir()
    (bin_directory / "kmini").write_text(f'#!/bin/sh\nexec {sys.executable} -m kmini "$@"\n')
    (bin_directory / "kmini").chmod(0o755)
    shutil.copy(DOCKER / "bin" / "kmini-healthy", bin_directory)
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        port, http_port = first.getsockname()[1], second.getsockname()[1]  # the health check knows them beforehand
    return {
        **said,
        "PATH": f"{bin_directory}:/usr/bin:/bin",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KMINI_HTTP": str(http_port),
        "KMINI_INIT_DIR": str(init_directory),
    }


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str], environ: dict[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what a shell started too
        process.communicate()


def test_the_image_serves_is_healthy_and_stops_as_told(image, broker_stage, start: Start, tmp_path) -> None:
    environ = {**image, "KAFKA_CREATE_TOPICS": "orders:3:1,profiles:1:1:compact"}
    check = broker_stage["HEALTHCHECK"].command
    assert subprocess.run(check, env=environ, capture_output=True, timeout=60, check=False).returncode == 1
    process = start(broker_stage["CMD"].command, environ)
    address = process.stdout.readline().strip()
    assert process.stdout.readline().startswith("ready: ")
    assert re.fullmatch(rf"http://127.0.0.1:{image['KMINI_HTTP']}/#token=\S{{32}}\n", process.stdout.readline())
    finished = subprocess.run(check, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    no_python = {**environ, "PATH": "/usr/bin:/bin"}
    shutil.copy(image["PATH"].partition(":")[0] + "/kmini-healthy", tmp_path)
    subprocess.run([tmp_path / "kmini-healthy"], env=no_python, capture_output=True, timeout=60, check=True)
    listed = subprocess.run(
        ["kmini", "topic", "list", "-b", address], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert listed.stdout.splitlines() == ["orders", "profiles"]
    process.send_signal(getattr(signal, broker_stage["STOPSIGNAL"].rest))
    assert process.wait(timeout=30) == 0
    assert (tmp_path / "data" / "broker-1" / "orders-2").is_dir()


def test_the_image_is_healthy_once_its_init_directory_is_done(image, broker_stage, start: Start) -> None:
    assert any(f"install -d {broker_env(broker_stage, 'KMINI_INIT_DIR')}" in one.rest for one in read_stages()[BROKER])
    directory, check = Path(image["KMINI_INIT_DIR"]), broker_stage["HEALTHCHECK"].command
    (directory / "10-orders.topics").write_text("orders:3:1\n")
    (directory / "20-orders.jsonl").write_text('{"topic": "orders", "value": "seed"}\n')
    (directory / "30-more.sh").write_text("until test -e ../go; do sleep 0.01; done\nkmini topic create more\n")
    process = start(broker_stage["CMD"].command, image)
    address, link = process.stdout.readline().strip(), process.stdout.readline()
    assert link.startswith("http://")
    said = subprocess.run(check, env=image, capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 1
    assert "is not done yet" in said.stderr
    (directory.parent / "go").touch()
    assert process.stdout.readline().startswith("ready: ")
    subprocess.run(check, env=image, capture_output=True, timeout=60, check=True)
    command = ["kmini", "topic", "list", "-b", address]
    listed = subprocess.run(command, env=image, capture_output=True, text=True, timeout=60, check=True)
    assert listed.stdout.splitlines() == ["more", "orders"]


def broker_env(broker_stage: dict[str, Instruction], name: str) -> str:
    """The value of a variable of the image."""
    return dict(word.partition("=")[::2] for word in broker_stage["ENV"].words)[name]


def test_the_samples_of_the_stack_understand_each_other(start: Start) -> None:
    pytest.importorskip("kafka")
    from kmini import Broker

    with Broker(topics={"orders": 3}) as broker:
        environ = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "COUNT": "3", "PAUSE_S": "0"}
        producer = start([sys.executable, str(DOCKER / "sample" / "producer.py")], environ)
        said, errors = producer.communicate(timeout=60)
        assert (producer.returncode, len(said.splitlines())) == (0, 3), errors
        consumer = start([sys.executable, str(DOCKER / "sample" / "consumer.py")], environ)
        said, errors = consumer.communicate(timeout=60)
        assert (consumer.returncode, len(said.splitlines())) == (0, 3), errors

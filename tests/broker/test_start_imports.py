"""What a broker imports before its first answer: every module is time that clients and test suites wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kmini.protocol.records.load_kernel import IS_COMPILED
from support.server_process import API_VERSIONS_V0

pytestmark = pytest.mark.sockets

PROGRAM = f"""
import os, socket, sys, threading, time
from kmini.cli import kmini

def ask_and_end(port_file):
    while not os.path.exists(port_file):
        time.sleep(0.001)
    with open(port_file) as file:
        port = int(file.read())
    with socket.socket() as connection:
        connection.connect(("127.0.0.1", port))
        connection.sendall({API_VERSIONS_V0!r})
        answer = connection.recv(10, socket.MSG_WAITALL)
    print("answer", answer[4:].hex(), flush=True)
    print(*sys.modules, flush=True)
    os._exit(0)

threading.Thread(target=ask_and_end, args=(sys.argv[1],), daemon=True).start()
kmini(["serve", "--port", "0", "--data-dir", sys.argv[2], "--port-file", sys.argv[1]])
"""

MESSAGES = {"headers", "api_versions", "delete_records", "describe_configs", "fetch", "incremental_alter_configs"}
"""The modules of messages that a start needs: ApiVersions, and some whose types or constants the broker's parts use."""

MOST_MODULES = 151  # cython_shared has what was in each extension
"""Modules of ours at the first answer; a new one needs a reason, because it delays every start."""

PARTS_OF_KERNELS = 20
"""Modules that are in memory in addition where kernels run interpreted: each part of one is a module then."""

NOT_YET = {
    "coordinators": ("kmini.broker.groups", "kmini.broker.transactions", "kmini.broker.coordinators.coordinator_topic"),
    "authentication": (
        "kmini.protocol.scram",
        "kmini.protocol.jaas",
        "kmini.broker.security.sasl",
        "hashlib",
        "hmac",
        "secrets",
    ),
    "several brokers": ("kmini.client", "kmini.broker.replication.fetcher", "kmini.broker.local_cluster"),
    "codecs of messages": ("kmini.protocol.explain", "kmini.protocol.messages.produce"),
    "compression": ("cramjam", "lz4", "backports.zstd", "compression.zstd"),
    "old formats": ("kmini.storage.old_formats", "kmini.protocol.records.old_formats", "sqlite3"),
    "metrics": ("kmini.broker.metrics_text",),
    "refusals": ("kmini.storage.refused_records",),
    "tables and people": ("rich", "shutil", "tempfile", "random", "encodings.idna"),
    "embedding": ("kmini.testkit.embedded", "kmini.testkit.host", "kmini.graduation"),
    "registry": ("kmini.registry", "kmini.cli.http_ports", "avro", "google"),
    "control": (
        "kmini.control",
        "kmini.testkit.lifecycle",
        "kmini.testkit.operations",
        "h11",
    ),
}
"""Packages and modules by what needs them, which is not the first answer."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules in memory when `kmini serve` has answered ApiVersions."""
    directory: Path = tmp_path_factory.mktemp("start")
    words = [sys.executable, "-c", PROGRAM, str(directory / "port"), str(directory / "data")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    answer, modules = done.stdout.splitlines()[-2:]
    assert answer == "answer 000000070000", done.stderr
    return set(modules.split())


def below(package: str, imported: set[str]) -> set[str]:
    """The modules of a package, by their names inside it."""
    return {name.removeprefix(f"{package}.") for name in imported if name.startswith(f"{package}.")}


@pytest.mark.parametrize("names", NOT_YET.values(), ids=NOT_YET)
def test_the_first_answer_comes_without_what_later_requests_need(imported: set[str], names: tuple[str, ...]) -> None:
    assert {one for one in imported for name in names if one == name or one.startswith(f"{name}.")} == set()


def test_the_first_answer_needs_the_handler_and_the_message_of_its_api_and_few_others(imported: set[str]) -> None:
    assert below("kmini.broker.handlers", imported) == {"api_versions"}
    assert below("kmini.protocol.messages", imported) <= MESSAGES


def test_the_first_answer_needs_few_modules(imported: set[str]) -> None:
    ours = {name for name in imported if name.partition(".")[0] == "kmini"}
    assert len(ours) <= MOST_MODULES + (0 if IS_COMPILED else PARTS_OF_KERNELS), sorted(ours)

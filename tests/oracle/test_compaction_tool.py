"""Kafka's own test of compaction, LogCompactionTester: it writes updates and deletions of many keys, waits, reads what
is left, and compares the last value of every key with what it wrote.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from kmini.protocol.records.load_kernel import IS_COMPILED
from support.java_peer import Finished, JavaPeer
from support.server_process import ServerProcess, StartServer

SLEEP_S = 8 if IS_COMPILED else 40
"""Between producing and consuming: enough for a cleaner that is asked to be fast, on a busy machine. An interpreted
cleaner is many times slower."""
TIMEOUT_S = 150.0
"""Most of the time the tool waits: for twenty seconds without a record, to know that it has read them all."""

AT_ONCE = {
    "log_segment_bytes": "1048576",
    "log_cleaner_backoff_ms": "50",
    "log_cleaner_min_cleanable_ratio": "0.01",
}

pytestmark = pytest.mark.soak


class Case(NamedTuple):
    config: dict[str, str]
    duplicates: int
    """How often a key is written on average."""
    messages: int = 100_000
    topics: int = 1
    compression: str = "none"


CASES = {
    "as it comes": Case({}, 5),
    "1 MiB segments and a fast cleaner": Case(AT_ONCE, 5, topics=2),
    "a fast cleaner, few keys, zstd": Case(AT_ONCE, 100, 200_000, compression="zstd"),
}


def test_every_key_has_its_last_value(start_server: StartServer, java: JavaPeer, against_kafka: bool) -> None:
    if against_kafka:
        pytest.skip("the tool is Kafka's own")
    servers = {name: start_server(**case.config) for name, case in CASES.items()}
    runs = {name: java.submit("LogCompactionTester", *arguments(CASES[name], servers[name])) for name in CASES}
    for name, run in runs.items():
        produced, consumed = counts(name, run.result(TIMEOUT_S))
        assert produced == CASES[name].messages * CASES[name].topics
        if "fast" in name:
            assert consumed < produced, f"{name}: nothing was compacted before it was read"


def arguments(case: Case, server: ServerProcess) -> list[object]:
    return [
        *("--bootstrap-server", server.bootstrap_servers, "--messages", case.messages, "--topics", case.topics),
        *("--duplicates", case.duplicates, "--percent-deletes", 20, "--compression-type", case.compression),
        *("--sleep", SLEEP_S),
    ]


def counts(name: str, finished: Finished) -> tuple[int, int]:
    """How many records were produced and consumed, if the tool is content."""
    text = f"{name}: {finished.stdout}{finished.stderr}"
    assert finished.exit == 0, text
    assert re.search(r"Validated [1-9]\d* values, 0 mismatches", text), text
    assert "Data verification is completed" in text, text
    found = re.search(r"(\d+) rows of data produced, (\d+) rows of data consumed", text)
    assert found is not None, text
    return int(found[1]), int(found[2])

"""The stages of the suite: which tests belong to each, and how tests/run.py deals them out.

A test is *certain* where nothing but the code decides its outcome: no connection, process, sleep or thread
(`support/certain.py` proves it). *sockets* are the tests with connections, threads and processes of our own, *programs*
those that run other people's. *soak* measures time and memory, draws its trouble at random, or fetches the frameworks
that it runs: `make test` leaves it.
What is marked *deep* takes more cases with KMINI_SOAK=1, so that `make soak` runs it, too.

A mark decides (`pytest.mark.sockets`, of the test before that of its module), else the fixtures, else the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("certain", "sockets", "programs", "soak")

FOLDERS = {
    "tests/protocol": "certain",
    "tests/storage": "certain",
    "tests/broker": "certain",
    "tests/crash": "certain",
    "tests/simulation": "certain",
    "tests/graduation": "certain",
    "tests/pipeline": "certain",
    "tests/web": "certain",
    "tests/testkit": "sockets",
    "tests/control": "sockets",
    "tests/registry": "sockets",
    "tests/remote": "sockets",
    "tests/doctor": "sockets",
    "tests/trace": "sockets",
    "tests/pytest_plugin": "sockets",
    "tests/kips": "sockets",
    "tests/cli": "sockets",
    "tests/client": "sockets",
    "tests/fuzz": "sockets",
    "tests": "programs",
}
"""The stage of tests without a mark; the longest path counts."""

FIXTURES = {
    "apache_kafka_server": "programs",
    "java": "programs",
    "need_kafka": "programs",
    "spark": "programs",
    "start_server": "sockets",
    "server": "sockets",
}
"""Fixtures whose tests are in this stage, or in a later one."""


class Shard(NamedTuple):
    """Tests of one stage that one process runs, one after the other: those below `paths`, but not below `without`."""

    name: str
    paths: tuple[str, ...]
    without: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    timeout_s: int = 1200
    """A process that is not done by then is stopped."""
    alone: bool = False
    """It measures, so that it runs after the others, with none beside it."""


REST = "the rest"


def _dealt(*words: str) -> tuple[Shard, ...]:
    """A shard for each of the words, which name folders and files ("control registry"), and one for the
    rest where `REST` stands."""
    shares = [(word, ("tests",) if word == REST else tuple(f"tests/{path}" for path in word.split())) for word in words]
    named = [path for _, paths in shares for path in paths]
    return tuple(
        Shard(name, paths, tuple(each for each in named if any(each.startswith(f"{path}/") for path in paths)))
        for name, paths in shares
    )


OWN_KAFKA = " ".join(
    f"oracle/test_{name}.py"
    for name in (
        "graduation",
        "graduation_cluster",
        "graduation_consumer_groups",
        "graduation_secured",
        "graduation_transaction_versions",
        "loading_kafkas_logs",
        "old_logs",
        "same_answers_logins",
        "streams_groups_go_on",
        "compaction_differential",
        "compaction_tool",
        "transactional_message_copier",
    )
)
"""Those that start an Apache Kafka of their own, on data of ours, or none: not the one that the others share."""

SEVERAL_CLIENTS = " ".join(f"clients/test_{name}.py" for name in ("groups", "old_clients", "security", "transactions"))

MEASURED = "fuzz protocol clients/test_quotas.py"
"""Those whose soak tests measure time or memory."""

SHARDS = {
    "certain": _dealt("protocol", "simulation", "storage", REST, "broker/groups", "broker", "broker/handlers"),
    "sockets": _dealt("kips client fuzz", "cli", "testkit", REST, "control registry", "pytest_plugin"),
    "programs": _dealt("clients", "oracle", "pipeline", REST, OWN_KAFKA, SEVERAL_CLIENTS),
    "soak": tuple(
        shard._replace(
            env=(("KMINI_SOAK", "1"), ("PYTEST_TIMEOUT", "1800")), timeout_s=7200, alone=shard.name == MEASURED
        )
        for shard in _dealt("pipeline", "oracle", REST, MEASURED)
    ),
}
"""The shards of each stage, the longest first."""


def lanes(stage: str) -> int:
    """How many shards of a stage run side by side: what has connections waits a lot."""
    cores = os.cpu_count() or 1
    return {"certain": cores, "sockets": cores + 2, "programs": cores + 1, "soak": min(cores, 2)}[stage]


def stage_of(nodeid: str, marks: Iterable[str], fixtures: Iterable[str]) -> str:
    """The stage of a test. `marks` are the names of its marks, its own before those of its module."""
    for name in marks:
        if name in STAGES:
            return name
    found = _stage_of_folder(nodeid.partition("::")[0])
    needed = [FIXTURES[name] for name in fixtures if name in FIXTURES]
    return max([found, *needed], key=STAGES.index)


def stages_in(path: Path) -> set[str]:
    """The stages that tests of a file may be in, by its text: a run of one stage imports no file in vain."""
    if not path.is_relative_to(ROOT):  # a suite of another place, in a test of ours
        return set(STAGES)
    text = path.read_text(encoding="utf-8")
    stages = set(re.findall(rf"mark\.({'|'.join(STAGES)})\b", text))
    if "mark.deep" in text or "sampled(" in text:
        stages.add("soak")
    if re.search(rf"(?m)^pytestmark = .*mark\.({'|'.join(STAGES)})\b", text):
        return stages
    stages.add(_stage_of_folder(path.relative_to(ROOT).as_posix()))
    stages |= {stage for fixture, stage in FIXTURES.items() if re.search(rf"\b{fixture}\b", text)}
    return stages


@cache
def _stage_of_folder(path: str) -> str:
    return FOLDERS[max((folder for folder in FOLDERS if f"{path}/".startswith(f"{folder}/")), key=len)]

"""A streams group (KIP-1071) in the middle of a rebalance goes on with another server over the same directory: what one
has written, the other reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.oracle.streams_cast import StreamsCast
from support.server_process import ServerProcess, kafka_command, kmini_command
from support.transcript import Transcript

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("need_kafka")]


def not_needed(directory: str, names: list[str]) -> set[str]:
    """Locks, indexes, which are made again, and what only Apache Kafka has."""
    return {
        name
        for name in names
        if name.endswith((".lock", "index")) or name.startswith(("__cluster_metadata", "bootstrap.checkpoint"))
    }


def from_kafka_to_kmini(data: Path, new: Path) -> list[str]:
    shutil.copytree(data / "log", new / "broker-1", ignore=not_needed)
    return kmini_command(new, {})


def from_kmini_to_kafka(data: Path, new: Path) -> list[str]:
    shutil.copytree(data / "broker-1", new / "log", ignore=lambda *of: {*not_needed(*of), "meta.properties"})
    return kafka_command(new, {}, "--adopt")


def members(described: Any) -> list[Any]:
    """The members, which Apache Kafka tells in the order of their hashes."""
    return sorted(described.members, key=lambda member: str(member.member_id))


@pytest.mark.parametrize(
    ("first", "move"),
    [(kafka_command, from_kafka_to_kmini), (kmini_command, from_kmini_to_kafka)],
    ids=["from Kafka to kmini", "from kmini to Kafka"],
)
def test_a_group_goes_on_in_the_middle_of_a_rebalance(
    first: Callable[..., list[str]], move: Callable[[Path, Path], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    server = ServerProcess(first(tmp_path / "data", {}), tmp_path / "first.log")
    successor = None
    try:
        transcript = Transcript(server, "moved")
        cast = StreamsCast(transcript, "", 0, 0, {"t": 4})
        counts = cast.sub("0", "t", keeps=["c"])
        cast.join("first", "a", counts)
        cast.adopt(c=4)
        cast.beat("first has all", "a")
        cast.join("second", "b", counts)
        cast.beat("first is asked to give up", "a")
        before = cast.describe("described").groups[0]
        assert (before.group_state, before.group_epoch) == ("Reconciling", 4)
        transcript.close()
        server.stop()

        successor = ServerProcess(move(tmp_path / "data", tmp_path / "new"), tmp_path / "second.log")
        later = Transcript(successor, "moved")
        cast.go_on(later)
        after = cast.describe("described by the other").groups[0]
        assert members(after) == members(before)
        assert (after.group_state, after.group_epoch, after.assignment_epoch) == ("Reconciling", 4, 4)
        cast.step("first has given up", "a")
        cast.step("second gets its share", "b")
        assert {name: tasks[0] for name, tasks in cast.tasks.items()} == {"a": {"0": [0, 1]}, "b": {"0": [2, 3]}}
        done = cast.describe("described in the end").groups[0]
        assert (done.group_state, done.group_epoch) == ("Stable", 4), "the topics have the same hash for both"
        cast.close()
        later.close()
    finally:
        server.kill()
        if successor is not None:
            successor.kill()

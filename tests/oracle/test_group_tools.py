"""Kafka's ConsumerGroupCommand, the console consumer in a group and kcat's balanced consumer, unchanged, against the
server under test."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.batches import Item, batch
from support.group_members import MemberProcess, process_command
from support.java_peer import Finished, RunTool
from support.kafka_requests import produce
from support.offset_requests import await_coordinator, commit, fetch
from support.server_process import ServerProcess
from support.until import until
from support.wire import Wire

TopicNames = Callable[[str], str]

RECORDS = 20
COMMITTED = (5, 7)
"""In each of the two partitions."""


@pytest.fixture
def topic(tool: RunTool, server: ServerProcess, topic_names: TopicNames) -> str:
    """A topic with two partitions and some records in both."""
    name = topic_names("read")
    assert tool("TopicCommand", "--create", "--topic", name, "--partitions", 2).exit == 0
    with Wire(server.host, server.port) as wire:
        for partition in range(2):
            records = batch([Item(value=str(number).encode()) for number in range(RECORDS)])
            wire.ask(produce(name, records, partition=partition), 9)
    return name


@pytest.fixture
def group(server: ServerProcess, topic: str) -> str:
    """A group without members that has come some way in the topic."""
    name = f"{topic}-group"
    with Wire(server.host, server.port) as wire:
        await_coordinator(wire, name)
        kept = [(partition, offset, "") for partition, offset in enumerate(COMMITTED)]
        wire.ask(commit(name, topic, *kept), 8)
    return name


@pytest.fixture
def groups(tool: RunTool) -> Callable[..., Finished]:
    """Run ConsumerGroupCommand."""

    def run(*arguments: object) -> Finished:
        return tool("ConsumerGroupCommand", *arguments)

    return run


def rows(finished: Finished) -> list[list[str]]:
    """The table that was printed, without its head."""
    assert finished.exit == 0, finished.stderr
    table = [line.split() for line in finished.lines if line.strip()]
    head = next(number for number, row in enumerate(table) if row[0] in ("GROUP", "TOPIC"))
    return table[head + 1 :]


def offsets(server: ServerProcess, group: str) -> dict[tuple[str, int], int]:
    with Wire(server.host, server.port) as wire:
        answer = wire.ask(fetch(group, None, 7), 7)
    return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}


def test_it_lists_the_groups_with_their_states(groups: Any, group: str) -> None:
    assert group in groups("--list").lines
    assert [group, "Empty"] in rows(groups("--list", "--state"))
    assert not [row for row in rows(groups("--list", "--state", "stable")) if row[0] == group]
    assert [group, "Classic"] in [row[:2] for row in rows(groups("--list", "--type", "classic"))]


def test_it_describes_offsets_and_lag(groups: Any, group: str, topic: str) -> None:
    finished = groups("--describe", "--group", group)
    assert f"Consumer group '{group}' has no active members." in finished.stdout + finished.stderr
    expected = [
        [group, topic, str(partition), str(offset), str(RECORDS), str(RECORDS - offset)]
        for partition, offset in enumerate(COMMITTED)
    ]
    assert sorted(row[:6] for row in rows(finished)) == expected


def test_it_describes_the_state(groups: Any, group: str) -> None:
    (row,) = rows(groups("--describe", "--group", group, "--state"))
    assert row[0] == group
    assert "(1)" in row
    assert row[-2:] == ["Empty", "0"]


def test_a_group_that_is_not_known_is_not_found(groups: Any, group: str) -> None:
    finished = groups("--describe", "--group", f"{group}-absent")
    assert "GroupIdNotFoundException" in finished.stdout


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (["--to-earliest"], (0, 0)),
        (["--to-latest"], (RECORDS, RECORDS)),
        (["--to-offset", 3], (3, 3)),
        (["--shift-by", 2], (COMMITTED[0] + 2, COMMITTED[1] + 2)),
        (["--to-current"], COMMITTED),
    ],
)
def test_it_resets_offsets(
    groups: Any, server: ServerProcess, group: str, topic: str, how: list[object], expected: tuple[int, int]
) -> None:
    dry = groups("--reset-offsets", "--group", group, "--topic", topic, *how, "--dry-run")
    assert sorted(row[:4] for row in rows(dry)) == [[group, topic, str(p), str(expected[p])] for p in range(2)]
    assert offsets(server, group) == {(topic, p): COMMITTED[p] for p in range(2)}
    assert groups("--reset-offsets", "--group", group, "--topic", topic, *how, "--execute").exit == 0
    assert offsets(server, group) == {(topic, p): expected[p] for p in range(2)}


def test_it_deletes_offsets_of_a_topic(groups: Any, server: ServerProcess, group: str, topic: str) -> None:
    finished = groups("--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    assert [topic, "1", "Successful"] in rows(finished)
    assert offsets(server, group) == {(topic, 0): COMMITTED[0]}
    assert groups("--delete-offsets", "--group", group, "--topic", topic).exit == 0
    assert offsets(server, group) == {}


def test_it_deletes_groups(groups: Any, server: ServerProcess, group: str) -> None:
    finished = groups("--delete", "--group", group)
    assert f"Deletion of requested consumer groups ('{group}') was successful." in finished.stdout
    assert group not in groups("--list").lines
    assert offsets(server, group) == {}


@contextmanager
def kcat_consumer(server: ServerProcess, group: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A member of the group; yields when it has read everything once."""
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    command = ["kcat", "-b", server.bootstrap_servers, "-u", "-q", "-f", "%p:%o:%s\\n", "-G", group, topic]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return sorted(process.stdout.readline().strip() for _ in range(count))


def test_kcat_reads_as_a_member_and_goes_on_where_the_group_was(
    server: ServerProcess, groups: Any, group: str, topic: str
) -> None:
    expected = sorted(f"{p}:{offset}:{offset}" for p in range(2) for offset in range(COMMITTED[p], RECORDS))
    with kcat_consumer(server, group, topic) as member:
        assert read(member, len(expected)) == expected
        state = rows(groups("--describe", "--group", group, "--state"))[0]
        assert state[-2:] == ["Stable", "1"]
        described = rows(groups("--describe", "--group", group, "--members"))[0]
        assert described[0] == group
        assert described[-1] == "2"
        assert {row[0] for row in rows(groups("--describe", "--group", group))} == {group}
        refused = groups("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
        assert re.search("inactive|Assignments can only be reset", refused.stdout + refused.stderr)
        refused = groups("--delete", "--group", group)
        assert "GroupNotEmptyException" in refused.stdout + refused.stderr
        refused = groups("--delete-offsets", "--group", group, "--topic", topic)
        assert "GroupSubscribedToTopicException" in refused.stdout + refused.stderr


@pytest.fixture
def new_member(server: ServerProcess, topic: str, group: str, tmp_path: Path) -> Iterator[MemberProcess]:
    """A member of the group in the new protocol, which has handled and committed all records."""
    options = {"client-id": "new-member"}
    command = process_command("confluent-kafka", "consumer", options, server.bootstrap_servers, group, topic)
    member = MemberProcess(command, tmp_path / "member.stderr")
    done = {(topic, partition): RECORDS for partition in range(2)}
    try:
        until(lambda: offsets(server, group) == done, member.say, poll_s=0.02)
        yield member
    finally:
        member.crash()


@pytest.mark.usefixtures("new_member")
def test_it_describes_a_group_of_the_new_protocol(groups: Any, group: str, topic: str) -> None:
    assert [group, "Stable"] in rows(groups("--list", "--state"))
    assert [group, "Consumer"] in rows(groups("--list", "--type", "consumer"))
    assert not [row for row in rows(groups("--list", "--type", "classic")) if row[0] == group]
    (state,) = rows(groups("--describe", "--group", group, "--state", "--verbose"))
    strategy, name, epoch, target_epoch, members = state[-5:]
    assert (strategy, name, members) == ("uniform", "Stable", "1")
    assert epoch == target_epoch
    (member,) = rows(groups("--describe", "--group", group, "--members", "--verbose"))
    partitions = f"{topic}:0,1"
    assert member[2:] == ["/127.0.0.1", "new-member", "2", epoch, partitions, epoch, partitions]
    described = rows(groups("--describe", "--group", group, "--offsets", "--verbose"))
    expected = [[group, topic, str(number), str(RECORDS), str(RECORDS), "0"] for number in range(2)]
    assert sorted([*row[:3], *row[4:7]] for row in described) == expected


@pytest.mark.usefixtures("new_member")
def test_a_group_of_the_new_protocol_with_a_member_is_not_changed(groups: Any, group: str, topic: str) -> None:
    refused = groups("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert re.search("inactive|Assignments can only be reset", refused.stdout + refused.stderr)
    refused = groups("--delete", "--group", group)
    assert "GroupNotEmptyException" in refused.stdout + refused.stderr
    refused = groups("--delete-offsets", "--group", group, "--topic", topic)
    assert "GroupSubscribedToTopicException" in refused.stdout + refused.stderr


def test_a_group_of_the_new_protocol_without_members_is_reset_and_deleted(
    groups: Any, server: ServerProcess, group: str, topic: str, new_member: MemberProcess
) -> None:
    new_member.leave()
    assert groups("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute").exit == 0
    assert offsets(server, group) == {(topic, 0): 0, (topic, 1): 0}
    finished = groups("--delete", "--group", group)
    assert f"Deletion of requested consumer groups ('{group}') was successful." in finished.stdout
    assert group not in groups("--list").lines


def test_the_console_consumer_commits_for_its_group(
    tool: RunTool, server: ServerProcess, topic: str, topic_names: TopicNames
) -> None:
    group = topic_names("console-group")
    limits = ("--max-messages", 2 * RECORDS, "--timeout-ms", 15_000)
    first = tool("ConsoleConsumer", "--topic", topic, "--group", group, "--from-beginning", *limits)
    assert len(first.lines) == 2 * RECORDS
    assert offsets(server, group) == {(topic, 0): RECORDS, (topic, 1): RECORDS}
    # short: there is nothing to read
    again = tool("ConsoleConsumer", "--topic", topic, "--group", group, "--timeout-ms", 2_000)
    assert again.lines == []

"""Groups of three members, with each client: members join, leave, crash and come back, and no record is lost. None is
handled twice where a member commits before it handles, or where none crashes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support import apache_kafka, client_adapters
from support.batches import Item, batch
from support.client_adapters import Java
from support.kafka_requests import create_topics, produce, wait_for_leaders
from support.offset_requests import fetch as fetch_offsets
from support.server_process import ServerProcess, StartServer
from support.until import until
from support.wire import Wire

PARTITIONS = 6
PATIENCE_S = 40
MEMBER = Path(client_adapters.__file__).with_name("group_member.py")

Place = tuple[int, int]
"""Partition and offset."""


class GroupMember:
    """A consumer in a process of its own."""

    def __init__(self, command: list[str], complaints: Path) -> None:
        self.handled: list[Place] = []
        self.owned: list[int] = []
        self.notes: list[list[object]] = []
        self._complaints = complaints
        with complaints.open("wb") as stderr:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self._note_java(said) if isinstance(said, dict) else self._note(*said)

    def _note(self, kind: str, *rest: Any) -> None:
        if kind == "record":
            self.handled.append((rest[0], rest[1]))
        elif kind == "assigned":
            self.owned = rest[0]
        elif kind == "revoked":
            self.owned = []
        else:
            self.notes.append([kind, *rest])

    def _note_java(self, said: dict[str, Any]) -> None:
        """What VerifiableConsumer tells."""
        places = said.get("partitions", [])
        match said["name"]:
            case "partitions_assigned":
                self.owned = [place["partition"] for place in places]
            case "partitions_revoked":
                self.owned = []
            case "records_consumed":
                for place in places:
                    offsets = range(place["minOffset"], place["maxOffset"] + 1)
                    self.handled += [(place["partition"], offset) for offset in offsets]
            case "offsets_committed" if not said["success"]:
                self.notes.append(["commit failed", said])

    def say(self) -> str:
        """What it owns, and what it has said on stderr; one in Python says there what it is doing just now."""
        if self._process.poll() is None and self._process.args[0] == sys.executable:
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
        complaints = self._complaints.read_text(errors="replace")[-4000:]
        ended = self._process.poll()
        return f"{self.owned} {len(self.handled)} {self.notes}, exit code {ended}\n{complaints}"

    def leave(self) -> None:
        self._process.terminate()
        self._end()

    def crash(self) -> None:
        self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait(PATIENCE_S)
        self._reader.join()
        self.owned = []
        assert self._process.stdout is not None
        self._process.stdout.close()


class Scene:
    """A topic, a group, its members past and present, and what has been produced."""

    def __init__(self, server: ServerProcess, client: str, options: list[str], directory: Path) -> None:
        self._directory = directory
        self.members: list[GroupMember] = []
        self._server = server
        self._client = client
        self._options = options
        self._wire = Wire(server.host, server.port)
        self._produced: Counter[int] = Counter()

    def start(self, instance: str | None = None) -> GroupMember:
        """A member; a static one with an instance id."""
        option = "--group-instance-id" if self._client == Java.name else "--instance"
        identity = [] if instance is None else [option, instance]
        command = [*self._command(), *self._options, *identity]
        self.members.append(GroupMember(command, self._directory / f"member-{len(self.members)}.stderr"))
        return self.members[-1]

    def _command(self) -> list[str]:
        servers = self._server.bootstrap_servers
        if self._client != Java.name:
            return [sys.executable, str(MEMBER), self._client, servers, "readers", "orders"]
        java = apache_kafka.java_command("-Xmx128m", "-XX:TieredStopAtLevel=1")
        place = ["--bootstrap-server", servers, "--group-id", "readers", "--topic", "orders"]
        times = ["--session-timeout", "3000", "--command-config", str(self._directory / "client.properties")]
        (self._directory / "client.properties").write_text("heartbeat.interval.ms=300\n", encoding="utf-8")
        tool = "org.apache.kafka.tools.VerifiableConsumer"
        return [*java, tool, *place, *times, "--reset-policy", "earliest", "--group-protocol", "classic"]

    def restart_server(self) -> None:
        """Kill -9, and start again."""
        self._wire.socket.close()
        self._server.kill()
        self._server.start()
        self._wire = Wire(self._server.host, self._server.port)

    def produce(self) -> None:
        """Ten records for every partition."""
        for partition in range(PARTITIONS):
            answer = self._wire.ask(produce("orders", batch([Item()] * 10), partition=partition), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            self._produced[partition] += 10

    def wait_until_shared(self, *members: GroupMember) -> None:
        """Return when these members, and no others, own all partitions, each of them some."""
        self.wait(
            lambda: (
                sorted(partition for member in members for partition in member.owned) == [*range(PARTITIONS)]
                and all(member.owned for member in members)
            )
        )

    def wait_until_handled(self) -> None:
        self.wait(lambda: {*self.handled()} == self.places())

    def wait_until_committed(self) -> None:
        """Return when nothing is left that a member has handled and a crash would give to another member once more."""
        request = fetch_offsets("readers", [("orders", [*range(PARTITIONS)])], 7)
        self.wait(
            lambda: (
                {one.partition_index: one.committed_offset for one in self._wire.ask(request, 7).topics[0].partitions}
                == self._produced
            )
        )

    def handled(self) -> list[Place]:
        return [place for member in self.members for place in member.handled]

    def places(self) -> set[Place]:
        return {(partition, offset) for partition, count in self._produced.items() for offset in range(count)}

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Return when something is so."""
        until(is_so, self._say, timeout_s=PATIENCE_S, poll_s=0.02)

    def _say(self) -> str:
        lines = [member.say() for member in self.members]
        missing = sorted(self.places() - {*self.handled()})
        return "\n".join([*lines, f"missing {missing[:20]}", self._server.log_tail()])

    def close(self) -> None:
        self._wire.socket.close()
        for member in self.members:
            member.crash()


CLIENTS = {
    "kafka-python": ("kafka-python", []),
    "aiokafka": ("aiokafka", []),
    "confluent-kafka": ("confluent-kafka", []),
    "java": ("java", []),
    "confluent-kafka, cooperative": ("confluent-kafka", ["--assignor", "cooperative-sticky"]),
}


NOT_JAVA = pytest.mark.parametrize("new_scene", [name for name in CLIENTS if name != "java"], indirect=True)


@pytest.fixture(params=CLIENTS)
def new_scene(
    request: pytest.FixtureRequest, start_server: StartServer, tmp_path: Path
) -> Iterator[Callable[..., Scene]]:
    """A maker of a scene for one client, on a server that takes short session time-outs."""
    client, client_options = CLIENTS[request.param]
    missing = apache_kafka.why_unavailable if client == Java.name else partial(client_adapters.why_unavailable, client)
    if reason := missing():
        pytest.skip(reason)
    scenes: list[Scene] = []

    def make(*options: str) -> Scene:
        server = start_server(group_min_session_timeout_ms="500", num_partitions=str(PARTITIONS))
        with Wire(server.host, server.port) as wire:
            wire.ask(create_topics({"name": "orders", "num_partitions": PARTITIONS}), 5)
            wait_for_leaders(wire, "orders", PARTITIONS)
        scenes.append(Scene(server, client, [*client_options, *options], tmp_path))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()


def test_members_come_go_and_crash_and_no_record_is_lost(new_scene: Callable[..., Scene]) -> None:
    scene = new_scene()
    first, second, third = scene.start(), scene.start(), scene.start("third")
    scene.wait_until_shared(first, second, third)
    scene.produce()
    fourth = scene.start()
    scene.wait_until_shared(first, second, third, fourth)
    scene.produce()
    scene.wait_until_handled()
    first.leave()
    scene.wait_until_shared(second, third, fourth)
    scene.produce()
    scene.wait_until_handled()
    refused = [note for member in scene.members for note in member.notes]
    assert len(scene.handled()) == len(scene.places()) or refused, "no member has crashed, and no commit came too late"
    scene.produce()
    second.crash()
    scene.produce()
    scene.wait_until_shared(third, fourth)
    scene.wait_until_handled()


@NOT_JAVA
def test_a_member_that_commits_before_it_handles_handles_nothing_twice_even_across_crashes(
    new_scene: Callable[..., Scene],
) -> None:
    scene = new_scene("--commit-first")
    first, second, third = (scene.start() for _ in range(3))
    scene.wait_until_shared(first, second, third)
    scene.produce()
    scene.wait_until_handled()
    second.crash()
    scene.produce()
    scene.wait_until_shared(first, third)
    scene.produce()
    third.leave()
    scene.wait_until_shared(first)
    scene.produce()
    scene.wait(lambda: sum(offset >= 30 for _, offset in scene.handled()) == 10 * PARTITIONS)
    twice = [place for place, times in Counter(scene.handled()).items() if times > 1]
    assert twice == []


def test_a_static_member_that_was_killed_comes_back_to_its_partitions(new_scene: Callable[..., Scene]) -> None:
    scene = new_scene()
    names = ("first", "second", "third")
    members = {name: scene.start(name) for name in names}
    scene.wait_until_shared(*members.values())
    scene.produce()
    scene.wait_until_handled()
    scene.wait_until_committed()
    before = {name: member.owned for name, member in members.items()}
    members["second"].crash()
    members["second"] = scene.start("second")
    scene.wait_until_shared(*members.values())
    assert {name: member.owned for name, member in members.items()} == before
    scene.produce()
    scene.wait_until_handled()
    assert len(scene.handled()) == len(scene.places())


@NOT_JAVA
def test_a_group_outlives_its_broker(new_scene: Callable[..., Scene]) -> None:
    scene = new_scene()
    first, second, third = (scene.start() for _ in range(3))
    scene.wait_until_shared(first, second, third)
    scene.produce()
    scene.wait_until_handled()
    scene.restart_server()
    scene.produce()
    scene.wait_until_handled()
    scene.wait_until_shared(first, second, third)
    third.leave()
    scene.wait_until_shared(first, second)

"""Groups of three members, with each client: members join, leave, crash and come back, and no record is lost. None is
handled twice where a member commits before it handles, or where none crashes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support import apache_kafka, client_adapters
from support.client_adapters import Java
from support.for_each import sampled
from support.group_members import PYTHON_MEMBER, GroupMember, MemberProcess
from support.group_scene import GroupScene
from support.offset_requests import fetch as fetch_offsets
from support.server_process import ServerProcess, StartServer
from support.wire import Wire

PARTITIONS = 6
TOPIC, GROUP = "orders", "readers"


class VerifiableMember(MemberProcess):
    """A process of Kafka's VerifiableConsumer."""

    def take(self, said: dict[str, Any]) -> None:
        places, now_us = said.get("partitions", []), time.time_ns() // 1_000
        match said["name"]:
            case "partitions_assigned":
                self.note("owned", now_us, [[place["topic"], place["partition"]] for place in places])
            case "partitions_revoked":
                self.note("owned", now_us, [])
            case "records_consumed":
                for place in places:
                    for offset in range(place["minOffset"], place["maxOffset"] + 1):
                        self.note("record", now_us, place["topic"], place["partition"], offset)
            case "offsets_committed" if not said["success"]:
                self.note("commit failed", now_us, [], said)


class Scene(GroupScene):
    """A topic and a group of one client on a server of its own."""

    def __init__(self, server: ServerProcess, client: str, options: list[str], directory: Path) -> None:
        super().__init__(Wire(server.host, server.port), server.log_tail)
        self._directory = directory
        self._server = server
        self._client = client
        self._options = options

    def start(self, instance: str | None = None) -> GroupMember:
        """A member; a static one with an instance id."""
        option = "--group-instance-id" if self._client == Java.name else "--instance"
        identity = [] if instance is None else [option, instance]
        command = [*self._command(), *self._options, *identity]
        kind = VerifiableMember if self._client == Java.name else MemberProcess
        self.members.append(kind(command, self._directory / f"member-{len(self.members)}.stderr"))
        return self.members[-1]

    def _command(self) -> list[str]:
        servers = self._server.bootstrap_servers
        if self._client != Java.name:
            return [sys.executable, str(PYTHON_MEMBER), self._client, servers, GROUP, TOPIC]
        java = apache_kafka.java_command("-Xmx128m", "-XX:TieredStopAtLevel=1")
        place = ["--bootstrap-server", servers, "--group-id", GROUP, "--topic", TOPIC]
        times = ["--session-timeout", "3000", "--command-config", str(self._directory / "client.properties")]
        (self._directory / "client.properties").write_text("heartbeat.interval.ms=300\n", encoding="utf-8")
        tool = "org.apache.kafka.tools.VerifiableConsumer"
        return [*java, tool, *place, *times, "--reset-policy", "earliest", "--group-protocol", "classic"]

    def restart_server(self) -> None:
        """Kill -9, and start again."""
        self.close()
        self._server.kill()
        self._server.start()
        self.wire = Wire(self._server.host, self._server.port)

    def wait_until_committed(self) -> None:
        """Return when nothing is left that a member has handled and a crash would give to another member once more."""
        request = fetch_offsets(GROUP, [(TOPIC, [*range(PARTITIONS)])], 7)
        self.wait(
            lambda: (
                {
                    (TOPIC, one.partition_index): one.committed_offset
                    for one in self.wire.ask(request, 7).topics[0].partitions
                }
                == self.produced()
            )
        )


CLIENTS = {
    "kafka-python": ("kafka-python", []),
    "aiokafka": ("aiokafka", []),
    "confluent-kafka": ("confluent-kafka", []),
    "java": ("java", []),
    "confluent-kafka, cooperative": ("confluent-kafka", ["--assignor", "cooperative-sticky"]),
}


PYTHON_CLIENTS = [name for name in CLIENTS if name != "java"]


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
        scenes.append(Scene(server, client, [*client_options, *options], tmp_path))
        scenes[-1].create_topic(TOPIC, PARTITIONS)
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()
        for member in scene.members:
            member.crash()


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


@pytest.mark.parametrize("new_scene", sampled(PYTHON_CLIENTS, "confluent-kafka"), indirect=True)
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
    scene.wait(lambda: sum(offset >= 30 for *_, offset in scene.handled()) == 10 * PARTITIONS)
    assert scene.handled_again() == []


@pytest.mark.parametrize("new_scene", sampled(CLIENTS, "kafka-python"), indirect=True)
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


@pytest.mark.parametrize("new_scene", sampled(PYTHON_CLIENTS, "aiokafka"), indirect=True)
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

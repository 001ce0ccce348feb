"""A group at the server under test, for tests of the group protocols: kmini in this process, whose clock a test moves,
or any other broker, at which the test waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kmini import Broker
from support.client_adapters import Java
from support.group_members import GroupMember, JavaMember, MemberProcess, java_settings, process_command
from support.group_scene import GroupScene
from support.java_peer import JavaPeer
from support.kafka_requests import create_topics
from support.offset_requests import fetch as fetch_offsets
from support.oracle.config_requests import grow
from support.wire import Wire

SESSION_MS = 6_000
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}
"""The settings of the broker: members hear of changes after 200 ms."""


class Served(NamedTuple):
    """A broker under test."""

    bootstrap_servers: str
    log_tail: Callable[[], str]
    broker: Broker | None
    """kmini in this process, whose clock a test may move."""

    def wire(self) -> Wire:
        host, port = self.bootstrap_servers.rsplit(":", 1)
        return Wire(host, int(port))


class ProtocolGroup(GroupScene):
    """A group with a topic of its own name, and members of any client."""

    def __init__(self, served: Served, name: str, directory: Path, java: Callable[..., JavaPeer]) -> None:
        super().__init__(served.wire(), served.log_tail)
        self.name = name
        self._served = served
        self._directory = directory
        self._java = java

    def start(
        self,
        client: str,
        topic: str | None = None,
        *,
        protocol: str = "consumer",
        expression: bool = False,
        instance: str | None = None,
        is_alone: bool = False,
        **settings: object,
    ) -> GroupMember:
        """Start a member. The topic is the group's, unless another or an expression is given; one in Java has a JVM to
        itself if it `is_alone`. The settings, with _ for the dots, are for one in Java."""
        servers, topic = self._served.bootstrap_servers, topic or self.name
        client_id = f"{self.name}-{len(self.members)}"
        kind = "expression" if expression else "topics"
        member: GroupMember
        if client == Java.name:
            given = {name.replace("_", "."): value for name, value in settings.items()}
            all_settings = java_settings(servers, self.name, protocol, instance) | given | {"client.id": client_id}
            member = JavaMember(self._java(is_alone=is_alone), f"{kind}={topic}", all_settings)
        else:
            options = {"client-id": client_id, "instance": instance, "subscription": kind}
            command = process_command(client, protocol, options, servers, self.name, topic)
            member = MemberProcess(command, self._directory / f"{client_id}.stderr")
        self.members.append(member)
        return member

    def create_topic(self, name: str, partitions: int, *, is_subscribed: bool = True) -> None:
        """One that the group does not subscribe to gets no records of `produce`."""
        if is_subscribed:
            super().create_topic(name, partitions)
        else:
            self.wire.ask(create_topics({"name": name, "num_partitions": partitions}), 5)

    def add_partitions(self, count: int) -> None:
        """Give the topic so many partitions in all."""
        answer = self.wire.ask(grow((self.name, count, None)), 1)
        assert [result.error_code for result in answer.results] == [0]
        self.note_topic(self.name, count)

    def wait_until_committed(self) -> None:
        """Return when the group has committed all that was produced."""
        topics = sorted({topic for topic, _ in self.partitions})
        wanted = [(topic, [number for name, number in self.partitions if name == topic]) for topic in topics]

        def committed() -> dict[tuple[str, int], int]:
            answer = self.wire.ask(fetch_offsets(self.name, wanted, 7), 7)
            return {
                (each.name, one.partition_index): one.committed_offset
                for each in answer.topics
                for one in each.partitions
            }

        self.wait(lambda: committed() == self.produced())

    def let_sessions_expire(self, living: Sequence[GroupMember]) -> None:
        """Let the time pass after which a silent member is fenced; the living ones heartbeat meanwhile."""
        self.let_pass_ms(SESSION_MS + 500, living)

    def let_pass_ms(self, duration_ms: int, living: Sequence[GroupMember]) -> None:
        """Move kmini's clock in steps that are shorter than a session: after each one the living members heartbeat. At
        another broker the time passes while the test waits for what comes of it."""
        broker = self._served.broker
        if broker is None:
            return
        for _ in range(0, duration_ms, SESSION_MS // 3):
            mark = broker.requests.mark()
            broker.clock.advance(SESSION_MS // 3, liveness=True)
            for number, member in enumerate(self.members):
                if member in living:
                    client_id = f"{self.name}-{number}"
                    broker.requests.wait_for("ConsumerGroupHeartbeat", client_id=client_id, since=mark)

    def close(self) -> None:
        """End all members: those in Java leave, since they share a JVM."""
        super().close()
        for member in self.members:
            member.leave() if isinstance(member, JavaMember) else member.crash()

    @contextmanager
    def producing(self) -> Iterator[None]:
        """Produce a record for every partition every 20 ms meanwhile."""
        wire, self.wire = self.wire, self._served.wire()
        over = threading.Event()

        def produce() -> None:
            while not over.wait(0.02):
                self.produce(1)

        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.wire.socket.close()
            self.wire = wire

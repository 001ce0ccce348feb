"""Measure groups of the consumer protocol (KIP-848) beside Apache Kafka; prints one line of JSON a peer.

stable     a second member joins a group of one: until each has its partition. Members are requests, and send a
           heartbeat when a client would: as often as the broker says, and at once when they have given up a partition
at_once    the same with both members joining at once
kafkas     "stable" with heartbeats every 5 s, as Apache Kafka wants them
clients    two consumers of librdkafka at once, from subscribe() to the assignment of both
heartbeat  processor time of the broker while 100 groups of 10 members send a heartbeat every 5 s, as a share of a core
large      one group of 1,000 members over 10,000 partitions: a member joins, until the target assignment is computed;
           and the longest wait of another client meanwhile
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
import time
from typing import Any

from groups import clients_ms, quantiles
from peers import ServerProcess, available, running

# isort: split
from kmini.protocol.framing import frame_of
from kmini.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kmini.protocol.messages.create_topics import CreateTopicsRequest
from kmini.protocol.messages.describe_configs import GROUP
from kmini.protocol.messages.describe_groups import DescribeGroupsRequest
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.headers import RequestHeader, read_response_header
from kmini.protocol.messages.incremental_alter_configs import SET, IncrementalAlterConfigsRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.uuids import format_uuid, random_uuid
from kmini.testing import Wire

GROUPS, MEMBERS = 100, 10
HEARTBEAT_S = 5.0
LARGE_MEMBERS, LARGE_TOPICS, LARGE_PARTITIONS = 1_000, 10, 1_000
LARGE_JOINS = 15
PING_S = 0.001
JOIN_TIMEOUT_S = 60.0

Partitions = dict[bytes, list[int]]


def beat(
    group: str, member_id: str, epoch: int, topics: list[str] | None = None, owned: Partitions | None = None
) -> Any:
    reported = None
    if owned is not None:
        reported = [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in owned.items()]
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if topics is not None else -1,
        subscribed_topic_names=topics,
        topic_partitions=reported,
    )


def create_topic(wire: Wire, name: str, partitions: int) -> None:
    topic = CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1)
    answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=300_000), 5)
    assert answer.topics[0].error_code in (0, 36), answer
    while any(one.error_code or one.leader_id < 0 for one in _partitions(wire, name, partitions)):
        time.sleep(0.1)


def _partitions(wire: Wire, name: str, partitions: int) -> list[Any]:
    while True:
        (topic,) = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 9).topics
        if not topic.error_code and len(topic.partitions) == partitions:
            return list(topic.partitions)
        time.sleep(0.1)


def await_coordinator(wire: Wire, *groups: str) -> None:
    """Return when the server coordinates the groups and has loaded them; the first question makes their topic."""
    for group in groups:
        while wire.ask(FindCoordinatorRequest(key=group, key_type=0), 2).error_code:
            time.sleep(0.05)
        while wire.ask(DescribeGroupsRequest(groups=[group]), 0).groups[0].error_code:
            time.sleep(0.05)


def set_group(wire: Wire, group: str, **settings: int) -> None:
    Resource = IncrementalAlterConfigsRequest.Resource
    changes = [
        Resource.Config(name=f"consumer.{name.replace('_', '.')}", config_operation=SET, value=str(value))
        for name, value in settings.items()
    ]
    resource = Resource(resource_type=GROUP, resource_name=group, configs=changes)
    answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert not answer.responses[0].error_code, answer


# --- two members


VERSION = 1
"""The version of ConsumerGroupHeartbeat."""


def frame(request: ConsumerGroupHeartbeatRequest) -> bytes:
    header = RequestHeader(request.api_key, VERSION, 1, "bench")
    return b"".join(frame_of(header.encode(request.header_version(VERSION)), request.encode(VERSION)))


class Member:
    """A member over a connection of its own, which sends heartbeats when a client would."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, group: str) -> None:
        self.reader, self.writer = reader, writer
        self.group, self.member_id, self.epoch = group, format_uuid(random_uuid()), 0
        self.owned: Partitions = {}
        self.changed = asyncio.Event()

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))

    async def ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        self.writer.write(frame(request))
        content = memoryview(await self.receive())
        _, position = read_response_header(content, ConsumerGroupHeartbeatResponse.header_version(VERSION))
        answer: ConsumerGroupHeartbeatResponse = ConsumerGroupHeartbeatResponse.decode(content[position:], VERSION)
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        return answer

    async def receive(self) -> bytes:
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    async def live(self, topic: str) -> None:
        """Join, and stay."""
        request = beat(self.group, self.member_id, 0, [topic], {})
        while True:
            answer, has_less = await self.ask(request), False
            if answer.assignment is not None:
                given = {one.topic_id: list(one.partitions) for one in answer.assignment.topic_partitions}
                has_less = any({*numbers} - {*given.get(topic_id, ())} for topic_id, numbers in self.owned.items())
                has_other, self.owned = given != self.owned, given
                if has_other:
                    self.changed.set()
            request = beat(self.group, self.member_id, self.epoch, owned=self.owned if has_less else None)
            if not has_less:
                await asyncio.sleep(answer.heartbeat_interval_ms / 1000)


async def joined(server: ServerProcess, group: str) -> tuple[Member, asyncio.Task[None]]:
    member = Member(*await asyncio.open_connection(server.host, server.port), group)
    return member, asyncio.ensure_future(member.live("pairs"))


async def pair_ms(server: ServerProcess, group: str, *, later: bool) -> float:
    """From the join of the second member until each has one partition."""
    first, living = await joined(server, group)
    if later:
        await first.changed.wait()
        await asyncio.sleep(1.2 + random.random() * HEARTBEAT_S)  # behind the assignment interval, at any phase
    started = time.perf_counter()
    second, also = await joined(server, group)
    while (first.count, second.count) != (1, 1):
        for task in (living, also):
            if task.done():
                task.result()
        waiting = [asyncio.ensure_future(one.changed.wait()) for one in (first, second)]
        await asyncio.wait(waiting, timeout=JOIN_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        for one, task in zip((first, second), waiting, strict=True):
            task.cancel()
            one.changed.clear()
    duration_ms = (time.perf_counter() - started) * 1000
    for task, member in ((living, first), (also, second)):
        task.cancel()
        member.writer.close()
    return duration_ms


def pairs_ms(
    server: ServerProcess, name: str, count: int, *, later: bool, interval_ms: int | None = None
) -> list[float]:
    """So many groups of two, side by side: they are idle nearly all the time."""
    names = [f"{name}-{number}" for number in range(count)]
    with Wire(f"{server.host}:{server.port}") as wire:
        create_topic(wire, "pairs", 2)
        await_coordinator(wire, *names)
        for group in names if interval_ms is not None else ():
            set_group(wire, group, heartbeat_interval_ms=interval_ms)

    async def all_of_them() -> list[float]:
        return list(await asyncio.gather(*(pair_ms(server, group, later=later) for group in names)))

    return asyncio.run(all_of_them())


# --- heartbeats


def heartbeat_share(server: ServerProcess, seconds: float) -> float:
    names = [f"beating-{number}" for number in range(GROUPS)]
    with Wire(f"{server.host}:{server.port}") as wire:
        create_topic(wire, "beating", MEMBERS)
        await_coordinator(wire, *names)
    return asyncio.run(_heartbeat_share(server, names, seconds))


async def _heartbeat_share(server: ServerProcess, names: list[str], seconds: float) -> float:
    groups = await asyncio.gather(*(_form(server, group) for group in names))
    members = [member for group in groups for member in group]
    before, started = server.processor_seconds(), time.perf_counter()
    ends = started + seconds
    await asyncio.gather(*(member.stay(place / len(members), ends) for place, member in enumerate(members)))
    share = (server.processor_seconds() - before) / (time.perf_counter() - started)
    for member in members:
        member.writer.close()
    return share


class StayingMember(Member):
    """A member that sends the same short heartbeat as long as nothing changes, as clients do."""

    async def step(self, topic: str | None = None) -> None:
        """Send one heartbeat, with all that the member has."""
        wish = [topic] if topic is not None else None
        answer = await self.ask(beat(self.group, self.member_id, self.epoch, wish, self.owned))
        if answer.assignment is not None:
            self.owned = {one.topic_id: list(one.partitions) for one in answer.assignment.topic_partitions}

    async def stay(self, place: float, ends: float) -> None:
        request = frame(beat(self.group, self.member_id, self.epoch))
        await asyncio.sleep(place * HEARTBEAT_S)
        while time.perf_counter() < ends:
            self.writer.write(request)
            answer = await self.receive()
            assert answer[9:11] == b"\0\0", answer  # behind correlation id, tags and throttle time
            await asyncio.sleep(HEARTBEAT_S)


async def _form(server: ServerProcess, group: str) -> list[StayingMember]:
    """A stable group of ten, with a partition each."""
    members = [StayingMember(*await asyncio.open_connection(server.host, server.port), group) for _ in range(MEMBERS)]
    for member in members:
        await member.step("beating")
    while {member.count for member in members} != {1} or len({member.epoch for member in members}) > 1:
        await asyncio.sleep(0.5)
        for member in members:
            await member.step()
    return members


# --- a large group


def large(server: ServerProcess) -> dict[str, float]:
    with Wire(f"{server.host}:{server.port}") as wire:
        topics = [f"large-{number}" for number in range(LARGE_TOPICS)]
        for topic in topics:
            create_topic(wire, topic, LARGE_PARTITIONS)
        await_coordinator(wire, "large")
        set_group(wire, "large", assignment_interval_ms=15_000, session_timeout_ms=60_000)
        for _ in range(LARGE_MEMBERS):
            _join(wire, topics)
        set_group(wire, "large", assignment_interval_ms=0)
        _join(wire, topics)  # those before have their targets now
        durations, waits = [], []
        stops, pinger = _pinging(server, waits)
        for _ in range(LARGE_JOINS):
            started = time.perf_counter()
            _join(wire, topics)
            durations.append((time.perf_counter() - started) * 1000)
            time.sleep(0.05)
        stops.set()
        pinger.join()
    return quantiles("large_join", durations) | quantiles("large_others_wait", waits)


def _join(wire: Wire, topics: list[str]) -> None:
    answer = wire.ask(beat("large", format_uuid(random_uuid()), 0, topics, {}), 1)
    assert not answer.error_code, answer


def _pinging(server: ServerProcess, waits: list[float]) -> tuple[threading.Event, threading.Thread]:
    """Another client, which asks something small again and again, and notes how long it waited."""
    stops = threading.Event()

    def ping() -> None:
        with Wire(f"{server.host}:{server.port}") as wire:
            while not stops.wait(PING_S):
                started = time.perf_counter()
                wire.ask(MetadataRequest(topics=[]), 9)
                waits.append((time.perf_counter() - started) * 1000)

    thread = threading.Thread(target=ping)
    thread.start()
    return stops, thread


PARTS = ("stable", "at_once", "kafkas", "clients", "heartbeat", "large")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", help="kmini, kafka; all by default")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long heartbeats are sent")
    options = parser.parse_args()
    parts = options.part or PARTS
    count = options.repetitions
    with running(available(options.peers)) as servers:
        for name, server in servers.items():
            figures: dict[str, float] = {}
            if "stable" in parts:
                figures |= quantiles("stable", pairs_ms(server, "stable", count, later=True))
            if "at_once" in parts:
                figures |= quantiles("at_once", pairs_ms(server, "at-once", count, later=False))
            if "kafkas" in parts:
                figures |= quantiles("kafkas", pairs_ms(server, "kafkas", count, later=True, interval_ms=5_000))
            if "clients" in parts:
                figures |= quantiles("clients", clients_ms(server, max(count // 10, 3), "consumer"))
            if "heartbeat" in parts:
                figures["heartbeat_share_of_a_core"] = round(heartbeat_share(server, options.seconds), 4)
            if "large" in parts:
                figures |= large(server)
            print(json.dumps({"peer": name, **figures}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()

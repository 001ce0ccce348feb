"""Measure classic consumer groups beside Apache Kafka; prints one line of JSON a peer. `consumer_groups.py` measures
those of the consumer protocol.

stable     a second member joins a group of one: until both have their assignment, the first one hearing of it at once
clients    the same with librdkafka, from subscribe() to the first assignment of a group of two consumers at once
heartbeat  processor time of the broker while 100 groups of 10 members send a heartbeat every 3 s, as a share of a core
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterable
from typing import Any

from peers import ServerProcess, available, running

# isort: split
from support.group_requests import await_coordinator, heartbeat, join, sync, wish
from support.kafka_requests import create_topics
from support.wire import Wire

GROUPS, MEMBERS = 100, 10
HEARTBEAT_S = 3.0


def stable_ms(server: ServerProcess, repetitions: int) -> list[float]:
    durations = []
    with Wire(server.host, server.port) as first, Wire(server.host, server.port) as second:
        for number in range(repetitions):
            group = f"stable-{repetitions}-{number}"
            await_coordinator(first, group)
            a = joined(first, group)
            b = first.ask(join(group), 5).member_id  # the second one knows its id; that round trip is not the group's
            start = time.perf_counter()
            second.send(join(group, b), 5)
            while first.ask(heartbeat(group, a, 1), 3).error_code == 0:
                pass
            generation = first.ask(join(group, a), 5).generation_id
            second.receive()
            second.send(sync(group, b, generation), 3)
            answer = first.ask(sync(group, a, generation, {a: b"a", b: b"b"}), 3)
            second.receive()
            durations.append((time.perf_counter() - start) * 1000)
            assert answer.assignment == b"a", answer
    return durations


def joined(wire: Wire, group: str) -> str:
    """Join an empty group, wait for the assignment, and return the member id."""
    member_id: str = wire.ask(join(group), 5).member_id
    wire.ask(join(group, member_id), 5)
    answer = wire.ask(sync(group, member_id, 1, {member_id: b"all"}), 3)
    assert answer.error_code == 0, answer
    return member_id


def clients_ms(server: ServerProcess, repetitions: int, protocol: str = "classic") -> list[float]:
    from confluent_kafka import Consumer

    durations = []
    with Wire(server.host, server.port) as wire:
        wire.ask(create_topics({"name": "clients", "num_partitions": 2}), 5)
    for number in range(repetitions):
        settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": f"{protocol}-{number}", "log_level": 0}
        of_classic = {"heartbeat.interval.ms": 100} if protocol == "classic" else {}
        consumers = [Consumer({**settings, **of_classic, "group.protocol": protocol}) for _ in range(2)]

        start = time.perf_counter()
        for consumer in consumers:
            consumer.subscribe(["clients"])
        while any(len(consumer.assignment()) != 1 for consumer in consumers):
            for consumer in consumers:
                consumer.poll(0.002)
        durations.append((time.perf_counter() - start) * 1000)
        for consumer in consumers:
            consumer.close()
    return durations


def heartbeat_share(server: ServerProcess, seconds: float) -> float:
    """Processor seconds a second, over what the same connections cost when they are silent."""
    return asyncio.run(_heartbeat_share(server, seconds))


async def _heartbeat_share(server: ServerProcess, seconds: float) -> float:
    with Wire(server.host, server.port) as wire:
        await_coordinator(wire, *(f"beating-{number}" for number in range(GROUPS)))
    members = [
        member
        for group in await asyncio.gather(*(_form(server, f"beating-{number}") for number in range(GROUPS)))
        for member in group
    ]
    before = server.processor_seconds()
    started = time.perf_counter()
    ends = started + seconds
    await asyncio.gather(*(member.beat(place / len(members), ends) for place, member in enumerate(members)))
    share = (server.processor_seconds() - before) / (time.perf_counter() - started)
    for member in members:
        member.writer.close()
    return share


class BeatingMember:
    """A member of a group over a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._beat = b""

    async def ask(self, request: Any, version: int) -> Any:
        import importlib

        request.API_VERSION = version
        request.with_header(correlation_id=1, client_id="bench")
        self.writer.write(request.encode(header=True, framed=True))
        module = importlib.import_module(type(request).__module__)
        response = getattr(module, type(request).__name__.replace("Request", "Response"))
        return response.decode(await self._receive(), version=version, header=True)

    async def _receive(self) -> bytes:
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    def prepare(self, group: str, member_id: str, generation: int) -> None:
        request = heartbeat(group, member_id, generation)
        request.API_VERSION = 3
        request.with_header(correlation_id=1, client_id="bench")
        self._beat = request.encode(header=True, framed=True)

    async def beat(self, place: float, ends: float) -> None:
        """Send a heartbeat every three seconds, at this member's place in them."""
        await asyncio.sleep(place * HEARTBEAT_S)
        while time.perf_counter() < ends:
            self.writer.write(self._beat)
            answer = await self._receive()
            assert answer[-2:] == b"\0\0", answer
            await asyncio.sleep(HEARTBEAT_S)


async def _form(server: ServerProcess, group: str) -> list[BeatingMember]:
    """A stable group of ten."""
    members = [BeatingMember(*await asyncio.open_connection(server.host, server.port)) for _ in range(MEMBERS)]
    first, *others = members
    wishes = {"range": wish("orders")}
    a = (await first.ask(join(group, protocols=wishes), 3)).member_id
    waiting = [asyncio.ensure_future(member.ask(join(group, protocols=wishes), 3)) for member in others]
    while (await first.ask(heartbeat(group, a, 1), 3)).error_code == 0:  # noqa: ASYNC110 (the server's it is to change)
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)  # all of them are waiting by now; one that is late only means another round
    answers = [await first.ask(join(group, a, protocols=wishes), 3), *await asyncio.gather(*waiting)]
    generation = answers[0].generation_id
    assert {answer.generation_id for answer in answers} == {generation}, "a member was late"
    shares = {answer.member_id: b"share" for answer in answers}
    syncing = [
        asyncio.ensure_future(member.ask(sync(group, answer.member_id, generation, shares if not place else {}), 3))
        for place, (member, answer) in enumerate(zip(members, answers, strict=True))
    ]
    assert not any([(await answer).error_code for answer in syncing])
    for member, answer in zip(members, answers, strict=True):
        member.prepare(group, answer.member_id, generation)
    return members


def quantiles(name: str, values: Iterable[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"{name}_p50_ms": round(statistics.median(ordered), 2), f"{name}_max_ms": round(ordered[-1], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", help="kmini, kafka; all by default")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long heartbeats are sent")
    options = parser.parse_args()
    with running(available(options.peers)) as servers:
        for name, server in servers.items():
            stable_ms(server, 10)  # the JVM compiles
            figures = quantiles("stable", stable_ms(server, options.repetitions))
            figures |= quantiles("clients", clients_ms(server, max(options.repetitions // 10, 3)))
            figures["heartbeat_share_of_a_core"] = round(heartbeat_share(server, options.seconds), 4)
            print(json.dumps({"peer": name, **figures}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()

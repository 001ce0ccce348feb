"""What goes wrong in a cluster in trouble: brokers die, stand still, are cut off, lag, and come back."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

from kmini.broker.clock import MovableClock
from kmini.broker.controller.reassignments import reassign
from kmini.protocol.errors import KafkaError
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from support.broker.chaos.world import World

SESSION_MS = 9_000
"""`broker.session.timeout.ms` of the brokers: the clock moves so far until one that is cut off counts as dead."""


class Nemesis:
    """Does harm, and undoes it."""

    def __init__(self, world: World, clock: MovableClock) -> None:
        self.random = random.Random(f"{world.seed} nemesis")
        self._world = world
        self._cluster = world.cluster
        self._clock = clock
        self._lost: set[int] = set()
        """Cut off, or standing still."""
        self._held: set[int] = set()
        self._steps: dict[Callable[[], Awaitable[str]], int] = {
            self._kill: 3,
            self._stop: 1,
            self._restart: 4,
            self._cut_off: 2,
            self._pause: 2,
            self._reconnect: 4,
            self._fence: 2,
            self._hold: 2,
            self._release: 2,
            self._move_leader: 6,
            self._reassign: 3,
            self._usurp: 4,
            self._lag: 2,
        }

    async def step(self) -> None:
        """Do one of these things, if it can be done now."""
        step = self.random.choices([*self._steps], [*self._steps.values()])[0]
        said = await step()
        if said:
            self._world.history.say(f"-- {said}")
            await asyncio.sleep(self.random.choice((0.0, 0.01, 0.05, 0.15)))

    async def heal(self) -> None:
        self._world.history.say("-- everything is repaired")
        while await self._reconnect():
            pass
        while await self._release():
            pass
        while await self._restart():
            pass

    def _one(self, node_ids: set[int]) -> int | None:
        return self.random.choice(sorted(node_ids)) if node_ids else None

    def _sound(self) -> set[int]:
        """Of these one may be harmed: somebody has to be left."""
        sound = {*self._cluster.brokers} - self._lost
        return sound if len(sound) > 1 else set()

    def _gone(self, node_id: int) -> None:
        self._held.discard(node_id)
        self._world.turned(node_id)

    async def _kill(self) -> str:
        node_id = self._one(self._sound())
        if node_id is None:
            return ""
        self._gone(node_id)
        await self._cluster.kill(node_id)
        return f"kill {node_id}"

    async def _stop(self) -> str:
        node_id = self._one(self._sound())
        if node_id is None:
            return ""
        self._gone(node_id)
        await self._cluster.stop_broker(node_id)
        return f"stop {node_id}"

    async def _restart(self) -> str:
        node_id = self._one({*self._world.addresses} - {*self._cluster.brokers})
        if node_id is None:
            return ""
        await self._cluster.restart(node_id)
        self._world.turned(node_id)
        return f"restart {node_id}"

    async def _cut_off(self) -> str:
        node_id = self._one(self._sound())
        if node_id is None:
            return ""
        self._lost.add(node_id)
        await self._cluster.cut_off(node_id)
        return f"cut {node_id} off"

    async def _pause(self) -> str:
        node_id = self._one(self._sound())
        if node_id is None:
            return ""
        self._lost.add(node_id)
        await self._cluster.pause(node_id)
        return f"pause {node_id}"

    async def _fence(self) -> str:
        """So much time passes that whoever is lost counts as dead."""
        if not self._lost - self._world.fenced:
            return ""
        for node_id in self._lost:
            self._world.turned(node_id)
        self._world.fenced |= self._lost
        await self._clock.advance(SESSION_MS, liveness=True)
        return f"fence {sorted(self._world.fenced)}"

    async def _reconnect(self) -> str:
        node_id = self._one(self._lost)
        if node_id is None:
            return ""
        self._lost.discard(node_id)
        self._cluster.reconnect(node_id)
        self._world.fenced.discard(node_id)
        self._world.turned(node_id)
        return f"reconnect {node_id}"

    async def _hold(self) -> str:
        node_id = self._one(self._sound() - self._held)
        if node_id is None:
            return ""
        self._held.add(node_id)
        await self._cluster.brokers[node_id].replica_manager.fetcher_manager.hold()
        return f"hold the fetches of {node_id}"

    async def _release(self) -> str:
        node_id = self._one(self._held & {*self._cluster.brokers})
        if node_id is None:
            return ""
        self._held.discard(node_id)
        self._cluster.brokers[node_id].replica_manager.fetcher_manager.release()
        return f"release {node_id}"

    def _partition(self) -> TopicPartition:
        led = [*self._world.promises.partitions] * 2
        led += [TopicPartition(name, number) for name in (CONSUMER_OFFSETS, TRANSACTION_STATE) for number in range(2)]
        return self.random.choice(led)

    async def _move_leader(self) -> str:
        partition = self._partition()
        to = self.random.choice(self._cluster.state(partition).isr)
        try:
            self._cluster.move_leader(partition, to)
        except KafkaError:
            return ""
        return f"{partition} is led by {to}"

    async def _reassign(self) -> str:
        partition = self._partition()
        target = self.random.sample(sorted(self._world.addresses), 3)
        try:
            reassign(self._cluster.controller, partition, target)
        except KafkaError:
            return ""
        self._world.reassignments += 1
        return f"{partition} is for {target}"

    async def _usurp(self) -> str:
        """A follower that stands still, and is in sync, leads all of a sudden; sometimes because the leader dies."""
        partition = self._partition()
        state = self._cluster.state(partition)
        heirs = {*state.isr} & self._sound() - {state.leader}
        heir = self._one(heirs)
        if heir is None or state.leader not in self._sound() or len(self._sound()) < 3:
            return ""
        replication = self._cluster.brokers[heir].replica_manager.fetcher_manager
        await replication.hold()
        await asyncio.sleep(0.03)
        is_killed = self.random.random() < 0.5
        if is_killed:
            for other in heirs - {heir}:  # nobody else can lead
                await self._cluster.brokers[other].replica_manager.fetcher_manager.hold()
            await asyncio.sleep(0.03)
            self._gone(state.leader)
            await self._cluster.kill(state.leader)
        else:
            with contextlib.suppress(KafkaError):
                self._cluster.move_leader(partition, heir)
        await asyncio.sleep(0.01)
        for node_id in heirs - self._held:
            self._cluster.brokers[node_id].replica_manager.fetcher_manager.release()
        return f"{heir} stands still and leads {partition}{', for the leader dies' if is_killed else ''}"

    async def _lag(self) -> str:
        """So much time passes that followers which stand still have lagged for too long."""
        if self._lost or not (self._held or await self._hold()):
            return ""
        for _ in range(4):
            await self._clock.advance(4_000, liveness=True)
            await asyncio.sleep(0.01)
        return "time passes"

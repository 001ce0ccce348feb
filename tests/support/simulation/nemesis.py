"""What goes wrong in a cluster in trouble: brokers die, stand still, are cut off, lag, lose power, run out of disk."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
from collections.abc import Awaitable, Callable, Iterator

from kmini.broker.controller.reassignments import reassign
from kmini.broker.local_cluster import CONTROLLER, LocalCluster
from kmini.protocol.errors import KafkaError
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from kmini.storage.filesystem.faults import Faults
from support.simulation.administrator import MADE
from support.simulation.invariants import check_whole
from support.simulation.loop import SimulatedNetwork, simulated_loop
from support.simulation.world import KEYED, World, has_campaigns, has_restarts

SESSION_MS = 9_000
"""`broker.session.timeout.ms` of the brokers."""
LONGEST_LULL_S = 40
CAMPAIGN = 4
"""How many kinds of trouble a history has in which they come again and again."""
LONGEST_MOVE_ON_SLOW_DISKS_MS = 1_800_000
"""At a delay of 1 s. A longer move would take minutes: it waits for a slow disk each time that something falls due."""
GROWS = frozenset({"append", "create", "make_directory", "write_at"})
"""Operations that a full disk refuses."""


class Disk(Faults):
    """The disk of a broker, which may be full for a time, or refuse some writes."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self.is_full = False
        self.failures = 0.0
        """The share of writes that fail."""

    @property
    def is_sound(self) -> bool:
        return not self.is_full and not self.failures

    def repair(self) -> None:
        self.is_full, self.failures = False, 0.0

    def before(self, operation: str, path: str) -> bool:
        if operation in GROWS and not self.is_sound:
            if self.is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            if self._chance.random() < self.failures:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return super().before(operation, path)


RELEASES = ("4.0", "4.3", None)
"""Values of `kmini.as.version`, the oldest first; None is the newest."""


class Nemesis:
    """Does harm, and undoes it. Each step draws from random numbers of its own, so that the others stay what they are
    where one is left out."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lost: set[int] = set()
        """Cut off, or standing still."""
        self._held: set[int] = set()
        self._failed: set[int] = set()
        """Brokers whose disk has failed since they were started."""
        self._number = 0
        self.random = random.Random(f"{world.seed} nemesis")
        undoing = (self._restart, self._reconnect, self._release, self._repair_disk)
        self._steps: dict[Callable[[], Awaitable[str]], int] = {
            self._kill: 3,
            self._lose_power: 3,
            self._stop: 1,
            self._restart: 5,
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
            self._hold_up: 4,
            self._break_connections: 2,
            self._fill_disk: 2,
            self._fail_writes: 2,
            self._repair_disk: 4,
            self._move_log_time: 2,
            self._slow_down: 1,
        }
        if has_campaigns(world.seed):
            self._steps |= {self._slow_disks: 2, self._lose_two_leaders: 4}
        harmful = [step for step in self._steps if step not in undoing]
        if has_campaigns(world.seed):
            for step in {*harmful} - {*self.random.sample(harmful, CAMPAIGN)}:
                del self._steps[step]
        else:
            for step in harmful:
                self._steps[step] *= self.random.choice((0, 1, 1, 3))  # a swarm: no history has every trouble
        if has_restarts(world.seed):
            self._steps[self._restart_process] = self.random.choice((1, 2, 4)) * (2 if has_campaigns(world.seed) else 1)
        self._steps = {step: weight for step, weight in self._steps.items() if weight}

    @property
    def _cluster(self) -> LocalCluster:
        return self._world.cluster

    @property
    def _network(self) -> SimulatedNetwork:
        return simulated_loop().network

    async def step(self, *, is_left_out: bool = False) -> None:
        """Do one of these things, if it can be done now; then the clients go on for a while, or all rest."""
        self._number += 1
        self._world.acts = 0
        self.random = random.Random(f"{self._world.seed} step {self._number}")
        step = self.random.choices([*self._steps], [*self._steps.values()])[0]
        pause_s = self.random.choice((0.0, 0.01, 0.05, 0.15))
        lull_s = self.random.choice((0.0, 0.0, 0.0, self.random.random() * LONGEST_LULL_S))
        if is_left_out:
            return
        state, name, lines = self._state(), step.__name__.strip("_").replace("_", " "), self._world.history.lines
        self._world.history.say(f"-- step {self._number} begins: {name}")
        begins = lines[-1]
        said = await step()
        if lines[-1] is begins or not said:
            lines.remove(begins)
        if said:
            self._world.met[name, state] += 1
            self._world.history.say(f"-- step {self._number}: {said}")
            await asyncio.sleep(pause_s)
        if lull_s:
            await self._rest(lull_s)

    async def _rest(self, duration_s: float) -> None:
        self._world.lull_until_s = self._world.now_s() + duration_s
        await asyncio.sleep(duration_s)

    def _state(self) -> str:
        """The state of the cluster that a fault meets."""
        if any(not disk.is_sound for disk in self._disks().values()):
            return "a disk fails"
        if self._lost:
            return "a broker is lost"
        if len(self._cluster.brokers) < len(self._world.addresses):
            return "a broker is down"
        if self._held:
            return "a follower lags"
        if any(
            state.is_reassigned or len(state.isr) < len(state.replicas)
            for topic in self._cluster.controller.topics.values()
            for state in topic.partitions
        ):
            return "replicas catch up"
        return "all is well"

    async def heal(self) -> None:
        self._world.history.say("-- everything is repaired")
        while await self._repair_disk():
            pass
        while await self._reconnect():
            pass
        while await self._release():
            pass
        for node_id in sorted(self._failed & {*self._cluster.brokers}):
            # As in Apache Kafka, a log that could not be cleaned is not cleaned again until its broker is restarted.
            await self._cluster.stop_broker(node_id)
        while await self._restart():
            pass
        self._network.slowest_s = self._network.usual_slowest_s
        simulated_loop().slowest_thread_s = 0.0
        self._world.lull_until_s = 0
        self._world.calm_since_s = self._world.now_s()

    def _any(self, node_ids: set[int]) -> int | None:
        return self.random.choice(sorted(node_ids)) if node_ids else None

    def _sound(self) -> set[int]:
        """Of these one may be harmed: somebody has to be left."""
        sound = {*self._cluster.brokers} - self._lost
        return sound if len(sound) > 1 else set()

    def _partitions(self) -> Iterator[TopicPartition]:
        for topic in self._cluster.controller.topics.values():
            for number in range(len(topic.partitions)):
                yield TopicPartition(topic.name, number)

    # --- brokers

    async def _end(self, node_id: int) -> None:
        self._held.discard(node_id)
        self._world.turned(node_id)
        await self._cluster.kill(node_id)

    async def _end_by_kill(self, node_id: int) -> None:
        await self._end(node_id)
        self._world.filesystems[node_id] = self._world.filesystems[node_id].kill(Disk(self.random))

    async def _kill(self) -> str:
        node_id = self._any(self._sound())
        if node_id is None:
            return ""
        await self._end_by_kill(node_id)
        return f"kill {node_id}"

    async def _lose_power(self) -> str:
        """Power is lost where other replicas have what is not on the disk yet."""
        alone = {state.isr[0] for state in map(self._cluster.state, self._partitions()) if len(state.isr) == 1}
        node_id = self._any(self._sound() - alone)
        if node_id is None:
            return ""
        seed = self.random.randrange(1 << 30)
        self._is_unsure_of_tombstones()
        await self._end(node_id)
        self._world.filesystems[node_id] = self._world.filesystems[node_id].crash(seed, Disk(self.random))
        return f"{node_id} loses power"

    async def _stop(self) -> str:
        node_id = self._any(self._sound())
        if node_id is None or not self._disks()[node_id].is_sound:
            return ""
        self._held.discard(node_id)
        self._world.turned(node_id)
        await self._cluster.stop_broker(node_id)
        return f"stop {node_id}"

    async def _restart(self) -> str:
        node_id = self._any({*self._world.addresses} - {*self._cluster.brokers})
        if node_id is None:
            return ""
        await self._cluster.restart(node_id)
        self._failed.discard(node_id)
        self._world.turned(node_id)
        check_whole(self._world, node_id)
        return f"restart {node_id}"

    async def _restart_process(self) -> str:
        """The process of all brokers is killed, or stops, and starts again, sometimes as a newer release."""
        world, cluster, filesystems = self._world, self._cluster, self._world.filesystems
        is_killed = self.random.random() < 0.6
        if not is_killed and any(not disk.is_sound for disk in self._disks().values()):
            return ""
        brokers = [*cluster.brokers.values()]
        for broker in brokers:
            world.turned(broker.node_id)
            if is_killed:
                broker.server.break_off()
                filesystems[broker.node_id] = filesystems[broker.node_id].kill(Disk(self.random))
        if is_killed:  # all die at one moment: what the old brokers still write, no restart reads
            filesystems[CONTROLLER] = filesystems[CONTROLLER].kill()
            for timer in cluster._fences.values():
                timer.cancel()
            cluster.brokers.clear()
            for broker in brokers:
                await broker.kill()
        await cluster.stop(keeps_data=not is_killed)
        await asyncio.sleep(self.random.choice((0.0, 1.0, 20.0)))
        before = cluster.configs[0].kmini_as_version
        release = self.random.choice(RELEASES[RELEASES.index(before) :])
        configs = [config.replace(kmini_as_version=release) for config in cluster.configs]
        world.cluster = LocalCluster(configs, cluster.data_dir, clock=world.clock, filesystems=filesystems)
        await world.cluster.start()
        for held in (self._lost, self._held, self._failed, world.fenced):
            held.clear()
        for node_id in world.cluster.brokers:
            world.turned(node_id)
            check_whole(world, node_id)
        as_newer = f" as {release or 'the newest release'}" if release != before else ""
        return f"the process {'is killed' if is_killed else 'stops'}, and starts again{as_newer}"

    async def _cut_off(self) -> str:
        node_id = self._any(self._sound())
        if node_id is None:
            return ""
        self._lost.add(node_id)
        self._world.lost(node_id)
        await self._cluster.cut_off(node_id)
        return f"cut {node_id} off"

    async def _pause(self) -> str:
        node_id = self._any(self._sound())
        if node_id is None:
            return ""
        self._lost.add(node_id)
        self._world.lost(node_id)
        await self._cluster.pause(node_id)
        return f"pause {node_id}"

    async def _fence(self) -> str:
        """So much time passes that whoever is lost counts as dead."""
        if not self._lost - self._world.fenced:
            return ""
        await self._world.clock.advance(SESSION_MS, liveness=True)
        return f"time passes: {sorted(self._lost)} count as dead"

    async def _reconnect(self) -> str:
        node_id = self._any(self._lost)
        if node_id is None:
            return ""
        self._lost.discard(node_id)
        self._cluster.reconnect(node_id)
        self._world.found(node_id)
        return f"reconnect {node_id}"

    # --- replicas

    async def _hold(self) -> str:
        node_id = self._any(self._sound() - self._held)
        if node_id is None:
            return ""
        self._held.add(node_id)
        await self._cluster.brokers[node_id].replica_manager.fetcher_manager.hold()
        return f"hold the fetches of {node_id}"

    async def _release(self) -> str:
        node_id = self._any(self._held & {*self._cluster.brokers})
        if node_id is None:
            return ""
        self._held.discard(node_id)
        self._cluster.brokers[node_id].replica_manager.fetcher_manager.release()
        return f"release {node_id}"

    def _partition(self) -> TopicPartition:
        led = [*self._world.promises.partitions] * 2
        led += [each for each in self._partitions() if each.topic in (CONSUMER_OFFSETS, TRANSACTION_STATE, MADE)]
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
        target = self.random.sample(sorted(self._world.addresses), min(3, len(self._world.addresses)))
        try:
            reassign(self._cluster.controller, partition, target)
        except KafkaError:
            return ""
        self._world.reassignments += 1
        return f"{partition} is reassigned to {target}"

    async def _usurp(self) -> str:
        """A follower that stands still, and is in sync, leads all of a sudden; sometimes because the leader dies."""
        partition = self._partition()
        state = self._cluster.state(partition)
        heirs = {*state.isr} & self._sound() - {state.leader}
        heir = self._any(heirs)
        if heir is None or state.leader not in self._sound() or len(self._sound()) < 3:
            return ""
        await self._cluster.brokers[heir].replica_manager.fetcher_manager.hold()
        await asyncio.sleep(0.03)
        is_killed = self.random.random() < 0.5
        if is_killed:
            for other in heirs - {heir}:  # nobody else can lead
                await self._cluster.brokers[other].replica_manager.fetcher_manager.hold()
            await asyncio.sleep(0.03)
            await self._end_by_kill(state.leader)
        else:
            with contextlib.suppress(KafkaError):
                self._cluster.move_leader(partition, heir)
        await asyncio.sleep(0.01)
        for node_id in heirs - self._held:
            self._cluster.brokers[node_id].replica_manager.fetcher_manager.release()
        return f"{heir} stands still and leads {partition}{', for the leader dies' if is_killed else ''}"

    async def _lose_two_leaders(self) -> str:
        """The leader dies, and soon the one after it, which has what the third in sync has not, and more since."""
        partition = self._partition()
        state = self._cluster.state(partition)
        heirs = [node_id for node_id in state.replicas if node_id in state.isr and node_id != state.leader]
        if len(heirs) < 2 or not {*state.isr} <= self._sound():
            return ""
        second, *others = heirs
        for node_id in others:
            await self._cluster.brokers[node_id].replica_manager.fetcher_manager.hold()
        for leader in (state.leader, second):
            await asyncio.sleep(self.random.choice((0.03, 0.3, 2.0)))
            if leader not in self._cluster.brokers:
                break
            await self._end_by_kill(leader)
        for node_id in {*others} - self._held & {*self._cluster.brokers}:
            self._cluster.brokers[node_id].replica_manager.fetcher_manager.release()
        return f"{state.leader}, which leads {partition}, and {second} die, and {others} stand still meanwhile"

    async def _lag(self) -> str:
        """So much time passes that followers which stand still have lagged for too long."""
        if self._lost or not (self._held or await self._hold()):
            return ""
        await self._rest(16)
        return "followers lag"

    # --- network

    async def _hold_up(self) -> str:
        """For some connections nothing arrives at one end, while what that end sends does arrive."""
        ends = self._network.open_ends()
        if not ends:
            return ""
        held = self.random.sample(ends, self.random.randint(1, max(1, len(ends) // 3)))
        duration_s = self.random.choice((0.1, 1.0, 4.0, 15.0))
        for end in held:
            self._network.hold_up(end, duration_s)
        return f"nothing arrives at {len(held)} of {len(ends)} ends for {duration_s} s"

    async def _break_connections(self) -> str:
        ends = self._network.open_ends()
        if not ends:
            return ""
        broken = self.random.sample(ends, self.random.randint(1, max(1, len(ends) // 3)))
        for end in broken:
            end.abort()
        return f"{len(broken)} of {len(ends)} ends of connections are reset"

    async def _slow_down(self) -> str:
        network = self._network
        network.slowest_s = self.random.choice((network.usual_slowest_s, 0.05, 0.5))
        return f"the network is slow: bytes need up to {network.slowest_s} s"

    # --- disks

    def _disks(self) -> dict[int, Disk]:
        return {
            node_id: filesystem.faults
            for node_id, filesystem in self._world.filesystems.items()
            if isinstance(filesystem.faults, Disk)
        }

    async def _fill_disk(self) -> str:
        node_id = self._any(self._sound())
        if node_id is None:
            return ""
        self._disks()[node_id].is_full = True
        self._failed.add(node_id)
        return f"the disk of {node_id} is full"

    async def _fail_writes(self) -> str:
        node_id = self._any(self._sound())
        if node_id is None:
            return ""
        self._failed.add(node_id)
        self._disks()[node_id].failures = self.random.choice((0.02, 0.2))
        return f"some writes of {node_id} fail"

    async def _repair_disk(self) -> str:
        node_id = self._any({node_id for node_id, disk in self._disks().items() if not disk.is_sound})
        if node_id is None:
            return ""
        self._disks()[node_id].repair()
        return f"the disk of {node_id} is sound again"

    async def _slow_disks(self) -> str:
        loop = simulated_loop()
        loop.slowest_thread_s = self.random.choice((0.0, 0.1, 1.0, 5.0))
        return f"disks are slow: threads wait up to {loop.slowest_thread_s} s"

    # --- time

    def _is_unsure_of_tombstones(self) -> None:
        """Some replica may come to a tombstone of the compacted topic when that has gone."""
        ends = [offsets.log_end_offset for offsets in self._cluster.replica_offsets(KEYED).values()]
        self._world.unsure_below = max([self._world.unsure_below, *ends])

    async def _move_log_time(self) -> str:
        ends = {offsets.log_end_offset for offsets in self._cluster.replica_offsets(KEYED).values()}
        is_unsure = len(ends) > 1 or len(self._cluster.brokers) < len(self._world.addresses)
        if is_unsure:
            self._is_unsure_of_tombstones()
        duration_ms = self.random.choice((60_000, 1_800_000, 7_200_000))
        if duration_ms * simulated_loop().slowest_thread_s > LONGEST_MOVE_ON_SLOW_DISKS_MS:
            simulated_loop().slowest_thread_s = 0.0
        await self._world.clock.advance(duration_ms)
        if is_unsure:  # of those, too, that came while the clock was moved
            self._is_unsure_of_tombstones()
        return f"log time moves by {duration_ms // 60_000} min"

"""One history of a cluster in trouble, from its seed: brokers, clients, trouble, and what has to hold in the end.

`play(seed)` returns what happened, or raises Violation with the history. The same seed is the same history, to the byte
on disk. A shorter one leaves out steps of the nemesis (`steps`) and clients (`actors`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.local_cluster import CONTROLLER, LocalCluster
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.broker.transactions.producer_epochs import EPOCH_PER_TRANSACTION
from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.records.batch import iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, TopicPartition
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from support.simulation import group_actors, keyed_actors, share_actors
from support.simulation.actor import Actor
from support.simulation.administrator import MADE, Administrator
from support.simulation.group_actors import Claims, ClassicMember, Member, StreamsMember
from support.simulation.invariants import check_homes, check_last_sequences, log_bytes
from support.simulation.keyed_actors import (
    KeyedReader,
    KeyedWriter,
    TransactionalKeyedWriter,
    check_compacted,
    check_horizons,
)
from support.simulation.loop import simulate, simulated_loop
from support.simulation.nemesis import RELEASES, SESSION_MS, Disk, Nemesis
from support.simulation.offset_actors import Committer, OffsetReader, RivalCommitter, TransactionalCommitter
from support.simulation.record_actors import (
    Deleter,
    Producer,
    Reader,
    SessionReader,
    SlowTransactionalProducer,
    TransactionalProducer,
)
from support.simulation.share_actors import Shared, ShareMember, is_at_the_end, not_delivered
from support.simulation.world import (
    KEYED,
    TOPIC,
    Violation,
    World,
    has_campaigns,
    has_newcomers,
    has_rarities,
    has_restarts,
    has_transaction_epochs,
)

MOST_PROCESSOR_S = 120
"""Seconds of processor time that a history may take: a hundred times the usual."""
STEPS = 40
"""Steps of the nemesis in a history."""
CALM_S = 60
"""So long the cluster may take to be whole again once nothing harms it."""
FOLLOWED_S = 15
"""So long a follower may take to learn the high watermark of its leader."""
SETTLES_S = 90
"""So long a group may take until each partition has one owner, once nothing harms the cluster."""

STUCK_MS = 20_000
"""The rebalance time-out of a member that gives nothing up."""

ACTORS = (
    "p1",
    "p2",
    "x1",
    "x2",
    "r1",
    "r2",
    "d1",
    "c1",
    "c2",
    "o1",
    "k1",
    "k2",
    "k3",
    "m1",
    "m2",
    "m3",
    "a1",
    "g1",
    "g2",
    "g3",
    "s1",
    "s2",
    "s3",
    "t1",
    "t2",
    "t3",
    "z1",
    "y1",
    "y2",
    "f1",
    "c3",
)
RARE = frozenset({"z1", "y1", "y2", "f1", "c3"})
"""Those that take part in some histories only."""
KINDS = {
    "p": "producers",
    "x": "transactional producers",
    "z": "transactional producer that is too slow",
    "r": "readers",
    "d": "deletes records",
    "c": "commit offsets",
    "o": "reads committed offsets",
    "f": "reads in fetch sessions",
    "k": "write and read a compacted topic",
    "y": "write and read it in transactions",
    "m": "members of a consumer group (KIP-848)",
    "a": "creates, grows and deletes a topic",
    "g": "members of a classic group",
    "s": "members of a share group",
    "t": "members of a streams group",
}
"""What the clients are, by the first letter of their names."""

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "replica.fetch.backoff.ms": "30",
    "broker.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": "10000",
    "auto.leader.rebalance.enable": "false",
    "log.segment.bytes": "16384",
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "1000000",
    "transactional.id.expiration.ms": "2000000000",
    "producer.id.expiration.ms": "2000000000",
    **group_actors.SETTINGS,
    **share_actors.SETTINGS,
}


class Outcome(NamedTuple):
    """What came of a history."""

    seed: int
    lines: list[str]
    """What happened, in order."""
    simulated_s: float
    acknowledged: int
    met: Counter[tuple[str, str]]
    """How often each fault met each state of the cluster."""
    digest: str
    """Of the history, and of all that is on the disks."""


def play(seed: int, *, steps: Collection[int] | None = None, actors: Collection[str] | None = None) -> Outcome:
    """One history, of the steps and clients of these numbers and names, or all. Raises Violation."""
    world: World | None = None

    def meet(made: World) -> None:
        nonlocal world
        world = made

    try:
        with _unexpected() as unexpected, _within_processor_time():
            outcome = simulate(seed, lambda: _play(seed, steps, actors, meet))
        if unexpected:
            raise Violation("a broker has logged an exception:\n" + "\n".join(unexpected))
        return outcome
    except (Exception, TakesTooLong) as error:
        history = "" if world is None else str(world.history)
        raise Violation(f"{error!r}\nin the history of seed {seed}:\n{history}") from error


class TakesTooLong(KeyboardInterrupt):
    """A history takes more processor time than `MOST_PROCESSOR_S`. (A loop of asyncio ends by no other exception.)"""


@contextlib.contextmanager
def _within_processor_time() -> Iterator[None]:
    """Raise TakesTooLong in what goes round while simulated time stands still."""

    def end(*_: object) -> None:
        raise TakesTooLong(f"more than {MOST_PROCESSOR_S} s of processor time")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_PROCESSOR_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def _unexpected() -> Iterator[list[str]]:
    """The exceptions that are logged meanwhile, with their tracebacks, but for those of a disk that fails: what no part
    of the broker has expected."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and not isinstance(record.exc_info[1], (OSError, KafkaStorageError)):
                found.append(self.format(record))

    handler = Handler(logging.ERROR)
    loggers = [logging.getLogger(name) for name in ("kmini", "asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield found
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


async def _play(
    seed: int, steps: Collection[int] | None, names: Collection[str] | None, meet: Callable[[World], None]
) -> Outcome:
    chance = random.Random(f"{seed} world")
    brokers = chance.choice((1, 2, 3, 3, 4, 5))
    replicas = min(3, brokers)
    settings = {
        **SETTINGS,
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min(replicas, chance.choice((1, 2)))),
        "replica.fetch.wait.max.ms": str(chance.choice((100, 500, 5_000))),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(min(replicas, 2)),
    }
    if has_restarts(seed) and not has_newcomers(seed):  # those need the newest release
        settings |= chance.choice([{"kmini.as.version": release} if release else {} for release in RELEASES])
    if has_campaigns(seed):
        settings["log.segment.bytes"] = chance.choice(("1024", "16384"))
    clock = MovableClock()
    filesystems = {CONTROLLER: MemoryFileSystem()}
    for node_id in range(1, brokers + 1):
        filesystems[node_id] = MemoryFileSystem(Disk(random.Random(f"{seed} disk {node_id}")))
    configs = [BrokerConfig.parse({**settings, "node.id": str(node_id)}) for node_id in range(1, brokers + 1)]
    cluster = LocalCluster(configs, "data", clock=clock, filesystems=filesystems)
    await cluster.start()
    world: World | None = None
    try:
        partitions = chance.choice((1, 2, 2, 3))
        first = cluster.brokers[1]
        topics.create(first, TOPIC, partitions=partitions, replication_factor=replicas)
        topics.create(first, KEYED.topic, partitions=1, replication_factor=replicas, configs=keyed_actors.SETTINGS)
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            topics.create_missing(first, name)
        if not has_transaction_epochs(seed):
            first.controller.set_feature_levels({"transaction.version": EPOCH_PER_TRANSACTION - 1})
        if has_newcomers(seed):
            topics.create_missing(first, SHARE_GROUP_STATE)
            first.controller.set_group_configs(share_actors.GROUP, share_actors.GROUP_SETTINGS)
        world = World(seed, cluster, clock, filesystems, partitions)
        meet(world)
        await _live(world, steps, names)
    finally:
        for filesystem in filesystems.values():
            if isinstance(filesystem.faults, Disk):
                filesystem.faults.repair()  # a broken promise is not to be hidden by a disk that is full
        await (cluster if world is None else world.cluster).stop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        raise Violation(f"tasks are left behind: {left}")
    for node_id, filesystem in filesystems.items():
        opened = [
            path
            for path in filesystem._files
            if ".deleted" not in path and "-delete/" not in path  # those go with their last reader
        ]
        if opened:
            raise Violation(f"{node_id} leaves files open: {opened}")
    if simulated_loop().network.listening:
        raise Violation("ports are left open")
    digest = hashlib.sha256("\n".join(world.history.lines).encode())
    for node_id, filesystem in sorted(filesystems.items()):
        digest.update(f"{node_id} {_contents(filesystem)}".encode())
    acknowledged = sum(map(len, world.promises.acknowledged.values()))
    return Outcome(seed, world.history.lines, world.now_s(), acknowledged, world.met, digest.hexdigest())


def _contents(filesystem: MemoryFileSystem) -> list[tuple[str, str]]:
    """Path and hash of every file."""
    found, paths = [], ["data"]
    while paths:
        path = paths.pop()
        if filesystem.is_directory(path):
            paths += [f"{path}/{name}" for name in filesystem.list(path)]
        elif filesystem.exists(path):
            found.append((path, hashlib.sha256(filesystem.read(path)).hexdigest()))
    return sorted(found)


async def _live(world: World, steps: Collection[int] | None, names: Collection[str] | None) -> None:
    """All that happens while the cluster runs. Raises Violation."""
    claims = Claims()
    writers = [KeyedWriter("k1", world), KeyedWriter("k2", world)]
    newcomers = has_newcomers(world.seed)
    members = [Member(name, world, claims, is_static=newcomers and name == "m1") for name in ("m1", "m2", "m3")]
    administrator = Administrator("a1", world)
    classic_claims = Claims()
    classic_members = [
        ClassicMember(name, world, classic_claims, is_static=newcomers and name == "g1") for name in ("g1", "g2", "g3")
    ]
    streams_claims = Claims()
    streamers = [StreamsMember(name, world, streams_claims) for name in ("t1", "t2", "t3")]
    shared = Shared(world.promises.partitions)
    sharers = [ShareMember(name, world, shared) for name in ("s1", "s2", "s3")]
    raises_epoch = has_transaction_epochs(world.seed)
    slow, keyed = SlowTransactionalProducer("z1", world), TransactionalKeyedWriter("y1", world)
    actors: list[Actor] = [
        Producer("p1", world),
        Producer("p2", world),
        TransactionalProducer("x1", world),
        TransactionalProducer("x2", world, raises_epoch=raises_epoch),
        Reader("r1", world, is_read_committed=False),
        Reader("r2", world, is_read_committed=True),
        Deleter("d1", world),
        Committer("c1", world),
        TransactionalCommitter("c2", world, raises_epoch=raises_epoch and world.seed % 2 == 1),
        OffsetReader("o1", world),
        *writers,
        KeyedReader("k3", world, writers),
        *members,
        administrator,
        *classic_members,
        *sharers,
        *streamers,
        slow,
        keyed,
        KeyedReader("y2", world, [keyed], is_read_committed=True),
        SessionReader("f1", world),
        RivalCommitter("c3", world),
    ]
    assert [actor.name for actor in actors] == [*ACTORS]
    left_out = set() if names is None else {*ACTORS} - {*names}
    if len(world.promises.partitions) == 1:
        left_out.add("c2")  # which commits for the second partition
    if not newcomers:
        left_out.update(actor.name for actor in (*sharers, *streamers))
    if not has_rarities(world.seed):
        left_out.update(RARE)
    actors = [actor for actor in actors if actor.name not in left_out]
    nemesis = Nemesis(world)
    acting = [asyncio.ensure_future(actor.run()) for actor in actors]
    try:
        for number in range(1, STEPS + 1):
            await nemesis.step(is_left_out=steps is not None and number not in steps)
            for task in acting:
                if task.done():
                    task.result()
        await nemesis.heal()
        world.is_over = True
        await asyncio.gather(*acting)
        await _until(lambda: _are_whole(world.cluster), CALM_S, lambda: _where_all_are(world.cluster))
        if has_rarities(world.seed):
            if "z1" not in left_out:
                await slow.overstay()
            await _check_stuck_member([member for member in members if member.name not in left_out], world)
            await _check_isr_stays(world)
        groups = ((members, claims), (classic_members, classic_claims), (streamers, streams_claims))
        for group, claimed in groups:
            await _settle([each for each in group if each.name not in left_out and not each.is_gone], claimed, world)
        if has_campaigns(world.seed):
            await _check_static_member(
                [each for each in classic_members if each.name not in left_out], classic_claims, world
            )
        await _share_the_rest([sharer for sharer in sharers if sharer.name not in left_out], shared, world)
        await _begin_alike(world)
        await _until(lambda: _are_whole(world.cluster), CALM_S, lambda: _where_all_are(world.cluster))
        _check_replicas(world.cluster)
        check_homes(world.cluster)
        _check_promises(world)
        administrator.check()
        await _check_isolation(world)
        await _check_compaction(world, [writer for writer in (*writers, keyed) if writer.name not in left_out])
    finally:
        for task in acting:
            task.cancel()
        if acting:
            await asyncio.wait(acting)
        for actor in actors:
            await actor.hang_up()


async def _until(holds: Callable[[], bool], within_s: float, shown: Callable[[], str]) -> None:
    ends_s = simulated_loop().time() + within_s
    while not holds():
        if simulated_loop().time() > ends_s:
            raise Violation(f"not within {within_s} s:\n{shown()}")
        await asyncio.sleep(0.02)


def _are_whole(cluster: LocalCluster) -> bool:
    """Whether every replica is in sync, and has and knows what the others do."""
    for topic in cluster.controller.topics.values():
        for number, state in enumerate(topic.partitions):
            offsets = cluster.replica_offsets(TopicPartition(topic.name, number))
            if state.is_reassigned or {*state.isr} != {*state.replicas} or len(offsets) != len(state.replicas):
                return False
            ends = {end for each in offsets.values() for end in (each.high_watermark, each.log_end_offset)}
            if len(ends) != 1:
                return False
    return True


def _where_all_are(cluster: LocalCluster) -> str:
    return "\n".join(
        f"{topic.name}-{number} {state} {cluster.replica_offsets(TopicPartition(topic.name, number))}"
        for topic in cluster.controller.topics.values()
        for number, state in enumerate(topic.partitions)
    )


async def _settle(members: Sequence[Member | ClassicMember], claims: Claims, world: World) -> None:
    """Each partition gets one owner. Raises Violation."""

    def is_settled() -> bool:
        owners = claims.owners(world.now_s())
        return sorted(owners) == [number for _, number in world.promises.partitions] and all(
            len(names) == 1 for names in owners.values()
        )

    await _act_until(
        is_settled, [(member, member.beat) for member in members], lambda: str(claims.owners(world.now_s())), world
    )


async def _check_stuck_member(members: Sequence[Member], world: World) -> None:
    """A member that heartbeats and gives up nothing leaves the group when its rebalance time-out has passed, also if
    another broker coordinates the group meanwhile (KIP-848). Then the second member has its partitions. Raises
    Violation."""
    if len(members) < 2 or len(world.promises.partitions) < 2:
        return
    stuck, other = members[0], members[1]
    for member in members[1:]:
        await member.leave()
    wanted = {number for _, number in world.promises.partitions}
    await _act_until(
        lambda: stuck.owned == wanted,
        [(stuck, stuck.beat)],
        lambda: f"{stuck.name} is alone, and owns {stuck.owned}",
        world,
    )
    stuck.rebalance_ms = STUCK_MS
    await stuck.beat()
    stuck.get_stuck()
    acts = [(stuck, stuck.beat), (other, other.beat)]
    await _act_until(lambda: other.epoch > 0, acts, lambda: f"{other.name} cannot join", world)
    coordinator = other.coordinator(CONSUMER_OFFSETS, other.group)
    await world.cluster.stop_broker(coordinator)
    world.turned(coordinator)
    await world.cluster.restart(coordinator)
    world.turned(coordinator)
    await _act_until(lambda: other.owned == wanted, acts, lambda: f"{stuck.name} keeps {stuck.owned}", world)


async def _check_static_member(members: Sequence[ClassicMember], claims: Claims, world: World) -> None:
    """A static member that comes back to a stable group, and dies, leaves it when its session has ended. Raises
    Violation."""
    if len(members) < 2 or not members[0].is_static or any(member.is_gone for member in members):
        return
    back, *others = members
    back.forget()
    acts = [(member, member.beat) for member in members]
    await _act_until(lambda: back.is_gone or back.is_member, acts, lambda: f"{back.name} cannot join", world)
    back.is_gone = True
    world.history.say(f"{back.name} came back, and dies")
    await _settle(others, claims, world)


async def _check_isr_stays(world: World) -> None:
    """Followers stay in sync that are behind for a moment: while records come on and on, and with the first ones after
    a long pause. Raises Violation."""
    simulated_loop().network.slowest_s = 0.3
    producer = Producer("the last producer", world)
    await _until(lambda: _are_whole(world.cluster), CALM_S, lambda: _where_all_are(world.cluster))
    try:
        for _ in range(3):
            await asyncio.sleep(11)  # longer than replica.lag.time.max.ms
            ends_s = world.now_s() + 2
            while world.now_s() < ends_s:
                await producer.act()
                for partition in world.promises.partitions:
                    state = world.cluster.state(partition)
                    if {*state.isr} != {*state.replicas}:
                        raise Violation(f"{partition}: {state}, though nothing is wrong")
    finally:
        await producer.hang_up()
        simulated_loop().network.slowest_s = simulated_loop().network.usual_slowest_s


async def _share_the_rest(sharers: Sequence[ShareMember], shared: Shared, world: World) -> None:
    """The share group comes to the end of each partition, and was given all that there was. Raises Violation."""
    if not sharers:
        return
    await _act_until(
        lambda: is_at_the_end(shared, world) and not not_delivered(shared, world),
        [(sharer, sharer.finish) for sharer in sharers],
        lambda: f"the share group lags by {shared.lags}, and was not given {not_delivered(shared, world)}",
        world,
    )


async def _act_until(
    holds: Callable[[], bool],
    acts: Sequence[tuple[Actor, Callable[[], Awaitable[None]]]],
    shown: Callable[[], str],
    world: World,
) -> None:
    """Clients do this every second until that holds, or there are none. Raises Violation."""
    if not acts:
        return

    async def go_on(act: Callable[[], Awaitable[None]]) -> None:
        while True:  # each by itself: one waits for the next generation while another has to keep its session
            await act()
            await asyncio.sleep(1)

    ends_s = world.now_s() + SETTLES_S
    acting = [asyncio.create_task(go_on(act)) for _, act in acts]
    try:
        while True:
            ended, _ = await asyncio.wait(acting, timeout=1, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()  # raises
            if holds():
                break
            if world.now_s() > ends_s:
                raise Violation(f"the group does not settle within {SETTLES_S} s: {shown()}")
    finally:
        for task in acting:
            task.cancel()
        await asyncio.wait(acting)
    for actor, _ in acts:
        await actor.hang_up()


async def _begin_alike(world: World) -> None:
    """Delete what a deletion that was cut short has left on some replicas only. Raises Violation."""
    deleter = Deleter("the last deleter", world)
    try:
        for partition in world.promises.partitions:
            start = max(each.log_start_offset for each in world.cluster.replica_offsets(partition).values())
            await deleter.until_it_works("DeleteRecords", partial(deleter.delete, partition, start))
            starts = {each.log_start_offset for each in world.cluster.replica_offsets(partition).values()}
            if starts != {start}:
                raise Violation(f"{partition}: deleted up to {start}, begins at {starts}")
    finally:
        await deleter.hang_up()


def _check_replicas(cluster: LocalCluster) -> None:
    """All replicas of a partition have the same bytes, and know the same of it. Raises Violation."""
    for topic in cluster.controller.topics.values():
        for number, state in enumerate(topic.partitions):
            partition = TopicPartition(topic.name, number)
            if topic.name in (TOPIC, MADE):  # of the others each replica is compacted by itself
                different = {log_bytes(cluster.brokers[node_id].logs.logs[partition]) for node_id in state.replicas}
                if len(different) != 1:
                    raise Violation(f"the replicas of {partition} differ")
            stable = {cluster.brokers[node_id].logs.logs[partition].last_stable_offset for node_id in state.replicas}
            if len(stable) != 1:
                raise Violation(f"the last stable offsets of {partition} differ: {stable}")


def _check_promises(world: World) -> None:
    """What was acknowledged is there once, and nothing else than was sent. Raises Violation."""
    cluster, promises = world.cluster, world.promises
    for partition in promises.partitions:
        leader = cluster.state(partition).leader
        log = cluster.brokers[leader].logs.logs[partition]
        if not promises.low_watermark[partition] <= log.log_start_offset <= promises.asked_to_delete[partition]:
            raise Violation(f"{partition} begins at {log.log_start_offset}")
        data = log_bytes(log)
        found = {
            record.offset: record.value
            for position, header in iter_batches(data)
            if not header.is_control
            for record in decode_records(data, position, header)
            if record.offset >= log.log_start_offset and record.value is not None
        }
        for offset, value in promises.acknowledged[partition].items():
            there = found.get(offset)
            if offset >= log.log_start_offset and there != value:
                raise Violation(f"{partition} offset {offset}: {value!r} was acknowledged, {there!r} is there")
        for offset, value in found.items():
            promises.delivered(partition, offset, value)
        twice = [value for value, count in Counter(found.values()).items() if count > 1]
        if twice:
            raise Violation(f"{partition}: {twice} are there more than once")


class _Everything(Reader):
    """Reads a partition from its beginning to its end."""

    async def read_all(self, partition: TopicPartition) -> set[bytes]:
        log = self.world.cluster.brokers[self.leader(partition)].logs.logs[partition]
        self.world.promises.seen[partition].clear()
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            answer = await self.until_it_works(
                "Fetch",
                partial(
                    self.fetch,
                    self.leader(partition),
                    partition,
                    offset,
                    is_read_committed=self._is_read_committed,
                ),
            )
            offset = self._take(partition, offset, answer, self.world.promises.low_watermark[partition])
        return {*self.world.promises.seen[partition].values()}


async def _check_isolation(world: World) -> None:
    """Who reads committed records gets those of every committed transaction, and none of another. Raises Violation."""
    promises = world.promises
    for is_read_committed in (False, True):
        reader = _Everything("the last reader", world, is_read_committed=is_read_committed)
        try:
            for partition in promises.partitions:
                read = await reader.read_all(partition)
                leader = world.cluster.state(partition).leader
                begin = world.cluster.brokers[leader].logs.logs[partition].log_start_offset
                expected = {
                    value
                    for offset, value in promises.acknowledged[partition].items()
                    if offset >= begin and (not is_read_committed or promises.transaction_of.get(value, True))
                }
                missing = expected - read
                if missing:
                    raise Violation(
                        f"{partition} is read without {sorted(missing)} at read_committed={is_read_committed}"
                    )
        finally:
            await reader.hang_up()


async def _check_compaction(world: World, writers: list[KeyedWriter]) -> None:
    """The last values are there, and what they supersede goes in time, on every replica. Raises Violation."""
    if not writers:
        return
    reader = KeyedReader("the last keyed reader", world, writers, is_read_committed=True)
    try:
        await reader.act()
        # One writes a tombstone and nothing after it, which goes: the producer's last sequence number stays.
        falls_silent = writers[0] if has_rarities(world.seed) and len(writers) > 1 else None
        for number in range(3):
            await world.clock.advance(keyed_actors.LAG_MS)
            for writer in writers:
                if writer is not falls_silent or number == 0:
                    await writer.write(b"the last", is_tombstone=writer is falls_silent)
            await asyncio.sleep(FOLLOWED_S)
        await world.clock.advance(keyed_actors.LAG_MS)
        await reader.act()
        if reader.reads != 2:
            raise Violation(f"{KEYED} cannot be read to its end")
        check_last_sequences(world.cluster, KEYED)
        for node_id in world.cluster.state(KEYED).replicas:
            check_compacted(world, world.cluster.brokers[node_id].logs.logs[KEYED])
        if has_campaigns(world.seed):
            await check_horizons(world)
    finally:
        await reader.hang_up()
        for writer in writers:
            await writer.hang_up()

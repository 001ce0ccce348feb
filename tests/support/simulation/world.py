"""A cluster in trouble: what its clients were promised, what they have seen, and what happened, in order."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable

from kmini.broker.clock import MovableClock
from kmini.broker.local_cluster import LocalCluster
from kmini.client.address import Address
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem

TOPIC = "t"
KEYED = TopicPartition("keyed", 0)
"""Of a compacted topic."""
PLAIN, TRANSACTIONAL = 0, 1
"""Partitions whose offsets the group commits: with OffsetCommit, and in transactions."""


# Histories stay as they were when they found something, so what was thought of later is in those of other seeds only.


def has_newcomers(seed: int) -> bool:
    """Whether a share group, a streams group and static members take part."""
    return seed % 7 in (1, 5) or (seed > 20_000 and seed % 2 == 1)


def has_restarts(seed: int) -> bool:
    """Whether the process ends and starts again, as another release perhaps."""
    return seed > 10_000


def has_rarities(seed: int) -> bool:
    """Whether more clients take part, and others do what they seldom do."""
    return seed > 20_000


def has_campaigns(seed: int) -> bool:
    """Whether a few troubles come again and again, slow disks among them, so that rare ones follow each other."""
    return seed > 30_000


def has_transaction_epochs(seed: int) -> bool:
    """Whether every transaction has its own producer epoch (KIP-890), as since release 4.0."""
    return not has_campaigns(seed) or seed % 3 > 0


class Violation(AssertionError):
    """A promise was broken."""


class History:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.has_deletions = False

    def say(self, line: str) -> None:
        self.lines.append(f"{asyncio.get_running_loop().time():9.4f} {line}")

    def __str__(self) -> str:
        return "\n".join(self.lines)


class CommittedOffsets:
    """What clients were told of the committed offset of one partition, which one client raises by one at a time."""

    def __init__(self) -> None:
        self.asked = -1
        """The last one that a client has asked to commit."""
        self.told = -1
        """The largest one that an answer to OffsetCommit or OffsetFetch has named."""
        self.aborted: set[int] = set()

    def tell(self, name: str, offset: int) -> None:
        """A client is told that this is committed. Raises Violation."""
        if offset > self.asked or offset in self.aborted:
            raise Violation(f"{name}: {offset} is told as committed, which is not")
        self.told = max(self.told, offset)


class Promises:
    """What clients were promised, and what they have seen."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = list(partitions)
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {one: {} for one in self.partitions}
        """Values by the offset that the producer was told."""
        self.last_acknowledged = dict.fromkeys(self.partitions, -1)
        self.sent: dict[TopicPartition, set[bytes]] = {one: set() for one in self.partitions}
        self.transaction_of: dict[bytes, bool | None] = {}
        """For values in transactions, whether the producer has asked to commit; None until it has asked for either."""
        self.seen: dict[TopicPartition, dict[int, bytes]] = {one: {} for one in self.partitions}
        self.low_watermark = dict.fromkeys(self.partitions, 0)
        """The largest that a DeleteRecords was answered with."""
        self.asked_to_delete = dict.fromkeys(self.partitions, 0)
        self.offsets = {number: CommittedOffsets() for number in (PLAIN, TRANSACTIONAL)}
        """Of the group, by partition."""

    def delivered(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A reader was given this. Raises Violation."""
        if value not in self.sent[partition]:
            raise Violation(f"{partition} offset {offset}: {value!r}, which no producer sent")
        for what, known in (("acknowledged", self.acknowledged), ("read", self.seen)):
            before = known[partition].get(offset, value)
            if before != value:
                raise Violation(f"{partition} offset {offset}: {value!r}, where {before!r} was {what}")
        self.seen[partition][offset] = value


class World:
    """A cluster in trouble, the clients that use it, and what they were promised."""

    def __init__(
        self,
        seed: int,
        cluster: LocalCluster,
        clock: MovableClock,
        filesystems: dict[int, MemoryFileSystem],
        partitions: int,
    ) -> None:
        self.seed = seed
        self.cluster = cluster
        self.clock = clock
        self.filesystems = filesystems
        """By node id; the entry of a broker is replaced when it dies."""
        self.met: Counter[tuple[str, str]] = Counter()
        """How often each fault met a state of the cluster."""
        self.calm_since_s: float | None = None
        """Since when nothing harms the cluster any more, in the loop's time."""
        self.lull_until_s = 0.0
        self.unsure_below = 0
        """Below this offset of the compacted topic old tombstones are not looked for. As in Apache Kafka, a replica
        that comes to a tombstone later than `delete.retention.ms` does not find it, and keeps the value before it."""
        self.acts = 0
        """Acts of clients since the last step of the nemesis."""
        self.promises = Promises(TopicPartition(TOPIC, number) for number in range(partitions))
        self.history = History()
        self.addresses = {
            node_id: Address(*broker.address.rsplit(":", 1)[:1], broker.server.listeners[0].port)  # type: ignore[arg-type]
            for node_id, broker in cluster.brokers.items()
        }
        self.is_over = False
        self.reassignments = 0
        self.fenced: set[int] = set()
        """Brokers that run, and may count as dead without knowing it."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """Of the leaders, when they were looked at last."""
        self._lives: dict[int, int] = dict.fromkeys(cluster.brokers, 0)

    def shown(self) -> str:
        """Which brokers run and are live, and the state of the partitions that clients write to."""
        controller = self.cluster.controller
        brokers = f"brokers {sorted(self.cluster.brokers)} run, {[one.node_id for one in controller.brokers]} are live"
        return "; ".join([brokers, *(f"{one}: {self.cluster.state(one)}" for one in self.promises.partitions)])

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def pause(self, chance: random.Random) -> None:
        """The time between two acts of a client: all are busy at once, and rest at once. They tire where nothing new
        happens for long."""
        self.acts += 1
        busy_s = chance.random() * 0.01 * (1 + self.acts / 20)
        lull_s = self.lull_until_s - self.now_s()
        await asyncio.sleep(busy_s + (max(lull_s, 0) if chance.random() < 0.9 else 0))

    def lives(self, node_id: int) -> int:
        """How often a broker has become a member of the cluster, or ceased to be one."""
        return self._lives[node_id]

    def has_stayed(self, node_id: int, lives: int) -> bool:
        """Whether a broker has been a member of the cluster ever since `lives` was what it returns. If not, it may have
        answered without knowing what has happened."""
        return self.lives(node_id) == lives and self.is_member(node_id)

    def turned(self, node_id: int) -> None:
        self._lives[node_id] += 1

    def topic_id(self, name: str) -> bytes:
        return self.cluster.controller.topics[name].id

    def lost(self, node_id: int) -> None:
        """A broker may count as dead from any moment on, and not know it."""
        self.fenced.add(node_id)
        self.turned(node_id)

    def found(self, node_id: int) -> None:
        """A broker knows again what has happened."""
        self.fenced.discard(node_id)
        self.turned(node_id)

    def is_member(self, node_id: int) -> bool:
        """Whether it is not an old broker that knows nothing of what has happened since."""
        return node_id not in self.fenced

    def acknowledged(self, name: str, partition: TopicPartition, base: int, values: list[bytes]) -> None:
        """A producer was told where its records are. Raises Violation."""
        self.history.say(f"{name}: {partition} from offset {base}: {b' '.join(values).decode()}")
        known = self.promises.acknowledged[partition]
        last = self.promises.last_acknowledged
        last[partition] = max(last[partition], base + len(values) - 1)
        for offset, value in enumerate(values, base):
            if known.setdefault(offset, value) != value:
                raise Violation(f"{partition} offset {offset}: {value!r} acknowledged after {known[offset]!r}")
            seen = self.promises.seen[partition].get(offset, value)
            if seen != value:
                raise Violation(f"{partition} offset {offset}: {value!r} acknowledged, {seen!r} was read")

    def live_replicas(self, partition: TopicPartition) -> set[tuple[int, int, int]]:
        """Those that are members of the cluster, with what changes when they leave it, or get another log."""
        state = self.cluster.state(partition)
        # None is live while the process of all brokers stops. Only those in sync may lead after it.
        is_stopping = not self.cluster.controller.brokers
        return {
            (node_id, self.lives(node_id), self.reassignments)
            for node_id in (state.isr if is_stopping else state.replicas)
            if node_id in self.cluster.brokers and self.is_member(node_id)
        }

    def check_deleted(self, partition: TopicPartition, low: int, replicas: set[tuple[int, int, int]]) -> None:
        """None of these has what is below an acknowledged low watermark. Raises Violation. A log that holds nothing may
        begin earlier: the disk of a follower failed while it made room for the batch that the log start lies in."""
        offsets = self.cluster.replica_offsets(partition)
        for node_id, *_ in replicas:
            if node_id in offsets and offsets[node_id].log_start_offset < min(low, offsets[node_id].log_end_offset):
                raise Violation(
                    f"{partition}: a client was told that all below offset {low} is deleted on every replica, and "
                    f"broker {node_id} begins at offset {offsets[node_id].log_start_offset}"
                )

"""Who uses a cluster while it is in trouble, and what each of them may expect of it.

Every actor writes down what it was promised in `Promises`, and checks what it is told against that at once. They speak
the wire protocol over connections of their own and try again after whatever goes wrong, as clients do; only whom to ask
they read off the controller, which spares them the time of looking it up.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from kmini.broker.local_cluster import LocalCluster
from kmini.client.address import Address
from kmini.client.connection import Connection
from kmini.client.errors import Disconnected, check
from kmini.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    PolicyViolation,
    RequestTimedOut,
)
from kmini.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DeleteRecordsRequest,
    EndTxnRequest,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from kmini.protocol.messages.add_partitions_to_txn import TxnTopic
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition

T = TypeVar("T")

PATIENCE_MS = 1_500
"""A client waits so long for an answer before it turns to somebody else."""
GIVE_UP_S = 60
"""Nothing takes longer than that, with so much that is repaired again and again."""
TOPIC = "t"
GROUP = "readers"
PLAIN, TRANSACTIONAL = 0, 1
"""Partitions whose offsets the group commits: with OffsetCommit, and in transactions."""
FETCH_VERSION = 12
"""The last that names topics by name."""


class Violation(AssertionError):
    """A promise was broken."""


class History:
    """What happened, in order."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.lines: list[str] = []
        self.has_deletions = False

    def say(self, line: str) -> None:
        self.lines.append(f"{time.monotonic() - self._began:7.3f} {line}")

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
            raise Violation(f"{partition} offset {offset}: {value!r}, which nobody sent")
        for what, known in (("acknowledged", self.acknowledged), ("read", self.seen)):
            before = known[partition].get(offset, value)
            if before != value:
                raise Violation(f"{partition} offset {offset}: {value!r}, where {before!r} was {what}")
        self.seen[partition][offset] = value


class Actor:
    """A client: connections of its own, and perseverance."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.random = random.Random(f"{world.seed} {name}")
        self._connections: dict[int, Connection] = {}
        self._leaders: dict[TopicPartition, int] = {}

    async def act(self) -> None:
        """Do the next thing."""
        raise NotImplementedError

    async def run(self) -> None:
        try:
            while not self.world.is_over:
                await self.act()
                await asyncio.sleep(self.random.random() * 0.01)
        finally:
            await self.hang_up()

    async def hang_up(self) -> None:
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def ask(self, node_id: int, request: Any, version: int | None = None) -> Any:
        """Send a request once. Raises Disconnected, RequestTimedOut."""
        connection = self._connections.pop(node_id, None)
        if connection is None or not connection.is_open:
            connection = await Connection.open(self.world.addresses[node_id], timeout_ms=PATIENCE_MS)
        try:
            answer = await connection.send(request, version=version, timeout_ms=PATIENCE_MS)
        except BaseException:
            await connection.close()
            raise
        self._connections[node_id] = connection
        return answer

    async def until_it_works(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """What `attempt` returns, made again after every retriable error. Raises Violation for others."""
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            try:
                return await attempt()
            except OutOfOrderSequenceNumber as error:
                if not self.world.history.has_deletions:
                    raise Violation(f"{self.name}: {what}: {error!r}") from error
                raise
            except KafkaError as error:
                self._leaders.clear()
                if not error.retriable and not isinstance(error, ConcurrentTransactions):
                    raise Violation(f"{self.name}: {what}: {error!r}") from error
                if time.monotonic() > deadline:
                    raise Violation(f"{self.name}: {what} does not work for {GIVE_UP_S} s: {error!r}") from error
            await asyncio.sleep(0.005 + self.random.random() * 0.02)

    def leader(self, partition: TopicPartition) -> int:
        """Who was the leader when there was last an error. Raises NotLeaderOrFollower."""
        if partition not in self._leaders:
            leader = self.world.cluster.state(partition).leader
            if leader < 0:
                raise NotLeaderOrFollower("nobody leads it")
            self._leaders[partition] = leader
        return self._leaders[partition]

    def coordinator(self, topic: str, key: str) -> int:
        from kmini.broker.coordinators.coordinator_topic import partition_for

        count = len(self.world.cluster.controller.topics[topic].partitions)
        try:
            return self.leader(TopicPartition(topic, partition_for(key, count)))
        except NotLeaderOrFollower as error:
            raise CoordinatorNotAvailable("nobody leads its partition") from error

    async def produce(self, partition: TopicPartition, batch: bytes, transactional_id: str | None = None) -> int:
        """The base offset. Raises what the broker answers."""
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=PATIENCE_MS,
            topic_data=[
                ProduceRequest.Topic(
                    name=partition.topic,
                    partition_data=[ProduceRequest.Topic.Partition(index=partition.partition, records=batch)],
                )
            ],
        )
        response = await self.ask(self.leader(partition), request, 11)
        answer = response.responses[0].partition_responses[0]
        check(answer.error_code, answer.error_message)
        return int(answer.base_offset)


class Producer(Actor):
    """Idempotent, acks=all: each batch is there once, where its acknowledgement says."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._producer_id = -1
        self._sequences = dict.fromkeys(world.promises.partitions, 0)
        self._count = 0

    def batch(self, partition: TopicPartition, epoch: int, *, transactional: bool) -> tuple[bytes, list[bytes]]:
        """The next records for a partition."""
        values = []
        for _ in range(self.random.choice((1, 1, 3, 8))):
            self._count += 1
            values.append(f"{self.name}-{self._count}".encode())
        self.world.promises.sent[partition].update(values)
        records = [Record(0, time.time_ns() // 1_000_000, None, value) for value in values]
        built = build_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences[partition],
            transactional=transactional,
        )
        self._sequences[partition] += len(values)
        return bytes(built), values

    async def act(self) -> None:
        if self._producer_id < 0:
            self._producer_id = await self.until_it_works("InitProducerId", self._init)
        partition = self.random.choice(self.world.promises.partitions)
        batch, values = self.batch(partition, 0, transactional=False)
        base = await self.until_it_works(f"{values} to {partition}", lambda: self.produce(partition, batch))
        self.world.acknowledged(self.name, partition, base, values)

    async def _init(self) -> int:
        anybody = self.random.choice([*self.world.cluster.brokers] or [1])
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await self.ask(anybody, request)
        check(response.error_code)
        return int(response.producer_id)


class TransactionalProducer(Producer):
    """Writes to several partitions at once, or to none."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._epoch = -1

    def _coordinator(self) -> int:
        return self.coordinator(TRANSACTION_STATE, self.name)

    async def act(self) -> None:
        if self._producer_id < 0 or self.random.random() < 0.1:
            self._producer_id, self._epoch = await self.until_it_works("InitProducerId", self._init_transactions)
            self._sequences = dict.fromkeys(self._sequences, 0)
        partitions = self.random.sample(self.world.promises.partitions, self.random.randint(1, 2))
        await self.until_it_works("AddPartitionsToTxn", lambda: self._add(partitions))
        written: list[tuple[TopicPartition, int, list[bytes]]] = []
        is_commit = self.random.random() < 0.6
        is_in_order = True
        outcome_of = self.world.promises.transaction_of
        for partition in partitions:
            batch, values = self.batch(partition, self._epoch, transactional=True)
            outcome_of.update(dict.fromkeys(values))
            attempt = partial(self.produce, partition, batch, self.name)
            try:
                base = await self.until_it_works(f"{values} to {partition}", attempt)
            except OutOfOrderSequenceNumber:
                # A replica whose log began anew at the low watermark knows of this producer by a marker only. That is
                # so in Apache Kafka; clients abort, and go on with another epoch.
                is_in_order = is_commit = False
                outcome_of.update(dict.fromkeys(values, False))
                break
            written.append((partition, base, values))
        for _, _, values in written:
            outcome_of.update(dict.fromkeys(values, is_commit))
        await self.until_it_works("EndTxn", lambda: self._end(is_commit))
        for partition, base, values in written:
            self.world.acknowledged(f"{self.name} {'commits' if is_commit else 'aborts'}", partition, base, values)
        if not is_in_order:
            self._producer_id = -1

    async def _init_transactions(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=900_000)
        response = await self.ask(self._coordinator(), request)
        check(response.error_code)
        return response.producer_id, response.producer_epoch

    async def _add(self, partitions: list[TopicPartition]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[TxnTopic(name=TOPIC, partitions=[number for _, number in partitions])],
        )
        response = await self.ask(self._coordinator(), request, 3)
        for result in response.results_by_topic_v3_and_below[0].results_by_partition:
            check(result.partition_error_code)

    async def _end(self, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        check((await self.ask(self._coordinator(), request, 4)).error_code)


class Reader(Actor):
    """Reads on and on, from any broker that may have it; sometimes from what ought to be gone."""

    def __init__(self, name: str, world: World, *, is_read_committed: bool) -> None:
        super().__init__(name, world)
        self._is_read_committed = is_read_committed
        self._positions = dict.fromkeys(world.promises.partitions, 0)

    async def act(self) -> None:
        promises = self.world.promises
        partition = self.random.choice(promises.partitions)
        low = promises.low_watermark[partition]
        chance = self.random.random()
        if chance < 0.2:
            offset = self.random.randint(0, low)
        else:
            offset = max(self._positions[partition], low)
        try:
            node_id = self.leader(partition)
            if chance < 0.3:
                node_id = self.random.choice(self.world.cluster.state(partition).replicas)
            lives = self.world.lives(node_id)
            answer = await self._fetch(node_id, partition, offset)
            check(answer.error_code)
        except OffsetOutOfRange:
            self._positions[partition] = promises.low_watermark[partition]
        except KafkaError as error:
            self._leaders.clear()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error
        else:
            is_member = self.world.lives(node_id) == lives and self.world.is_member(node_id)
            end = self._take(partition, offset, answer, low if is_member else 0)
            if chance >= 0.2:
                self._positions[partition] = end

    async def _fetch(self, node_id: int, partition: TopicPartition, offset: int) -> FetchResponse.Topic.Partition:
        request = FetchRequest(
            max_wait_ms=20,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(self._is_read_committed),
            topics=[
                FetchRequest.Topic(
                    topic=partition.topic,
                    partitions=[
                        FetchRequest.Topic.Partition(
                            partition=partition.partition, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        )
        response: FetchResponse = await self.ask(node_id, request, FETCH_VERSION)
        check(response.error_code)
        return response.responses[0].partitions[0]

    def _take(self, partition: TopicPartition, offset: int, answer: FetchResponse.Topic.Partition, low: int) -> int:
        """Look at what has come; `low` is what was acknowledged as deleted before the question. The next position."""
        aborted = sorted(answer.aborted_transactions or [], key=lambda one: one.first_offset)
        skipped: set[int] = set()
        promises = self.world.promises
        for position, header in iter_batches(answer.records or b""):
            while aborted and aborted[0].first_offset <= header.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if header.is_control:
                skipped.discard(header.producer_id)
            elif not (self._is_read_committed and header.is_transactional and header.producer_id in skipped):
                for record in decode_records(answer.records, position, header):
                    if record.offset < offset:
                        continue
                    assert record.value is not None
                    if record.offset < low:
                        raise Violation(
                            f"{self.name} at {offset}: {partition} offset {record.offset} is delivered, and the low"
                            f" watermark {low} was acknowledged"
                        )
                    promises.delivered(partition, record.offset, record.value)
                    if self._is_read_committed and promises.transaction_of.get(record.value, True) is not True:
                        raise Violation(f"{self.name}: {record.value!r} at {record.offset} is not committed")
            offset = max(offset, header.next_offset)
        return offset


class Deleter(Actor):
    """Deletes what was acknowledged, and is told when it is gone everywhere."""

    async def act(self) -> None:
        await asyncio.sleep(self.random.random() * 0.08)
        promises = self.world.promises
        partition = self.random.choice(promises.partitions)
        known = promises.acknowledged[partition]
        if not known:
            return
        low = promises.low_watermark[partition]
        offset = self.random.randint(low, max(low, (low + 3 * max(known)) // 4))
        try:
            await self.delete(partition, offset)
        except (OffsetOutOfRange, PolicyViolation):  # a new leader may know of a high watermark from a while ago
            self._leaders.clear()
        except KafkaError as error:
            self._leaders.clear()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error

    async def delete(self, partition: TopicPartition, offset: int) -> None:
        """Delete once. Raises what the broker answers, and Violation."""
        promises = self.world.promises
        self.world.history.has_deletions = True
        promises.asked_to_delete[partition] = max(promises.asked_to_delete[partition], offset)
        Topic = DeleteRecordsRequest.Topic
        request = DeleteRecordsRequest(
            topics=[
                Topic(
                    name=partition.topic,
                    partitions=[Topic.Partition(partition_index=partition.partition, offset=offset)],
                )
            ],
            timeout_ms=1_000,
        )
        before = self.world.live_replicas(partition)
        (answer,) = (await self.ask(self.leader(partition), request)).topics[0].partitions
        check(answer.error_code)
        if answer.low_watermark < offset:
            raise Violation(f"{self.name}: asked for {offset}, and told {answer.low_watermark}")
        self.world.history.say(f"{self.name}: {partition} begins at {answer.low_watermark}")
        promises.low_watermark[partition] = max(promises.low_watermark[partition], answer.low_watermark)
        self.world.check_deleted(partition, answer.low_watermark, before & self.world.live_replicas(partition))


class Committer(Actor):
    """Keeps an offset in a group, and finds it again."""

    async def act(self) -> None:
        offsets = self.world.promises.offsets[PLAIN]
        offsets.asked += 1
        await self.until_it_works("OffsetCommit", self._commit)
        offsets.tell(self.name, offsets.asked)
        await self.until_it_works("OffsetFetch", partial(self.find, PLAIN))
        if offsets.told != offsets.asked:
            raise Violation(f"{self.name}: committed {offsets.asked}, found {offsets.told}")

    def _coordinator(self) -> int:
        return self.coordinator(CONSUMER_OFFSETS, GROUP)

    async def _commit(self) -> None:
        Topic = OffsetCommitRequest.Topic
        offset = self.world.promises.offsets[PLAIN].asked
        partition = Topic.Partition(partition_index=PLAIN, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(group_id=GROUP, topics=[Topic(name=TOPIC, partitions=[partition])])
        response = await self.ask(self._coordinator(), request, 8)
        check(response.topics[0].partitions[0].error_code)

    async def find(self, number: int, *, stable: bool = True) -> None:
        """Fetch the committed offset once, and compare it with all that clients were told of before. Raises what the
        broker answers, and Violation."""
        offsets = self.world.promises.offsets[number]
        node_id = self._coordinator()
        lives, told = self.world.lives(node_id), offsets.told
        request = OffsetFetchRequest(
            group_id=GROUP,
            topics=[OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=[number])],
            require_stable=stable,
        )
        response = await self.ask(node_id, request, 7)
        check(response.error_code)
        check(response.topics[0].partitions[0].error_code)
        if self.world.lives(node_id) != lives or not self.world.is_member(node_id):
            raise NotCoordinator("it was fenced, and does not know what has been committed since")
        found = int(response.topics[0].partitions[0].committed_offset)
        if found < told:
            raise Violation(f"{self.name}: the committed offset of {number} goes back from {told} to {found}")
        offsets.tell(self.name, found)


class TransactionalCommitter(Committer):
    """Commits offsets in transactions, and aborts some."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._producer = (-1, -1)

    async def act(self) -> None:
        offsets = self.world.promises.offsets[TRANSACTIONAL]
        if self._producer[0] < 0:
            self._producer = await self.until_it_works("InitProducerId", self._init)
        is_commit = self.random.random() < 0.7
        offsets.asked += 1
        if not is_commit:
            offsets.aborted.add(offsets.asked)
        await self.until_it_works("AddOffsetsToTxn", self._add)
        try:
            await self.until_it_works("TxnOffsetCommit", self._commit)
        except OutOfOrderSequenceNumber as error:
            raise Violation(f"{self.name}: offsets have no sequence") from error
        await self.until_it_works("EndTxn", partial(self._end, is_commit))
        if is_commit:
            # EndTxn may answer before the marker is in the offsets topic: a stable fetch waits for that.
            await self.until_it_works("OffsetFetch", partial(self.find, TRANSACTIONAL))
            if offsets.told != offsets.asked:
                raise Violation(f"{self.name}: committed {offsets.asked}, found {offsets.told}")

    def _transactions(self) -> int:
        return self.coordinator(TRANSACTION_STATE, self.name)

    async def _init(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=900_000)
        response = await self.ask(self._transactions(), request)
        check(response.error_code)
        return response.producer_id, response.producer_epoch

    async def _add(self) -> None:
        producer_id, epoch = self._producer
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, group_id=GROUP
        )
        check((await self.ask(self._transactions(), request)).error_code)

    async def _commit(self) -> None:
        Topic = TxnOffsetCommitRequest.Topic
        producer_id, epoch = self._producer
        offset = self.world.promises.offsets[TRANSACTIONAL].asked
        partition = Topic.Partition(partition_index=TRANSACTIONAL, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[Topic(name=TOPIC, partitions=[partition])],
        )
        response = await self.ask(self._coordinator(), request, 4)
        check(response.topics[0].partitions[0].error_code)

    async def _end(self, is_commit: bool) -> None:
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=is_commit
        )
        check((await self.ask(self._transactions(), request, 4)).error_code)


class OffsetReader(Committer):
    """Looks at the committed offsets on and on: what one client was told, no later one is told less than."""

    async def act(self) -> None:
        number = self.random.choice((PLAIN, TRANSACTIONAL))
        try:
            await self.find(number, stable=self.random.random() < 0.3)
        except KafkaError as error:
            self._leaders.clear()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error


class World:
    """A cluster in trouble, who uses it, and what they were promised."""

    def __init__(self, seed: int, cluster: LocalCluster, partitions: int) -> None:
        self.seed = seed
        self.cluster = cluster
        self.promises = Promises(TopicPartition(TOPIC, number) for number in range(partitions))
        self.history = History()
        self.addresses = {
            node_id: Address(*broker.address.rsplit(":", 1)[:1], broker.server.listeners[0].port)  # type: ignore[arg-type]
            for node_id, broker in cluster.brokers.items()
        }
        self.is_over = False
        self.reassignments = 0
        self.fenced: set[int] = set()
        """Brokers that run, count as dead, and do not know it."""
        self._lives: dict[int, int] = dict.fromkeys(cluster.brokers, 0)

    def lives(self, node_id: int) -> int:
        """How often a broker has become a member of the cluster, or ceased to be one."""
        return self._lives[node_id]

    def turned(self, node_id: int) -> None:
        self._lives[node_id] += 1

    def is_member(self, node_id: int) -> bool:
        """Whether it is not an old broker that knows nothing of what has happened since."""
        return node_id not in self.fenced

    def acknowledged(self, name: str, partition: TopicPartition, base: int, values: list[bytes]) -> None:
        """A producer was told where its records are. Raises Violation."""
        self.history.say(f"{name}: {partition} {base}: {b' '.join(values).decode()}")
        known = self.promises.acknowledged[partition]
        for offset, value in enumerate(values, base):
            if known.setdefault(offset, value) != value:
                raise Violation(f"{partition} offset {offset}: {value!r} acknowledged after {known[offset]!r}")
            seen = self.promises.seen[partition].get(offset, value)
            if seen != value:
                raise Violation(f"{partition} offset {offset}: {value!r} acknowledged, {seen!r} was read")

    def live_replicas(self, partition: TopicPartition) -> set[tuple[int, int, int]]:
        """Those that are members of the cluster, with what changes when they leave it, or get another log."""
        replicas = self.cluster.state(partition).replicas
        return {
            (node_id, self.lives(node_id), self.reassignments)
            for node_id in replicas
            if node_id in self.cluster.brokers and self.is_member(node_id)
        }

    def check_deleted(self, partition: TopicPartition, low: int, replicas: set[tuple[int, int, int]]) -> None:
        """None of these has what is below an acknowledged low watermark. Raises Violation."""
        offsets = self.cluster.replica_offsets(partition)
        for node_id, *_ in replicas:
            if node_id in offsets and offsets[node_id].log_start_offset < low:
                raise Violation(f"{partition}: {low} is the low watermark; {node_id} is at {offsets[node_id]}")


__all__ = [
    "TOPIC",
    "Actor",
    "Committer",
    "Deleter",
    "Disconnected",
    "OffsetReader",
    "Producer",
    "Reader",
    "RequestTimedOut",
    "TransactionalCommitter",
    "World",
]

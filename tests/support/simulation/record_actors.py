"""Clients that produce, read and delete records while their cluster is in trouble.

Each writes down what it was promised in `Promises`, and checks each answer against that at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from kmini.client.errors import check
from kmini.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    PolicyViolation,
    ProducerFenced,
)
from kmini.protocol.messages import (
    AddPartitionsToTxnRequest,
    DeleteRecordsRequest,
    EndTxnRequest,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
)
from kmini.protocol.messages.add_partitions_to_txn import TxnTopic
from kmini.protocol.records.batch import BatchHeader, build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TRANSACTION_STATE, TopicPartition
from support.simulation.actor import BY_ID, FETCH_VERSION, Actor, T
from support.simulation.world import KEYED, TOPIC, Violation, World, has_rarities

OVERSTAYED_S = 30
"""So long no transaction of `SlowTransactionalProducer` may be open while nothing harms the cluster: its time-out, the
interval at which brokers look for such transactions, and the answer."""


class Producer(Actor):
    """Idempotent, acks=all: each batch is there once, where its acknowledgement says."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._producer_id = -1
        self._sequences = dict.fromkeys(world.promises.partitions, 0)
        self._acknowledged = dict.fromkeys(world.promises.partitions, -1)
        """The offset of its last acknowledged record."""
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
        try:
            base = await self.until_it_works(f"{values} to {partition}", lambda: self.produce(partition, batch))
        except OutOfOrderSequenceNumber as error:
            # A replica that was away does not know of a batch that was deleted before it came back. That is so in
            # Apache Kafka; clients go on with another epoch or id.
            if self._acknowledged[partition] >= self.world.promises.asked_to_delete[partition]:
                raise Violation(f"{self.name}: {values} to {partition}: {error!r}") from error
            self._producer_id = -1
            self._sequences = dict.fromkeys(self._sequences, 0)
            return
        self._acknowledged[partition] = base + len(values) - 1
        self.world.acknowledged(self.name, partition, base, values)

    async def _init(self) -> int:
        any_broker = self.random.choice([*self.world.cluster.brokers] or [1])
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await self.ask(any_broker, request)
        check(response.error_code)
        return int(response.producer_id)


class TransactionalProducer(Producer):
    """Writes to several partitions at once, or to none. With `raises_epoch` it works by the second version of
    transactions (KIP-890): its partitions join by Produce, and every end gives it another epoch."""

    def __init__(self, name: str, world: World, *, raises_epoch: bool = False) -> None:
        super().__init__(name, world)
        self._epoch = -1
        self._raises_epoch = raises_epoch
        self._time_out_ms = 900_000

    def _coordinator(self) -> int:
        return self.coordinator(TRANSACTION_STATE, self.name)

    async def act(self) -> None:
        if self._producer_id < 0 or self.random.random() < 0.1:
            await self.renew()
        known = self.world.promises.partitions
        partitions = self.random.sample(known, self.random.randint(1, min(2, len(known))))
        if not self._raises_epoch:
            await self.until_it_works("AddPartitionsToTxn", lambda: self.add(partitions))
        written: list[tuple[TopicPartition, int, list[bytes]]] = []
        is_commit = self.random.random() < 0.6
        is_in_order = True
        outcome_of = self.world.promises.transaction_of
        for partition in partitions:
            batch, values = self.batch(partition, self._epoch, transactional=True)
            outcome_of.update(dict.fromkeys(values))
            attempt = partial(self.produce, partition, batch, self.name, version=12 if self._raises_epoch else 11)
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
        following = await self.until_it_works("EndTxn", lambda: self.end(is_commit))
        if self._raises_epoch:
            self._go_on(*following)
        for partition, base, values in written:
            self.world.acknowledged(f"{self.name} {'commits' if is_commit else 'aborts'}", partition, base, values)
        if not is_in_order:
            self._producer_id = -1

    async def renew(self) -> None:
        """Take a producer id, or the next epoch of it: the sequence numbers begin again."""
        self._producer_id, self._epoch = await self.until_it_works("InitProducerId", self._init_transactions)
        self._sequences = dict.fromkeys(self._sequences, 0)

    async def _init_transactions(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self._time_out_ms)
        response = await self.ask(self._coordinator(), request)
        check(response.error_code)
        return response.producer_id, response.producer_epoch

    async def add(self, partitions: Sequence[TopicPartition]) -> None:
        """Let partitions of one topic take part in the transaction. Raises what the broker answers."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[TxnTopic(name=partitions[0].topic, partitions=[number for _, number in partitions])],
        )
        response = await self.ask(self._coordinator(), request, 3)
        for result in response.results_by_topic_v3_and_below[0].results_by_partition:
            check(result.partition_error_code)

    async def end(self, is_commit: bool) -> tuple[int, int]:
        """The producer id and epoch that are answered; -1 before version 5."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        response = await self.ask(self._coordinator(), request, 5 if self._raises_epoch else 4)
        check(response.error_code)
        return response.producer_id, response.producer_epoch

    def _go_on(self, producer_id: int, epoch: int) -> None:
        """Take the producer id and epoch that the end of a transaction gave. Raises Violation."""
        if (producer_id, epoch) != (self._producer_id, self._epoch + 1):
            raise Violation(f"{self.name}: epoch {epoch} of {producer_id} follows {self._epoch} of {self._producer_id}")
        self._epoch = epoch
        self._sequences = dict.fromkeys(self._sequences, 0)


FENCED = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState)
"""What a producer gets whose transaction was aborted for it."""


class SlowTransactionalProducer(TransactionalProducer):
    """Is sometimes away for longer than its transactions may take. What is committed then is all of a transaction."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._time_out_ms = 8_000

    async def act(self) -> None:
        if self._producer_id < 0:
            await self.renew()
        outcome_of = self.world.promises.transaction_of
        known = self.world.promises.partitions
        written: list[tuple[TopicPartition, int, list[bytes]]] = []
        sent: list[bytes] = []
        try:
            for partition in self.random.sample(known, self.random.randint(1, min(2, len(known)))):
                await self._until_it_works("AddPartitionsToTxn", partial(self.add, [partition]))
                batch, values = self.batch(partition, self._epoch, transactional=True)
                sent += values
                outcome_of.update(dict.fromkeys(values))
                attempt = partial(self.produce, partition, batch, self.name)
                written.append((partition, await self._until_it_works(f"{values} to {partition}", attempt), values))
                await asyncio.sleep(self.random.choice((0.0, 0.1, 5.0, 30.0)))
            outcome_of.update(dict.fromkeys(sent, True))
            await self._until_it_works("EndTxn", partial(self.end, is_commit=True))
        except (*FENCED, OutOfOrderSequenceNumber):
            outcome_of.update(dict.fromkeys(sent, False))
            self._producer_id = -1
            return
        for partition, base, values in written:
            self.world.acknowledged(f"{self.name} commits", partition, base, values)

    async def _until_it_works(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self.until_it_works(what, attempt, may_raise=FENCED)

    async def overstay(self) -> None:
        """Let a transaction take too long, though it goes on to take in partitions. Raises Violation."""
        await self.renew()
        began_s, known = self.world.now_s(), self.world.promises.partitions
        try:
            while self.world.now_s() < began_s + OVERSTAYED_S:
                await self._until_it_works("AddPartitionsToTxn", partial(self.add, [self.random.choice(known)]))
                await asyncio.sleep(3)
        except FENCED:
            return
        raise Violation(f"{self.name}: a transaction of {self._time_out_ms} ms is open for {OVERSTAYED_S} s")


def aborted_batches(answer: FetchResponse.Topic.Partition) -> Callable[[BatchHeader], bool]:
    """What tells of each batch of an answer, in order, whether a reader of committed records skips it. (Others are told
    of no aborted transactions, and skip none.)"""
    aborted = sorted(answer.aborted_transactions or [], key=lambda one: one.first_offset)
    skipped: set[int] = set()

    def is_aborted(header: BatchHeader) -> bool:
        while aborted and aborted[0].first_offset <= header.last_offset:
            skipped.add(aborted.pop(0).producer_id)
        if header.is_control:
            skipped.discard(header.producer_id)
        return header.is_transactional and header.producer_id in skipped

    return is_aborted


class Reader(Actor):
    """Reads on and on, from any broker that may have it; sometimes from what ought to be gone."""

    def __init__(self, name: str, world: World, *, is_read_committed: bool) -> None:
        super().__init__(name, world)
        self._is_read_committed = is_read_committed
        self._positions = dict.fromkeys(world.promises.partitions, 0)
        self._decided = dict.fromkeys(world.promises.partitions, (0, 0))
        """The largest last stable offset that an answer has named, and the high watermark beside it."""

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
            # Few bytes at a time end before transactions that are undecided.
            max_bytes = self.random.choice((100, 500, 1 << 20)) if has_rarities(self.world.seed) else 1 << 20
            answer = await self.fetch(
                node_id, partition, offset, is_read_committed=self._is_read_committed, max_bytes=max_bytes
            )
            check(answer.error_code)
        except OffsetOutOfRange:
            self._positions[partition] = promises.low_watermark[partition]
        except KafkaError as error:
            self._leaders.clear()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error
        else:
            end = self._take(partition, offset, answer, low if self.world.has_stayed(node_id, lives) else 0)
            if chance >= 0.2:
                self._positions[partition] = end
            if self.world.has_stayed(node_id, lives):
                self._compare_stable(partition, answer)

    def _compare_stable(self, partition: TopicPartition, answer: FetchResponse.Topic.Partition) -> None:
        """What was decided stays decided, for all that the broker knows to be replicated. Where records were deleted, a
        replica that began anew does not know the transactions that were open, as in Apache Kafka. Raises Violation."""
        (decided, replicated), stable = self._decided[partition], answer.last_stable_offset
        if answer.log_start_offset < stable < decided and answer.high_watermark >= replicated:
            raise Violation(
                f"{self.name}: the last stable offset of {partition} was {decided}, and is {stable} below the high"
                f" watermark {answer.high_watermark}"
            )
        if stable > answer.log_start_offset:
            self._decided[partition] = max(self._decided[partition], (stable, answer.high_watermark))

    def _take(self, partition: TopicPartition, offset: int, answer: FetchResponse.Topic.Partition, low: int) -> int:
        """Look at what has come; `low` is what was acknowledged as deleted before the question. The next position."""
        promises, is_aborted = self.world.promises, aborted_batches(answer)
        for position, header in iter_batches(answer.records or b""):
            if not is_aborted(header) and not header.is_control:
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


class SessionReader(Reader):
    """Reads several partitions of any broker in a fetch session (KIP-227), forgets some and comes back to them."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world, is_read_committed=False)
        self._close()

    def _close(self) -> None:
        self._node_id = -1
        self._version = self.random.choice((FETCH_VERSION, BY_ID))
        self._session_id = self._session_epoch = 0
        self._wanted: dict[TopicPartition, int] = {}
        """The next offset of each partition in the session."""
        self._sent: dict[TopicPartition, int] = {}
        """As the broker knows them."""

    async def act(self) -> None:
        try:
            await self._read()
        except KafkaError as error:
            self._close()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error

    async def _read(self) -> None:
        asked, forgotten = self._choose()
        is_first, lives = self._session_epoch == 0, self.world.lives(self._node_id)
        lows = {partition: self._low(partition) for partition in self._wanted}
        response: FetchResponse = await self.ask(self._node_id, self._request(asked, forgotten), self._version)
        check(response.error_code)
        self._session_id, self._session_epoch = response.session_id, self._session_epoch + 1
        if not self.world.has_stayed(self._node_id, lives):
            lows = dict.fromkeys(lows, 0)
        answers = {}
        for topic in response.responses:
            is_keyed = topic.topic == KEYED.topic or topic.topic_id == self.world.topic_id(KEYED.topic)
            for answer in topic.partitions:
                answers[KEYED if is_keyed else TopicPartition(TOPIC, answer.partition_index)] = answer
        if not {*answers} <= {*self._wanted}:
            raise Violation(f"{self.name}: an answer has {[*answers]}, and {[*self._wanted]} are in the session")
        has_more = any(answer.high_watermark > self._wanted[partition] for partition, answer in answers.items())
        is_served = any(answer.records or answer.error_code for answer in answers.values())
        for partition, answer in answers.items():
            self._take_answer(partition, answer, lows[partition])
        if is_first and has_more and not is_served:
            raise Violation(f"{self.name}: records are below the high watermarks, and none came (KIP-74)")
        if not self._session_id or self.random.random() < 0.1:
            self._close()

    def _choose(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The partitions to name in the next request, and those to forget. Opens a session if there is none."""
        known = [*self.world.promises.partitions, KEYED]
        forgotten: list[TopicPartition] = []
        if self._node_id < 0:
            self._node_id = self.random.choice([*self.world.cluster.brokers] or [1])
            asked = self.random.sample(known, len(known))
        else:
            forgotten = [partition for partition in self._wanted if self.random.random() < 0.1]
            asked = [
                partition
                for partition in known
                if partition not in forgotten
                and (self._wanted.get(partition) != self._sent.get(partition) or self.random.random() < 0.3)
            ]
        for partition in forgotten:
            del self._wanted[partition]
        for partition in asked:
            if self.random.random() < 0.2:
                self._wanted[partition] = self.random.randint(0, self._low(partition))
            self._wanted.setdefault(partition, self._low(partition))
        self._sent = {**self._wanted}
        return asked, forgotten

    def _take_answer(self, partition: TopicPartition, answer: FetchResponse.Topic.Partition, low: int) -> None:
        """Raises what the broker answers, and Violation."""
        try:
            check(answer.error_code)
        except OffsetOutOfRange:
            self._wanted[partition] = self._low(partition)
        else:
            offset = self._wanted[partition]
            if partition == KEYED:
                ends = [header.next_offset for _, header in iter_batches(answer.records or b"")]
                self._wanted[partition] = max([offset, *ends])
            else:
                self._wanted[partition] = self._take(partition, offset, answer, low)

    def _low(self, partition: TopicPartition) -> int:
        return self.world.promises.low_watermark.get(partition, 0)

    def _request(self, asked: list[TopicPartition], forgotten: list[TopicPartition]) -> FetchRequest:
        by_id = self._version == BY_ID

        def named(partition: TopicPartition) -> dict[str, Any]:
            return {"topic_id": self.world.topic_id(partition.topic)} if by_id else {"topic": partition.topic}

        return FetchRequest(
            max_wait_ms=20,
            min_bytes=1,
            max_bytes=self.random.choice((1, 500, 1 << 20)),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[
                FetchRequest.Topic(
                    **named(partition),
                    partitions=[
                        FetchRequest.Partition(
                            partition=partition.partition,
                            fetch_offset=self._wanted[partition],
                            partition_max_bytes=self.random.choice((1, 1 << 20)),
                        )
                    ],
                )
                for partition in asked
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(**named(partition), partitions=[partition.partition])
                for partition in forgotten
            ],
        )


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
        self.world.history.say(f"{self.name}: {partition} is deleted below offset {answer.low_watermark}")
        promises.low_watermark[partition] = max(promises.low_watermark[partition], answer.low_watermark)
        self.world.check_deleted(partition, answer.low_watermark, before & self.world.live_replicas(partition))

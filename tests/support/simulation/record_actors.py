"""Clients that produce, read and delete records while their cluster is in trouble.

Each writes down what it was promised in `Promises`, and checks each answer against that at once.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from kmini.client.errors import check
from kmini.protocol.errors import (
    KafkaError,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    PolicyViolation,
)
from kmini.protocol.messages import (
    AddPartitionsToTxnRequest,
    DeleteRecordsRequest,
    EndTxnRequest,
    FetchResponse,
    InitProducerIdRequest,
)
from kmini.protocol.messages.add_partitions_to_txn import TxnTopic
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TRANSACTION_STATE, TopicPartition
from support.simulation.actor import Actor
from support.simulation.world import TOPIC, Violation, World


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

    def _coordinator(self) -> int:
        return self.coordinator(TRANSACTION_STATE, self.name)

    async def act(self) -> None:
        if self._producer_id < 0 or self.random.random() < 0.1:
            self._producer_id, self._epoch = await self.until_it_works("InitProducerId", self._init_transactions)
            self._sequences = dict.fromkeys(self._sequences, 0)
        known = self.world.promises.partitions
        partitions = self.random.sample(known, self.random.randint(1, min(2, len(known))))
        if not self._raises_epoch:
            await self.until_it_works("AddPartitionsToTxn", lambda: self._add(partitions))
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
        following = await self.until_it_works("EndTxn", lambda: self._end(is_commit))
        if self._raises_epoch:
            self._go_on(*following)
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

    async def _end(self, is_commit: bool) -> tuple[int, int]:
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
            answer = await self.fetch(node_id, partition, offset, is_read_committed=self._is_read_committed)
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
        self.world.history.say(f"{self.name}: {partition} is deleted below offset {answer.low_watermark}")
        promises.low_watermark[partition] = max(promises.low_watermark[partition], answer.low_watermark)
        self.world.check_deleted(partition, answer.low_watermark, before & self.world.live_replicas(partition))

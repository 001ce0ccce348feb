"""Consuming by assignment: from given offsets of given partitions, up to given ends or for ever.

Every leader is asked for all its partitions at once, over a connection of its own, because the question waits there
until there is something to tell. The answers are taken as they come; within a partition the order is the log's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from operator import itemgetter
from typing import NamedTuple

from ..protocol.errors import CorruptMessage, KafkaError, UnknownServerError
from ..protocol.messages.fetch import READ_UNCOMMITTED, FetchRequest, FetchResponse
from ..protocol.primitives import Buffer
from ..protocol.records.batch import BatchHeader, is_crc_valid, iter_batches
from ..protocol.records.batch_records import decode_records
from ..protocol.records.control import parse_end_transaction_marker
from ..protocol.records.record import Record
from ..protocol.topics import TopicPartition
from .cluster_connections import ClusterConnections
from .connection import Connection
from .deadline import Backoff, Deadline
from .errors import check, error_of

MAX_WAIT_MS = 500
MAX_BYTES = 8 * 1024 * 1024
PARTITION_MAX_BYTES = 1024 * 1024
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""Bytes that the records of a fetched batch may have when decompressed; a larger batch is taken for damaged."""

Headers = tuple[tuple[str, "bytes | None"], ...]


class ConsumedRecord(NamedTuple):
    """A record with its topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """In ms since the epoch, by the producer's clock or the broker's, as the topic says."""
    key: bytes | None
    value: bytes | None
    headers: Headers


class Fetched(NamedTuple):
    """A leader's answer for one partition."""

    records: Buffer
    """Whole batches from the one that holds the requested offset on; the last may be cut off."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()
    """With READ_COMMITTED the producer id and first offset of each aborted transaction in `records`, by offset."""


class AbortedBatches:
    """Tells which batches of an answer belong to aborted transactions (KIP-98). Takes the batches in order."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._begins = deque(sorted(aborted, key=itemgetter(1)))
        self._producer_ids: set[int] = set()
        """Producer ids inside an aborted transaction: all their transactional batches belong to it."""

    def has(self, records: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether this batch belongs to an aborted transaction."""
        while self._begins and self._begins[0][1] <= header.last_offset:
            self._producer_ids.add(self._begins.popleft()[0])
        if header.producer_id not in self._producer_ids or not header.is_transactional:
            return False
        if header.is_control:
            marker = parse_end_transaction_marker(memoryview(records)[position : position + header.size])
            if marker is not None and marker.is_abort:
                self._producer_ids.discard(header.producer_id)
        return True


class Consumption:
    """One run over partitions. `positions` has the next offset of each, which each batch of the log raises."""

    def __init__(
        self,
        cluster: ClusterConnections,
        positions: Mapping[TopicPartition, int],
        until: Mapping[TopicPartition, int] | None,
        *,
        patience_ms: int,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> None:
        self.positions = dict(positions)
        self._cluster = cluster
        self._until = until
        self._isolation_level = isolation_level
        self._patience_ms = patience_ms
        self._deadline = Deadline(patience_ms)
        """The time by which some fetch must succeed; every success extends it."""
        self._connections: dict[int, Connection] = {}
        self._polls: dict[asyncio.Task[dict[TopicPartition, Fetched | KafkaError]], list[TopicPartition]] = {}

    async def records(self) -> AsyncGenerator[ConsumedRecord, None]:
        """Yield the records of all leaders as they arrive, until each partition has reached its end, if it has one."""
        async with aclosing(self.batches()) as batches:
            async for (topic, partition), records in batches:
                for record in records:
                    yield ConsumedRecord(topic, partition, *record)

    async def batches(self) -> AsyncGenerator[tuple[TopicPartition, list[Record]], None]:
        """The same, as one list for each batch of the log that has records to be read."""
        backoff = Backoff(self._deadline)
        try:
            while self._unfinished():
                await self._poll_idle_partitions()
                done, _ = await asyncio.wait(self._polls, return_when=asyncio.FIRST_COMPLETED)
                failed = False
                for task in done:
                    del self._polls[task]
                    for topic_partition, fetched in task.result().items():
                        if isinstance(fetched, KafkaError):
                            self._tolerate(topic_partition, fetched)
                            failed = True
                            continue
                        for records in self._take(topic_partition, fetched):
                            yield topic_partition, records
                if failed:
                    await backoff.pause()  # whether there is time left is asked at the next failure
                else:
                    self._deadline = Deadline(self._patience_ms)
                    backoff = Backoff(self._deadline)
        finally:
            await self._close()

    def _unfinished(self) -> list[TopicPartition]:
        if self._until is None:
            return list(self.positions)
        return [partition for partition, offset in self.positions.items() if offset < self._until[partition]]

    async def _poll_idle_partitions(self) -> None:
        """Send a fetch for the partitions that are in no pending fetch."""
        asked = {partition for partitions in self._polls.values() for partition in partitions}
        idle = [partition for partition in self._unfinished() if partition not in asked]
        if not idle:
            return
        by_leader, errors = await self._cluster.leaders(idle, self._deadline)
        for error in errors.values():
            raise error
        for leader, partitions in by_leader.items():
            self._polls[asyncio.ensure_future(self._poll(leader, partitions))] = partitions

    async def _poll(self, leader: int, partitions: list[TopicPartition]) -> dict[TopicPartition, Fetched | KafkaError]:
        """Fetch once from one leader. An error of the whole answer counts for each partition."""
        connection = self._connections.pop(leader, None)
        try:
            if connection is None or not connection.is_open:
                connection = await self._cluster.open_connection(leader, self._deadline)
            wanted = {partition: self.positions[partition] for partition in partitions}
            fetched = await fetch(
                self._cluster, connection, wanted, isolation_level=self._isolation_level, timeout_ms=self._patience_ms
            )
        except KafkaError as error:
            if connection is not None:
                await connection.close()
            return dict.fromkeys(partitions, error)
        except BaseException:
            if connection is not None:
                await connection.close()
            raise
        spare = self._connections.setdefault(leader, connection)
        if spare is not connection:
            await connection.close()
        return fetched

    def _tolerate(self, topic_partition: TopicPartition, error: KafkaError) -> None:
        if not error.retriable or self._deadline.has_passed:
            raise error
        self._cluster.forget_leader(topic_partition)

    def _take(self, topic_partition: TopicPartition, fetched: Fetched) -> Iterator[list[Record]]:
        """Yield the records from the position on, and move the position past every batch, also past those that yield
        none."""
        end = self._until[topic_partition] if self._until is not None else None
        aborted = AbortedBatches(fetched.aborted)
        for position, header in iter_batches(fetched.records):
            if header.next_offset <= self.positions[topic_partition]:
                continue
            if not is_crc_valid(fetched.records, position, header):
                raise CorruptMessage(f"{topic_partition}: the CRC of the batch at offset {header.base_offset} is wrong")
            if not aborted.has(fetched.records, position, header) and not header.is_control:
                records = decode_records(fetched.records, position, header, limit=MAX_DECOMPRESSED_BYTES)
                first = self.positions[topic_partition]
                if records and (records[0].offset < first or (end is not None and records[-1].offset >= end)):
                    records = [one for one in records if one.offset >= first and (end is None or one.offset < end)]
                self.positions[topic_partition] = header.next_offset
                if records:
                    yield records
            self.positions[topic_partition] = header.next_offset
            if end is not None and header.next_offset >= end:
                return

    async def _close(self) -> None:
        for task in self._polls:
            task.cancel()
        for task in self._polls:
            with suppress(asyncio.CancelledError):
                await task
        for connection in self._connections.values():
            await connection.close()


async def fetch(
    cluster: ClusterConnections,
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    *,
    max_wait_ms: int = MAX_WAIT_MS,
    isolation_level: int = READ_UNCOMMITTED,
    timeout_ms: int,
) -> dict[TopicPartition, Fetched | KafkaError]:
    """Fetch records from these offsets on from one leader, which answers when it has any, or after `max_wait_ms`.

    Each partition has its own outcome. Raises the errors of `Connection.send`, and an error of the whole answer.
    """
    topics: dict[str, FetchRequest.Topic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, FetchRequest.Topic(topic=name, topic_id=cluster.topic_id(name), partitions=[]))
        topic.partitions.append(
            FetchRequest.Topic.Partition(partition=index, fetch_offset=offset, partition_max_bytes=PARTITION_MAX_BYTES)
        )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=MAX_BYTES,
        isolation_level=isolation_level,
        topics=list(topics.values()),
    )
    response: FetchResponse = await connection.send(request, timeout_ms=max_wait_ms + timeout_ms)
    check(response.error_code)
    answers = {
        (answered.topic or cluster.topic_name(answered.topic_id), answer.partition_index): _fetched(answer)
        for answered in response.responses
        for answer in answered.partitions
    }
    unanswered = UnknownServerError(f"{connection.address} did not answer for this partition")
    return {topic_partition: answers.get(topic_partition, unanswered) for topic_partition in offsets}


def _fetched(answer: FetchResponse.Topic.Partition) -> Fetched | KafkaError:
    return error_of(answer.error_code) or Fetched(
        answer.records or b"",
        answer.high_watermark,
        answer.last_stable_offset,
        answer.log_start_offset,
        tuple((one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()),
    )

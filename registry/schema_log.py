"""The log of partition 0 of `_schemas`: the registry follows it before each request, and appends what it changes.

The state is what the records up to the high watermark say. Where the log is another one than at the last request (a
reset, a snapshot, another leader, a deleted topic), or may have been cut, it is read anew, so nothing tells the
registry of such an event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

from kmini.broker.appending import until_replicated
from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.coordinators.internal_topics import shape_of
from kmini.broker.replication.partition import Partition
from kmini.broker.scheduler import Turn
from kmini.protocol.errors import (
    KafkaError,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
)
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from kmini.registry.registered import Registered
from kmini.registry.registry_errors import STORE_FAILED, TIMED_OUT, TOO_LARGE
from kmini.registry.schemas_topic import TOPIC, Change, NotOurs, read, written
from kmini.storage.log import PartitionLog

log = logging.getLogger("kmini.registry")

PLACE = TopicPartition(TOPIC, 0)

POLICY = ("compact",)
"""The only cleanup policy under which schemas stay."""


READ_BYTES = 1024 * 1024
"""Bytes read from the log at a time."""

MOST_LEADERS = 20
"""Leaders that a request tries, one after the other."""


Brokers = Callable[[], Collection[BrokerServer]]
"""The brokers that run of those that a registry stands in front of."""


class SchemaLog:
    """Follows the log and appends to it. Belongs to the loop of the brokers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._state = Registered()
        self._seen: tuple[PartitionLog, int, int] | None = None
        """The log that was read, its leader epoch, and its log start offset; None before the first one."""
        self._next_offset = 0
        """The offset of the first record that was not read."""
        self._reading = asyncio.Lock()
        """Held while records are read: that takes several turns of the loop if there are many."""

    @property
    def position(self) -> tuple[object, int]:
        """Up to where which log was read: the state is another one where this is."""
        return self._seen, self._next_offset

    async def state(self) -> Registered:
        """The state after all records up to the high watermark. Raises RegistryError."""
        try:
            await _with_the_leader(self._follow)
        except (KafkaError, RuntimeError) as error:
            raise STORE_FAILED(done="read", details=_text_of(error)) from error
        return self._state

    async def _follow(self) -> None:
        led = self._led()
        if led is None:
            self._forget()
        elif not self._is_read(led) or self._reading.locked():
            async with self._reading:
                await self._read()

    async def append(self, changes: Sequence[Change]) -> None:
        """Append records for changes, all or none, and return once every in-sync replica has them. The topic is created
        if it is missing. Raises RegistryError."""
        try:
            await _with_the_leader(lambda: self._append(changes))
        except (MessageTooLarge, RecordListTooLarge) as error:
            raise TOO_LARGE(details=error.message) from error
        except RequestTimedOut as error:
            raise TIMED_OUT(details=error.message) from error
        except (KafkaError, RuntimeError) as error:
            raise STORE_FAILED(done="written", details=_text_of(error)) from error

    async def _append(self, changes: Sequence[Change]) -> None:
        broker = self._any_broker()
        if broker.controller.topic(TOPIC) is None:
            shape = shape_of(CONSUMER_OFFSETS, broker.config.current, len(self._brokers()))
            assert shape is not None
            topics.create(
                broker,
                TOPIC,
                partitions=1,
                replication_factor=shape.replication_factor,
                configs={"cleanup.policy": ",".join(POLICY)},
            )
        found = self._led()
        assert found is not None
        broker, led = found
        now_ms = broker.clock.now_ms()
        batch = build_batch([Record(0, now_ms, *written(change), ()) for change in changes])
        await broker.services.appender.append_replicated(led, memoryview(batch))

    # --- the partition

    def _any_broker(self) -> BrokerServer:
        for broker in self._brokers():
            return broker
        raise STORE_FAILED(done="reached", details="no broker runs")

    def _led(self) -> tuple[BrokerServer, Partition] | None:
        """The broker that leads the partition, and the partition; None if there is no topic. Raises KafkaError, and
        RegistryError for a topic in which schemas would not stay."""
        topic = self._any_broker().controller.topic(TOPIC)
        if topic is None:
            return None
        if len(topic.partitions) != 1:
            told = f"the topic has {len(topic.partitions)} partitions, and a registry needs it to have one"
            raise STORE_FAILED(done="used", details=told)
        leader = topic.partitions[0].leader
        for broker in self._brokers():
            if broker.node_id == leader:
                led = broker.replica_manager.leader_of(PLACE)
                _check_policy(led)
                return broker, led
        raise STORE_FAILED(done="reached", details="no broker that runs leads its partition")

    # --- records

    def _is_read(self, found: tuple[BrokerServer, Partition]) -> bool:
        """Whether the log is the one that was read, to its end."""
        return self._is_same(found[1]) and found[1].log.high_watermark == self._next_offset

    def _is_same(self, led: Partition) -> bool:
        """Whether the log goes on from what was read."""
        if self._seen is None or self._seen[0] is not led.log:
            return False
        seen = (led.leader_epoch, led.log.log_start_offset)
        return self._seen[1:] == seen and led.log.high_watermark >= self._next_offset

    def _forget(self) -> None:
        self._state, self._seen, self._next_offset = Registered(), None, 0

    async def _read(self) -> None:
        """Read up to the high watermark."""
        found = self._led()
        if found is None:
            self._forget()
            return
        broker, led = found
        same = self._is_same(led)
        if not same:  # a new leader may not know yet how far its log is committed
            timeout_ms = broker.config.current.request_timeout_ms
            await until_replicated(broker.replica_manager, led, led.log.log_end_offset - 1, timeout_ms)
        state, offset = (self._state, self._next_offset) if same else (Registered(), 0)
        seen, end = (led.log, led.leader_epoch, led.log.log_start_offset), led.log.high_watermark
        turn = Turn()
        for record in _records(led.log, offset, end):
            self._next_offset = record.offset + 1 if same else self._next_offset
            try:
                change = read(record.key, record.value)
            except NotOurs as error:
                log.warning("record %d of _schemas is none of a registry's, and is left out: %s", record.offset, error)
                continue
            if change is not None:
                state.fold(change)
            if turn.is_over:
                await turn.next()
        self._state, self._seen, self._next_offset = state, seen, end


def _records(log: PartitionLog, since: int, end: int) -> Iterator[Record]:
    """The records of the log from `since` to below `end`."""
    for batches, position, header in log.batches_between(since, end, READ_BYTES):
        if not header.is_control:
            yield from (one for one in decode_records(batches, position, header) if since <= one.offset < end)


async def _with_the_leader(act: Callable[[], Awaitable[None]]) -> None:
    """Do something with the leader of the partition, and again with the next one if that is another broker meanwhile.
    What was appended twice says the same twice. Raises KafkaError."""
    for _ in range(MOST_LEADERS - 1):
        try:
            return await act()
        except NotLeaderOrFollower:
            await asyncio.sleep(0)
    await act()


def _text_of(error: Exception) -> str:
    """What an error says. A RuntimeError is that of a wait that a reset has ended."""
    return error.message if isinstance(error, KafkaError) else str(error)


def _check_policy(led: Partition) -> None:
    """Raise RegistryError for a cleanup policy under which schemas are deleted."""
    policy = led.log.config.cleanup_policy
    if policy != POLICY:
        told = (
            f"the topic has cleanup.policy={','.join(policy)}, which deletes schemas; alter it to cleanup.policy="
            f"{','.join(POLICY)}"
        )
        raise STORE_FAILED(done="used", details=told)

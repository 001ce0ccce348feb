"""The operations of the test kit: what a test does with brokers, one or several, written once.

They are coroutines on the brokers' loop; `handle.py` makes methods of them, which block or are awaited. Every coroutine
raises KafkaError. A broker is a cluster of one: `embedded.py` and `cluster.py` have the few operations that a `Broker`
and a `Cluster` spell differently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import Duration, MovableClock
from kmini.broker.controller import topics
from kmini.broker.controller.controller import Controller
from kmini.broker.controller.topic_plans import DEFAULT
from kmini.broker.controller.topology import Topic
from kmini.broker.handlers.delete_records import DelayedDelete, Deletion, persist
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.purgatory import Operation, Unattended
from kmini.broker.replication.partition import Partition
from kmini.protocol.errors import (
    AnswerError,
    InvalidArgument,
    InvalidState,
    InvalidTopic,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
    error_for,
)
from kmini.protocol.messages.delete_records import HIGH_WATERMARK
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Header
from kmini.protocol.records.record import Record as NewRecord
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition, is_internal
from kmini.storage.log import PartitionLog
from kmini.testkit.argument_checks import Config, NewTopic
from kmini.testkit.arrivals import Reading
from kmini.testkit.client_connections import ClientOperations
from kmini.testkit.contents import Isolation, Record, shown_in_turns
from kmini.testkit.crash_damage import CrashDamage
from kmini.testkit.followers import until_in_step
from kmini.testkit.handle import ends_with_its_caller, takes_long, waits_for_clients
from kmini.testkit.isolation import IsolationOperations
from kmini.testkit.phrases import there_is_no, there_is_no_partition
from kmini.testkit.record_arguments import Headers
from kmini.testkit.waiting import until

if TYPE_CHECKING:
    from kmini.storage.cleaner.stats import PassReport

P = ParamSpec("P")
T = TypeVar("T")

CHECK_RUNNING_MS = 500
"""Milliseconds after which a wait on a cluster's brokers checks again which of them run."""

SHOWN = 10
"""Most names of topics in an error message."""


class BrokerNotRunning(AnswerError, KeyError):
    """A method names a broker that does not run or does not exist; the text lists the running ones."""

    def __str__(self) -> str:
        return str(self.args[0])


class NoSuchBroker(BrokerNotRunning):
    """A method names a broker that the cluster does not have; the text lists those that it has."""


class Operations(ClientOperations, IsolationOperations):
    """The operations of running brokers. Every coroutine runs on their loop and raises KafkaError. A method that names
    a broker raises BrokerNotRunning unless that broker runs."""

    what = "cluster"
    none_runs = "no broker of the cluster runs: restart one"
    """Said where no broker runs."""

    def __init__(self, core: LocalCluster) -> None:
        assert isinstance(core.clock, MovableClock)
        super().__init__(core)
        self.clock = core.clock
        self._comes_back: asyncio.Future[None] | None = None
        """Done at the end of the `crash` in progress, if there is one."""

    @property
    def _controller(self) -> Controller:
        """The cluster's metadata; a reset makes a new one."""
        return self.core.controller

    @property
    def running(self) -> Collection[BrokerServer]:
        """The running brokers."""
        return self.core.brokers.values()

    def part(self, table: Callable[Concatenate[Operations, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The table of operations of a part: of a topic, of the clock."""
        return table(self, *args, **kwargs)

    def any_broker(self) -> BrokerServer:
        """Any running broker. Raises RuntimeError if none runs."""
        for broker in self.running:
            return broker
        raise InvalidState(self.none_runs)

    def check_broker(self, broker: int, *, must_run: bool = True) -> BrokerServer | None:
        """Return the broker if it runs. Raises BrokerNotRunning for a broker that the cluster does not have, and, with
        `must_run`, for one that does not run."""
        numbers = [config.node_id for config in self.core.configs]
        running = ", ".join(map(str, sorted(self.core.brokers))) or "none"
        if broker not in numbers:
            has = ", ".join(map(str, numbers))
            there = f"the cluster has {has}, of which run: {running}" if len(numbers) > 1 else f"this one is {has}"
            raise NoSuchBroker(f"there is no broker {broker}; {there}")
        if must_run and broker not in self.core.brokers:
            there = f"broker {broker} does not run; there run: {running}" if len(numbers) > 1 else self.none_runs
            raise BrokerNotRunning(there)
        return self.core.brokers.get(broker)

    def broker(self, number: int) -> BrokerServer:
        """The broker of this number. Raises BrokerNotRunning."""
        found = self.check_broker(number)
        assert found is not None
        return found

    def one_broker(self, number: int | None) -> BrokerServer:
        """The running broker of this number; None is the only one. Raises BrokerNotRunning, and ValueError for None
        where there are several."""
        if number is None:
            numbers = [config.node_id for config in self.core.configs]
            if len(numbers) > 1:
                raise InvalidArgument(
                    f"broker=None: the cluster has the brokers {', '.join(map(str, numbers))}; name one"
                )
            (number,) = numbers
        return self.broker(number)

    # --- topics

    def create(
        self, name: str, partitions: int = DEFAULT, replication_factor: int = DEFAULT, config: Config | None = None
    ) -> None:
        """Create a topic. The values of `config` are texts already."""
        texts: Mapping[str, str] = config or {}  # type: ignore[assignment]  # argument_checks made them so
        topics.create(
            self.any_broker(), name, partitions=partitions, replication_factor=replication_factor, configs=texts
        )

    def create_missing(self, new_topics: Sequence[NewTopic]) -> None:
        """Create the missing ones of these topics."""
        for topic in new_topics:
            if self._controller.topic(topic.name) is None:
                self.create(*topic)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartition."""
        self.known_topic(name)
        topics.delete(self.any_broker(), name)

    async def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return self.topic_names()

    def known_topic(self, name: str) -> Topic:
        """The topic. Raises UnknownTopicOrPartition, which lists the topics."""
        topic = self._controller.topic(name)
        if topic is None:
            raise UnknownTopicOrPartition(self.no_such_topic(name))
        return topic

    def check_partition(self, topic: str, partition: int) -> TopicPartition:
        """The partition. Raises UnknownTopicOrPartition, which says which exist."""
        count = len(self.known_topic(topic).partitions)
        if partition >= count:
            raise UnknownTopicOrPartition(there_is_no_partition(topic, partition, count))
        return TopicPartition(topic, partition)

    def topic_id(self, name: str) -> bytes | None:
        """The id of a topic, None if it does not exist."""
        topic = self._controller.topic(name)
        return None if topic is None else topic.id

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted(self._controller.topics)

    def no_such_topic(self, name: str) -> str:
        """Say that there is no such topic, and which there are."""
        return there_is_no("topic", name, (known for known in self._controller.topics if not is_internal(known)))

    # --- partitions

    def leader_of(self, topic: str, partition: int) -> tuple[BrokerServer, Partition]:
        """The broker that leads a partition, and the partition. Raises UnknownTopicOrPartition, LeaderNotAvailable."""
        topic_partition = self.check_partition(topic, partition)
        leader = self.known_topic(topic).partitions[partition].leader
        for broker in self.running:
            if broker.node_id == leader:
                return broker, broker.replica_manager.leader_of(topic_partition)
        raise LeaderNotAvailable(f"no broker that runs leads {topic_partition}")

    def leaders_of(self, topic: str, partition: int | None) -> list[tuple[BrokerServer, Partition]]:
        """All partitions of a topic, or one of them, each with its leader. Raises UnknownTopicOrPartition,
        LeaderNotAvailable."""
        indexes = range(len(self.known_topic(topic).partitions)) if partition is None else [partition]
        return [self.leader_of(topic, index) for index in indexes]

    def check_leads(self, log: PartitionLog) -> None:
        """Raise UnknownTopicOrPartition if the partition of a log is gone, and LeaderNotAvailable if another log is its
        leader's."""
        _, led = self.leader_of(*log.topic_partition)
        if led.log is not log:
            raise LeaderNotAvailable(f"{log.topic_partition}: its leader, or the topic, has changed during this call")

    # --- records

    async def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Append one record as a producer with acks=all does, and return its offset. The topic is created if
        `auto.create.topics.enable` allows it.

        Raises UnknownTopicOrPartition, InvalidTopic, LeaderNotAvailable, NotEnoughReplicas, RequestTimedOut, and the
        error of the rule that the record breaks: MessageTooLarge, InvalidRecord, InvalidTimestamp.

        >>> broker.produce("users", b"alice", key=b"1", headers={"source": "import"})
        0
        """
        self.create_if_allowed(topic)
        return (await self._append(topic, value, key, headers, partition, timestamp_ms)).offset

    def create_if_allowed(self, topic: str) -> None:
        """Create a topic for a producer if it is missing and `auto.create.topics.enable` allows it. Raises InvalidTopic
        for an internal one."""
        if is_internal(topic):
            raise InvalidTopic(f"{topic} is internal: only the broker writes to it")
        some = self.any_broker()
        if self._controller.topic(topic) is None and some.config.current.auto_create_topics_enable:
            topics.create_missing(some, topic)

    async def _append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int,
        timestamp_ms: int | None,
    ) -> Record:
        """Append one record at the leader, and return it with its place once every in-sync replica has it. The topic is
        no internal one."""
        broker, led = self.leader_of(topic, partition)
        timestamp = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
        checked_headers: tuple[Header, ...] = tuple(headers)  # type: ignore[arg-type]  # argument_checks made them so
        batch = build_batch([NewRecord(0, timestamp, key, value, checked_headers)])
        appended = await broker.services.appender.append_replicated(led, memoryview(batch))
        if appended.log_append_time_ms >= 0:
            timestamp = appended.log_append_time_ms
        return Record(appended.first_offset, timestamp, key, value, checked_headers, topic, partition)

    async def records(
        self, topic: str, partition: int | None = None, *, isolation: Isolation = "committed"
    ) -> list[Record]:
        """The records of one partition or of all, in the order of partition and offset.

        With `isolation="committed"` they are those that a consumer at read_committed gets; "uncommitted" adds the
        records of open and aborted transactions, and "all" the transaction markers; `Record.state` tells them apart.
        Raises UnknownTopicOrPartition, LeaderNotAvailable.

        >>> _ = broker.produce("users", b"alice")
        >>> [record.value for record in broker.records("users")]
        [b'alice']
        """
        logs = {led.log: 0 for _, led in self.leaders_of(topic, partition)}
        return await shown_in_turns(logs, isolation, check=self.check_leads)

    @waits_for_clients
    async def wait_for_records(
        self, topic: str, count: int, *, timeout_ms: int = 10_000, isolation: Isolation = "committed"
    ) -> list[Record]:
        """Wait until a topic has at least `count` records; return them as `records` does, up to a thousand more.

        The topic need not exist yet. Raises RequestTimedOut, which lists the present records and those that `isolation`
        hides. On the thread of a running event loop, where a client could not write meanwhile, it does not wait and
        raises RuntimeError if there are fewer.

        >>> _ = broker.produce("users", b"alice")
        >>> broker.wait_for_records("users", 1)[0].text()
        'alice'
        """
        from kmini.testkit.topic_handle import TopicOperations

        return await TopicOperations(self, topic).wait_for(count, timeout_ms=timeout_ms, isolation=isolation)

    async def _wait_until(self, reading: Reading, timeout_ms: int) -> bool:
        """Wait until enough records have arrived; return whether they have within `timeout_ms`."""
        return await until(self, reading.is_reached, reading.keys, timeout_ms)

    def transactional_id_of(self, producer_id: int) -> str:
        """The transactional id of a producer, or a name made from its number."""
        for broker in self.running:
            for transaction in broker.transactions.listed():
                if transaction.entry.producer_id == producer_id:
                    return transaction.transactional_id
        return f"producer {producer_id}"

    def logs(self, topic: str) -> list[PartitionLog]:
        """The logs of a topic's partitions that have leaders, in order."""
        known = self._controller.topic(topic)
        brokers = {broker.node_id: broker for broker in self.running}
        found = [
            brokers[state.leader].replica_manager.partitions.get(TopicPartition(topic, number))
            for number, state in enumerate(known.partitions if known else ())
            if state.leader in brokers
        ]
        return [led.log for led in found if led is not None]

    async def delete_records(self, topic: str, offset: int = HIGH_WATERMARK, *, partition: int = 0) -> int:
        """Delete the records before `offset` (-1: the high watermark); return the low watermark once every live replica
        has followed (KIP-107).

        Raises UnknownTopicOrPartition, LeaderNotAvailable, OffsetOutOfRange, PolicyViolation on a topic that is only
        compacted, InvalidTopic on an internal topic, RequestTimedOut.

        >>> _ = broker.produce("users", b"alice"), broker.produce("users", b"bob")
        >>> broker.delete_records("users", 1)
        1
        >>> [record.value for record in broker.records("users")]
        [b'bob']
        """
        broker, _ = self.leader_of(topic, partition)
        deletion = Deletion(broker.replica_manager, TopicPartition(topic, partition), offset)
        if deletion.error is None:
            await persist(broker.services.log_start_checkpoint, [deletion])
            deletion.delete_files()
        if deletion.error is not None:
            raise deletion.error
        timeout_ms = broker.config.current.request_timeout_ms
        await broker.purgatory.wait(DelayedDelete([deletion]), timeout_ms=timeout_ms, waiter=Unattended())
        low_watermark, code = deletion.outcome()
        if code:
            raise error_for(code)("not every live replica has deleted the records")
        return low_watermark

    # --- what the broker would do later

    @takes_long
    async def apply_retention(self) -> None:
        """Apply retention to every topic now; followers in sync have deleted the same when this returns."""
        brokers = [*self.running]
        for broker in brokers:
            await broker.housekeeping.apply_retention()
        partitions = [(broker, led) for broker in brokers for led in broker.replica_manager.partitions.values()]
        await until_in_step(self, partitions)

    @takes_long
    async def compact(self, topic: str, partition: int | None = None) -> list[PassReport]:
        """Do `topic(topic).compact(partition)`. Raises UnknownTopicOrPartition, PolicyViolation, KafkaStorageError."""
        from kmini.testkit.topic_handle import TopicOperations

        return await TopicOperations(self, topic).compact(partition)

    # --- groups and transactions

    async def groups(self) -> list[str]:
        """The names of all groups, sorted: those with members, and those with committed offsets."""
        return self.group_names()

    def group_names(self) -> list[str]:
        """The names of all groups, sorted."""
        if not self.has_topic(CONSUMER_OFFSETS):
            return []
        known = (group for broker in self.running for group in broker.groups.groups.values())
        return sorted({group.group_id for group in known if not group.is_removed})

    def has_topic(self, name: str) -> bool:
        """Whether there is such a topic."""
        return self._controller.topic(name) is not None

    def is_led(self, topic: str) -> bool:
        """Whether a broker that runs leads each partition of a topic, which must exist."""
        return len(self.logs(topic)) == len(self.known_topic(topic).partitions)

    # --- brokers

    async def brokers(self) -> list[int]:
        """The numbers of the running brokers, including the cut-off and paused ones."""
        return sorted(self.core.brokers)

    @takes_long
    async def crash(self, broker: int | None = None, *, torn: str | None = None, unindexed: str | None = None) -> None:
        """End a broker as `kill -9` does, and start it again on its port: connections break, answers are lost, and what
        it had written to its files is there again; what only its memory held is not. Returns once clients can connect.

        A loss of power leaves more: with `torn` the last batch of each partition of that topic is half written, and is
        cut off by the start, acknowledged or not; with `unindexed` the index files of that topic are gone.

        On a cluster it is the broker of this number, or every broker, whose leaderships move to others meanwhile.
        Raises BrokerNotRunning, UnknownTopicOrPartition, and PortTaken and KafkaStorageError if the start fails.

        >>> _ = orders.produce(b"one", partition=0)
        >>> broker.crash()
        >>> [record.value for record in orders.records()]
        [b'one']
        """
        for topic in (torn, unindexed):
            if topic is not None:
                self.known_topic(topic)
        comes_back = self._comes_back = asyncio.get_running_loop().create_future()
        try:
            killed = [*self.running] if broker is None else [self.broker(broker)]
            if not killed:
                raise BrokerNotRunning(self.none_runs)
            for one in killed:
                await self.core.kill(one.node_id)
            for one in killed:
                CrashDamage(torn, unindexed).apply(one.logs)
                await self.core.restart(one.node_id)
        finally:
            if self._comes_back is comes_back:
                self._comes_back = None
            comes_back.set_result(None)

    async def advertise(self, host: str | None, port: int | None = None, *, broker: int | None = None) -> None:
        """Tell clients this host and port from now on, in every answer that has the address of a broker: Metadata,
        FindCoordinator, DescribeCluster. For a proxy or a mapped port in front of a broker that runs already.

        Without a port it is that of each listener; `host` None ends it, and so does a reset. `broker` is needed where
        there are several. `bootstrap_servers` stays, and so do connections. Raises ValueError and BrokerNotRunning.

        >>> broker.advertise("127.0.0.1", 19092)
        >>> broker.advertise(None)
        """
        self.one_broker(broker).server.advertised.override(host, port)

    # --- time

    @takes_long
    @ends_with_its_caller
    async def advance_clock(self, duration: Duration, *, liveness: bool = False) -> None:
        """Move the clock; return when everything that fell due has run. The same as `clock.advance`."""
        await self.clock.advance(duration, liveness=liveness)

    # --- waiting

    def until_any(self, operation: Callable[[], Operation], timeout_ms: int) -> Coroutine[Any, Any, None]:
        """Return when an operation is complete on any broker, or after `timeout_ms` at most. `operation` makes one for
        each broker."""
        if len(self._controller.node_ids) > 1:  # a broker that starts meanwhile has its own purgatory
            timeout_ms = min(timeout_ms, CHECK_RUNNING_MS)
        return self._until_any(operation, self.running, timeout_ms)

    async def _until_running(self, timeout_ms: int) -> None:
        """Return once what crashed runs again, or after `timeout_ms`. Raises RuntimeError if nothing does that."""
        if self._comes_back is not None:
            await asyncio.wait([self._comes_back], timeout=timeout_ms / 1000)
            return
        raise InvalidState(f"the {self.what} was stopped during this call" if self.core.is_stopped else self.none_runs)

    async def _until_any(
        self, operation: Callable[[], Operation], brokers: Collection[BrokerServer], timeout_ms: int
    ) -> None:
        """Return when an operation is complete on one of these brokers, or after `timeout_ms`. `operation` makes one
        for each broker."""
        if not brokers:
            await self._until_running(timeout_ms)
            return
        waits = [
            asyncio.ensure_future(broker.purgatory.wait(operation(), timeout_ms=timeout_ms, waiter=Unattended()))
            for broker in brokers
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            outcomes = await asyncio.gather(*waits, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, RuntimeError):
                raise outcome  # the broker was reset: what this waits for is gone

"""One topic of a broker or a cluster: `broker.topic("orders")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kmini.broker.broker import BrokerServer
from kmini.broker.replication.partition import Partition
from kmini.protocol.errors import PolicyViolation
from kmini.protocol.messages.delete_records import HIGH_WATERMARK
from kmini.protocol.records.partitioner import partition_for_key
from kmini.testkit.argument_checks import ARGUMENTS
from kmini.testkit.arrivals import Reading
from kmini.testkit.contents import Isolation, PartitionOffsets, Position, Record, RecordPage, shown_in_turns
from kmini.testkit.expectation import Expectation
from kmini.testkit.followers import followers_of, until_in_step
from kmini.testkit.handle import Awaiting, Blocking, Handle, checking, method, takes_long, waits_for_clients
from kmini.testkit.operations import Operations
from kmini.testkit.record_arguments import Headers
from kmini.testkit.record_selection import Mark, Predicate, RecordSelection

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kmini.storage.cleaner.stats import PassReport


BEGINNING = Position(0, 0)
"""The first record of a topic."""


class TopicPartitionState(NamedTuple):
    """The leader and the replicas of a partition."""

    partition: int
    leader: int
    """The number of the broker that leads it; -1 if none does."""
    replicas: tuple[int, ...]
    """The numbers of the brokers that have replicas, the preferred leader first."""
    isr: tuple[int, ...]
    """The brokers whose replicas are in sync."""


class TopicOperations:
    """The operations of one topic: of all its partitions, or of `partition`. Raises UnknownTopicOrPartition."""

    def __init__(self, operations: Operations, name: str) -> None:
        self._operations = operations
        self.name = name

    # --- looking

    async def partitions(self) -> list[TopicPartitionState]:
        """The partitions, each with its leader and its replicas. Raises UnknownTopicOrPartition."""
        found = self._operations.known_topic(self.name).partitions
        return [TopicPartitionState(number, one.leader, one.replicas, one.isr) for number, one in enumerate(found)]

    async def offsets(self) -> dict[int, PartitionOffsets]:
        """The offsets of every partition, at its leader. Raises UnknownTopicOrPartition, LeaderNotAvailable.

        >>> orders.offsets()[0].high_watermark
        0
        """
        leaders = enumerate(self._partitions(None))
        return {number: PartitionOffsets.of(led.log) for number, (_, led) in leaders}

    async def records(
        self,
        partition: int | None = None,
        *,
        key: bytes | None = None,
        where: Predicate | None = None,
        since: int | Mark | None = None,
        isolation: Isolation = "committed",
    ) -> list[Record]:
        """The records, in the order of partition and offset: of one partition, with this key, for which `where` returns
        True, since an offset or a `mark()`.

        With `isolation="committed"` they are those that a consumer at read_committed gets; "uncommitted" adds the
        records of open and aborted transactions, and "all" the transaction markers; `Record.state` tells them apart.
        Raises UnknownTopicOrPartition, LeaderNotAvailable, and ValueError for the mark of another topic.

        >>> orders.produce(b"placed", key=b"42").offset
        0
        >>> [record.text() for record in orders.records(key=b"42")]
        ['placed']
        """
        return await self.page(self.selection(partition, key, [where], since, isolation))

    def page(
        self, selection: RecordSelection, most: int | None = None, *, begin: Position = BEGINNING
    ) -> Awaitable[RecordPage]:
        """The selected records from a position on: all, or a page of at most `most`. Raises UnknownTopicOrPartition,
        LeaderNotAvailable."""
        topic_id = self._operations.known_topic(self.name).id
        starts = {}
        for _, led in self._partitions(selection.partition):
            number = led.topic_partition.partition
            start = selection.start(number, topic_id)
            if number >= begin.partition:
                starts[led.log] = max(start, begin.offset) if number == begin.partition else start
        check = self._operations.check_leads
        return shown_in_turns(starts, selection.isolation, check=check, takes=selection.takes, most=most)

    async def mark(self) -> Mark:
        """This moment, for `since` of `records` and `wait_for`. The topic need not exist yet.

        >>> mark = orders.mark()
        >>> _ = orders.produce(b"placed")
        >>> len(orders.records(since=mark))
        1
        """
        offsets = {log.topic_partition.partition: PartitionOffsets.of(log) for log in self._operations.logs(self.name)}
        return Mark(self.name, self._operations.topic_id(self.name), offsets)

    @waits_for_clients
    async def wait_for(
        self,
        wanted: int | Predicate,
        *,
        partition: int | None = None,
        key: bytes | None = None,
        where: Predicate | None = None,
        since: int | Mark | None = None,
        timeout_ms: int = 10_000,
        isolation: Isolation = "committed",
    ) -> list[Record]:
        """Wait for this number of records, or for a record for which a function returns True; return those that are
        meant then, as `records` does, up to the number and a thousand more. Only records count that `records` with the
        same arguments returns.

        The topic need not exist yet. Raises RequestTimedOut, which is an AssertionError as well and lists what is there
        instead, UnknownTopicOrPartition for a partition that the topic does not have, and ValueError for the mark of
        another topic. On the thread of a running event loop, where a client could not write meanwhile, it does not wait
        and raises RuntimeError if the records are not there.

        >>> _ = orders.produce(b'{"state": "placed"}', key=b"42")
        >>> (record,) = orders.wait_for(lambda record: record.json()["state"] == "placed", key=b"42")
        >>> record.offset
        0
        """
        count, predicate = (1, wanted) if callable(wanted) else (wanted, None)
        selection = self.selection(partition, key, [predicate, where], since, isolation)
        reading = Reading(self._operations, self.name, selection, count)
        await reading.arrive(timeout_ms)
        return reading.records()

    def selection(
        self,
        partition: int | None,
        key: bytes | None,
        where: list[Predicate | None],
        since: int | Mark | None,
        isolation: Isolation,
    ) -> RecordSelection:
        """The selection that these arguments are. Raises UnknownTopicOrPartition, and ValueError for the mark of
        another topic."""
        selection = RecordSelection.of(self.name, partition, key, where, since, isolation)
        if partition is not None and self._operations.topic_id(self.name) is not None:
            self._operations.check_partition(self.name, partition)
        return selection

    # --- writing

    async def produce(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Record:
        """Append one record as a producer with acks=all does, and return it with its place. The topic is created if
        `auto.create.topics.enable` allows it.

        Without `partition` the key decides, as in Kafka's own producer (murmur2); a record without a key goes to
        partition 0. Raises UnknownTopicOrPartition, InvalidTopic, LeaderNotAvailable, NotEnoughReplicas,
        RequestTimedOut, and the error of the rule that the record breaks: MessageTooLarge, InvalidRecord,
        InvalidTimestamp.

        >>> record = orders.produce(b"placed", key=b"42", headers={"source": "web"})
        >>> record.partition, record.offset, record.header("source")
        (1, 0, b'web')
        """
        if partition is None:
            self._operations.create_if_allowed(self.name)
            partitions = len(self._operations.known_topic(self.name).partitions)
            partition = 0 if key is None else partition_for_key(key, partitions)
        return await self._operations._append(self.name, value, key, headers, partition, timestamp_ms)

    async def delete_records(self, offset: int = HIGH_WATERMARK, *, partition: int | None = None) -> dict[int, int]:
        """Delete the records before `offset` (-1: the high watermark) of one partition, or of all; return the low
        watermark of each once every live replica has followed (KIP-107).

        Raises UnknownTopicOrPartition, LeaderNotAvailable, OffsetOutOfRange, PolicyViolation on a topic that is only
        compacted, InvalidTopic on an internal topic, RequestTimedOut.

        >>> _ = orders.produce(b"placed")
        >>> orders.delete_records()
        {0: 1, 1: 0, 2: 0}
        """
        count = len(self._operations.known_topic(self.name).partitions)
        chosen = range(count) if partition is None else (partition,)
        delete = self._operations.delete_records
        return {number: await delete(self.name, offset, partition=number) for number in chosen}

    # --- what the broker would do later

    @takes_long
    async def compact(self, partition: int | None = None) -> list[PassReport]:
        """Roll the log of each replica and clean it now, whatever its dirty ratio: up to the last record whose
        transaction is decided and that is older than `min.compaction.lag.ms`. Followers in sync have all records of
        their leader before.

        Returns a report for each pass of a leader: one a partition, and more if `log.cleaner.dedupe.buffer.size` has no
        room for all keys. Raises UnknownTopicOrPartition, LeaderNotAvailable, PolicyViolation unless `cleanup.policy`
        says compact, KafkaStorageError if a partition cannot be cleaned, and RequestTimedOut.

        >>> broker.create_topic("users", config={"cleanup.policy": "compact"})
        >>> users = broker.topic("users")
        >>> for name in (b"alice", b"Alice"):
        ...     _ = users.produce(name, key=b"1")
        >>> _ = users.compact()
        >>> [record.text() for record in users.records()]
        ['Alice']
        """
        partitions = self._partitions(partition)
        if not all(led.log.config.is_compacted for _, led in partitions):
            raise PolicyViolation(f"cleanup.policy of {self.name} is not compact")
        await until_in_step(self._operations, partitions)
        reports = []
        for broker, led in partitions:
            reports += await broker.cleaner.compact(led.topic_partition)
            for other, follower in followers_of(self._operations, led):
                await other.cleaner.compact(follower.topic_partition)
        return reports

    @takes_long
    async def roll(self, partition: int | None = None) -> None:
        """Seal the active segment of each replica if it holds records: retention and compaction may take it from then
        on.

        Raises UnknownTopicOrPartition, LeaderNotAvailable, KafkaStorageError, RequestTimedOut.
        """
        partitions = self._partitions(partition)
        await until_in_step(self._operations, partitions)
        for broker, led in partitions:
            broker.replica_manager.roll(led)
            for other, follower in followers_of(self._operations, led):
                other.replica_manager.roll(follower)

    @takes_long
    async def apply_retention(self, partition: int | None = None) -> None:
        """Apply retention now; followers in sync have deleted the same when this returns. Raises
        UnknownTopicOrPartition, LeaderNotAvailable, KafkaStorageError, RequestTimedOut."""
        partitions = self._partitions(partition)
        for broker, led in partitions:
            await broker.cleaner.until_idle(led.topic_partition)
            broker.replica_manager.retain(led)
        await until_in_step(self._operations, partitions)

    def _partitions(self, partition: int | None) -> list[tuple[BrokerServer, Partition]]:
        return self._operations.leaders_of(self.name, partition)


class _TopicHandle(Handle[TopicOperations]):
    """The methods of `Topic` and `AsyncTopic`."""

    def __init__(self, host: Handle[Operations], name: str) -> None:
        """Raises TypeError for a name that is no text."""
        ARGUMENTS["topic"]("name", name)
        super().__init__(host._thread, lambda: host._operations.part(TopicOperations, name))
        self._called, self._about = f"topic({name!r}).", {"topic": name}
        self._name = name

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self._name

    partitions = method(TopicOperations.partitions)
    offsets = method(TopicOperations.offsets)
    records = method(TopicOperations.records)
    mark = method(TopicOperations.mark)
    wait_for = method(TopicOperations.wait_for)
    produce = method(TopicOperations.produce)
    delete_records = method(TopicOperations.delete_records)
    compact = method(TopicOperations.compact)
    roll = method(TopicOperations.roll)
    apply_retention = method(TopicOperations.apply_retention)

    @checking
    def expect(
        self,
        count: int = 1,
        *,
        partition: int | None = None,
        key: bytes | None = None,
        where: Predicate | None = None,
        timeout_ms: int = 10_000,
        within_ms: int | None = None,
        isolation: Isolation = "committed",
    ) -> Expectation:
        """Expect the code in a `with` or an `async with` block to write exactly `count` records that `records` with the
        same arguments returns. The block gets a list; at its end the records are in it.

        The end of the block waits for the records, at most for `timeout_ms`, and then sees to it that no further one
        arrives for `within_ms`: by default 200 ms with `count=0`, else 0. AssertionError says what came instead, and on
        the thread of a running event loop RuntimeError says to use `async with`. An error inside the block ends it
        without waiting.

        >>> with orders.expect(count=1, key=b"42") as records:
        ...     _ = orders.produce(b"placed", key=b"42")
        >>> records[0].text()
        'placed'
        """
        return Expectation(
            self,
            count,
            partition=partition,
            key=key,
            where=where,
            timeout_ms=timeout_ms,
            within_ms=within_ms,
            isolation=isolation,
        )


class Topic(_TopicHandle, Blocking[TopicOperations]):
    """One topic of a broker or a cluster, which need not exist yet."""


class AsyncTopic(_TopicHandle, Awaiting[TopicOperations]):
    """One topic of a broker or a cluster; see Topic."""

"""One topic of a broker that runs elsewhere: `broker.topic("orders")`, with the methods that the protocol allows."""

from __future__ import annotations

from collections import Counter

from kmini.protocol.records.partitioner import partition_for_key
from kmini.remote.remote_handle import RemoteHandle
from kmini.remote.remote_operations import RemoteOperations
from kmini.remote.remote_records import offsets_of, read
from kmini.testkit.arrivals import KEPT_BEYOND, LOOKED_AT, RecordsMissing, present_records
from kmini.testkit.contents import Isolation, PartitionOffsets, Record
from kmini.testkit.expectation import Expectation
from kmini.testkit.handle import Awaiting, Blocking, checking, method, waits_for_clients
from kmini.testkit.phrases import counted
from kmini.testkit.record_arguments import Headers
from kmini.testkit.selection import Mark, Predicate, Selection
from kmini.testkit.topic_handle import Topic, TopicPartitionState


class RemoteTopicOperations:
    """The operations of one topic: of all its partitions, or of `partition`. Raises UnknownTopicOrPartition."""

    def __init__(self, operations: RemoteOperations, name: str) -> None:
        self._operations = operations
        self.name = name

    async def partitions(self) -> list[TopicPartitionState]:
        """The partitions, each with its leader and its replicas. Raises UnknownTopicOrPartition."""
        await self._operations.partitions(self.name)
        (topic,) = await self._operations.metadata([self.name])
        return [
            TopicPartitionState(one.partition_index, one.leader_id, tuple(one.replica_nodes), tuple(one.isr_nodes))
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        ]

    async def offsets(self) -> dict[int, PartitionOffsets]:
        """The offsets of every partition; the log end offset is given as the high watermark. Raises
        UnknownTopicOrPartition, LeaderNotAvailable."""
        found = await offsets_of(self._operations.client, await self._operations.partitions(self.name))
        return {place.partition: offsets for place, offsets in found.items()}

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

        They are those that a consumer at read_committed gets; with `isolation="uncommitted"` the records of open and
        aborted transactions, too; "all" needs kmini. Raises UnknownTopicOrPartition, LeaderNotAvailable, and ValueError
        for the mark of another topic.
        """
        return await self._read(self._selection(partition, key, [where], since, isolation))

    async def _read(self, selection: Selection, most: int | None = None, *, look: int | None = None) -> list[Record]:
        """The selected records, with `most` only so many, with `look` of so many last offsets of each partition. Raises
        UnknownTopicOrPartition, LeaderNotAvailable."""
        client = self._operations.client
        places = await self._operations.partitions(self.name, selection.partition)
        topic_id = client.cluster.topic_id(self.name)
        starts = {place: selection.start(place.partition, topic_id) for place in places}
        offsets = await offsets_of(client, places)
        if look is not None:
            starts = {place: max(start, offsets[place].high_watermark - look) for place, start in starts.items()}
        return await read(client, offsets, selection.isolation, starts, takes=selection.takes, most=most)

    async def mark(self) -> Mark:
        """This moment, for `since` of `records` and `wait_for`. The topic need not exist yet."""
        if not await self._operations.metadata([self.name]):
            return Mark(self.name, None, {})
        return Mark(self.name, self._operations.client.cluster.topic_id(self.name), await self.offsets())

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
        """
        count, predicate = (1, wanted) if callable(wanted) else (wanted, None)
        selection = self._selection(partition, key, [predicate, where], since, isolation)
        found: list[Record] | None = None

        async def arrived() -> bool:
            nonlocal found
            found = None
            if await self._operations.metadata([self.name]):
                found = await self._read(selection, count + KEPT_BEYOND)
            return len(found or ()) >= count

        if await self._operations.until(arrived, timeout_ms):
            return found or []
        if found is None:
            raise RecordsMissing(f"{await self._operations.no_such_topic(self.name)} (after {timeout_ms} ms)")
        noun = counted(count, "record")
        visible = [] if selection.is_everything else await self._read(Selection(isolation=isolation), look=LOOKED_AT)
        parts = present_records(self.name, selection, found, visible, noun, timeout_ms)
        raise RecordsMissing("; ".join([*parts, *await self._hidden(selection)]))

    async def _hidden(self, selection: Selection) -> list[str]:
        """Describe the selected records that `read_committed` leaves out: "1 more in an open transaction"."""
        if selection.isolation != "committed":
            return []
        everything = await self._read(selection._replace(isolation="uncommitted"), look=LOOKED_AT)
        counts = Counter(record.state for record in everything if record.state != "committed")
        return [f"{count} more in an {state} transaction" for state, count in sorted(counts.items())]

    def _selection(
        self,
        partition: int | None,
        key: bytes | None,
        where: list[Predicate | None],
        since: int | Mark | None,
        isolation: Isolation,
    ) -> Selection:
        self._operations.check_isolation(isolation)
        return Selection.of(self.name, partition, key, where, since, isolation)

    async def produce(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Record:
        """Append one record as a producer with acks=all does, and return it with its place. The topic is created if the
        broker allows it.

        Without `partition` the key decides, as in Kafka's own producer (murmur2); a record without a key goes to
        partition 0. Raises UnknownTopicOrPartition, InvalidTopic, LeaderNotAvailable, NotEnoughReplicas,
        RequestTimedOut, and the error of the rule that the record breaks: MessageTooLarge, InvalidRecord,
        InvalidTimestamp.
        """
        await self._operations.create_if_allowed(self.name)
        if partition is None:
            count = len(await self._operations.partitions(self.name))
            partition = 0 if key is None else partition_for_key(key, count)
        return await self._operations.append(self.name, value, key, headers, partition, timestamp_ms)

    async def delete_records(self, offset: int = -1, *, partition: int | None = None) -> dict[int, int]:
        """Delete the records before `offset` (-1: the high watermark) of one partition, or of all; return the low
        watermark of each once every live replica has followed (KIP-107).

        Raises UnknownTopicOrPartition, LeaderNotAvailable, OffsetOutOfRange, PolicyViolation on a topic that is only
        compacted, InvalidTopic on an internal topic, RequestTimedOut.
        """
        places = await self._operations.partitions(self.name, partition)
        delete = self._operations.delete_records
        return {place.partition: await delete(self.name, offset, partition=place.partition) for place in places}


class _RemoteTopicHandle(RemoteHandle[RemoteTopicOperations]):
    """The methods of `RemoteTopic` and `AsyncRemoteTopic`."""

    _kind = "topic"
    _local = Topic
    _operations_of = RemoteTopicOperations

    partitions = method(RemoteTopicOperations.partitions)
    offsets = method(RemoteTopicOperations.offsets)
    records = method(RemoteTopicOperations.records)
    mark = method(RemoteTopicOperations.mark)
    wait_for = method(RemoteTopicOperations.wait_for)
    produce = method(RemoteTopicOperations.produce)
    delete_records = method(RemoteTopicOperations.delete_records)

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
        """Expect the code in a `with` or an `async with` block to write exactly `count` records, as `Topic.expect`
        does."""
        return Expectation(
            self,  # type: ignore[arg-type]  # it needs `mark` and `wait_for` of the operations
            count,
            partition=partition,
            key=key,
            where=where,
            timeout_ms=timeout_ms,
            within_ms=within_ms,
            isolation=isolation,
        )


class RemoteTopic(_RemoteTopicHandle, Blocking[RemoteTopicOperations]):
    """One topic of a broker that runs elsewhere, which need not exist yet."""


class AsyncRemoteTopic(_RemoteTopicHandle, Awaiting[RemoteTopicOperations]):
    """One topic of a broker that runs elsewhere; see RemoteTopic."""

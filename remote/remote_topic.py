"""One topic of a broker that runs elsewhere: `broker.topic("orders")`, with the methods that the protocol allows."""

from __future__ import annotations

from collections import Counter

from kmini.protocol.records.partitioner import partition_for_key
from kmini.remote.needs_kmini import RefusingTable
from kmini.remote.remote_operations import RemoteOperations
from kmini.remote.remote_records import offsets_of, read
from kmini.testkit.arrivals import KEPT_BEYOND, LOOKED_AT, RecordsMissing, present_records
from kmini.testkit.contents import Isolation, PartitionOffsets, Record
from kmini.testkit.phrases import counted
from kmini.testkit.record_arguments import Headers
from kmini.testkit.record_selection import Mark, Predicate, RecordSelection
from kmini.testkit.topic_handle import TopicOperations, TopicPartitionState


class RemoteTopicOperations(RefusingTable):
    """The operations of one topic that the protocol allows."""

    _local = TopicOperations
    _called = "topic."

    def __init__(self, operations: RemoteOperations, name: str) -> None:
        self._operations = operations
        self.refuse = operations.refuse
        self.name = name

    async def partitions(self) -> list[TopicPartitionState]:
        """See `TopicOperations.partitions`."""
        await self._operations.partitions(self.name)
        (topic,) = await self._operations.metadata([self.name])
        return [
            TopicPartitionState(one.partition_index, one.leader_id, tuple(one.replica_nodes), tuple(one.isr_nodes))
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        ]

    async def offsets(self) -> dict[int, PartitionOffsets]:
        """See `TopicOperations.offsets`. The log end offset is given as the high watermark."""
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
        """See `TopicOperations.records`. `isolation="all"` needs kmini."""
        return await self._read(self._selection(partition, key, [where], since, isolation))

    async def _read(
        self, selection: RecordSelection, most: int | None = None, *, look: int | None = None
    ) -> list[Record]:
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
        """See `TopicOperations.mark`."""
        if not await self._operations.metadata([self.name]):
            return Mark(self.name, None, {})
        return Mark(self.name, self._operations.client.cluster.topic_id(self.name), await self.offsets())

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
        """See `TopicOperations.wait_for`."""
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
        visible = (
            [] if selection.is_everything else await self._read(RecordSelection(isolation=isolation), look=LOOKED_AT)
        )
        parts = present_records(self.name, selection, found, visible, noun, timeout_ms)
        raise RecordsMissing("; ".join([*parts, *await self._hidden(selection)]))

    async def _hidden(self, selection: RecordSelection) -> list[str]:
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
    ) -> RecordSelection:
        self._operations.check_isolation(isolation)
        return RecordSelection.of(self.name, partition, key, where, since, isolation)

    async def produce(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Record:
        """See `TopicOperations.produce`."""
        await self._operations.create_if_allowed(self.name)
        if partition is None:
            count = len(await self._operations.partitions(self.name))
            partition = 0 if key is None else partition_for_key(key, count)
        return await self._operations.append(self.name, value, key, headers, partition, timestamp_ms)

    async def delete_records(self, offset: int = -1, *, partition: int | None = None) -> dict[int, int]:
        """See `TopicOperations.delete_records`."""
        places = await self._operations.partitions(self.name, partition)
        delete = self._operations.delete_records
        return {place.partition: await delete(self.name, offset, partition=place.partition) for place in places}

"""Reading records of a topic through Kafka's protocol, with the state that transactions give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import aclosing

from kmini.client import Client
from kmini.contents import Isolation, PartitionOffsets, Record, RecordState
from kmini.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from kmini.protocol.topics import TopicPartition


async def offsets_of(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
    """The offsets of partitions. The log end offset, which no request tells, is given as the high watermark."""
    beginning = await client.beginning(partitions)
    stable = await client.end(partitions, isolation_level=READ_COMMITTED)
    end = await client.end(partitions)
    return {each: PartitionOffsets(beginning[each], end[each], end[each], stable[each]) for each in partitions}


async def read(
    client: Client,
    offsets: Mapping[TopicPartition, PartitionOffsets],
    isolation: Isolation,
    starts: Mapping[TopicPartition, int] | None = None,
) -> list[Record]:
    """Read the records of partitions, in the order of partition and offset: from `starts`, or the log start offsets, up
    to the ends in `offsets`."""
    begin = {
        partition: max(found.log_start_offset, (starts or {}).get(partition, 0)) for partition, found in offsets.items()
    }
    committed = await _consume(
        client, begin, {partition: found.last_stable_offset for partition, found in offsets.items()}, READ_COMMITTED
    )
    if isolation == "committed":
        return [record._replace(state="committed") for record in committed]
    known = {(record.partition, record.offset) for record in committed}
    ends = {partition: found.high_watermark for partition, found in offsets.items()}

    def state_of(record: Record) -> RecordState:
        if (record.partition, record.offset) in known:
            return "committed"
        stable = offsets[TopicPartition(record.topic, record.partition)].last_stable_offset
        return "open" if record.offset >= stable else "aborted"

    found = await _consume(client, begin, ends, READ_UNCOMMITTED)
    return [record._replace(state=state_of(record)) for record in found]


async def _consume(
    client: Client, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], isolation_level: int
) -> list[Record]:
    positions = {partition: offset for partition, offset in begin.items() if offset < end[partition]}
    if not positions:
        return []
    until = {partition: end[partition] for partition in positions}
    found = []
    async with aclosing(client.consume(positions, until=until, isolation_level=isolation_level)) as records:
        async for topic, partition, offset, timestamp, key, value, headers in records:
            found.append(Record(offset, timestamp, key, value, tuple(headers), topic, partition))
    return sorted(found, key=lambda record: (record.partition, record.offset))

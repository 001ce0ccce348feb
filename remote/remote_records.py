"""Reading records of a topic through Kafka's protocol, with the state that transactions give them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing

from kmini.client import Client
from kmini.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from kmini.protocol.topics import TopicPartition
from kmini.testkit.contents import Isolation, PartitionOffsets, Record, RecordState


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
    *,
    takes: Callable[[Record], bool] = lambda record: True,
    most: int | None = None,
) -> list[Record]:
    """Read the records of partitions that `takes` takes, in the order of partition and offset: from `starts`, or the
    log start offsets, up to the ends in `offsets`. With `most`, reading ends after so many."""
    begin = {
        partition: max(found.log_start_offset, (starts or {}).get(partition, 0)) for partition, found in offsets.items()
    }
    stable = {partition: found.last_stable_offset for partition, found in offsets.items()}
    if isolation == "committed":
        committed = await _consume(client, begin, stable, READ_COMMITTED, takes, most)
        return [record._replace(state="committed") for record in committed]
    ends = {partition: found.high_watermark for partition, found in offsets.items()}
    found = await _consume(client, begin, ends, READ_UNCOMMITTED, takes, most)
    last = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in found}
    stable = {partition: min(end, last.get(partition, 0)) for partition, end in stable.items()}
    known: set[tuple[int, int]] = set()

    def note(record: Record) -> bool:
        known.add((record.partition, record.offset))
        return False

    await _consume(client, begin, stable, READ_COMMITTED, note, None)

    def state_of(record: Record) -> RecordState:
        if (record.partition, record.offset) in known:
            return "committed"
        end = offsets[TopicPartition(record.topic, record.partition)].last_stable_offset
        return "open" if record.offset >= end else "aborted"

    return [record._replace(state=state_of(record)) for record in found]


async def _consume(
    client: Client,
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    isolation_level: int,
    takes: Callable[[Record], bool],
    most: int | None,
) -> list[Record]:
    positions = {partition: offset for partition, offset in begin.items() if offset < end[partition]}
    if not positions:
        return []
    until = {partition: end[partition] for partition in positions}
    found = []
    async with aclosing(client.consume(positions, until=until, isolation_level=isolation_level)) as records:
        async for topic, partition, offset, timestamp, key, value, headers in records:
            record = Record(offset, timestamp, key, value, tuple(headers), topic, partition)
            if takes(record):
                found.append(record)
                if most is not None and len(found) >= most:
                    break
    return sorted(found, key=lambda record: (record.partition, record.offset))

"""What waits for a group without members: records behind its committed offsets, or only the markers that end
transactions and the records of aborted ones, which no consumer gets.
"""

from __future__ import annotations

from asyncio import gather
from collections.abc import Mapping, Sequence

from kmini.client.consume import AbortedBatches
from kmini.doctor.asking import Brokers
from kmini.protocol.messages.fetch import READ_COMMITTED, FetchRequest, FetchResponse
from kmini.protocol.records.batch import iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.topics import TopicPartition
from kmini.testkit.report.facts import GroupFacts, PartitionFacts

MOST_OFFSETS = 1_000
"""Offsets behind a committed one that are read, to see whether they have records: of more, some have."""

MOST_BYTES = 1024 * 1024
"""Bytes of a partition that are read for that."""

LAST_VERSION_WITH_NAMES = 12
"""Of Fetch: later ones name topics by their ids."""


async def waiting_records(
    brokers: Brokers,
    groups: Sequence[GroupFacts],
    partitions: Mapping[TopicPartition, PartitionFacts],
    leaders: Mapping[TopicPartition, int],
) -> dict[tuple[TopicPartition, int], int]:
    """The numbers of records behind the committed offsets of groups without members, as far as they can be told."""
    places = {
        (place, offset)
        for group in groups
        if not group.description.members
        for place, offset in group.offsets.items()
        if place in leaders
        and place in partitions
        and offset >= partitions[place].log_start_offset
        and 0 < partitions[place].high_watermark - offset <= MOST_OFFSETS
    }
    listed = sorted(places)
    counts = await gather(
        *(_count(brokers, leaders[place], place, offset, partitions[place].high_watermark) for place, offset in listed)
    )
    return {each: count for each, count in zip(listed, counts, strict=True) if count is not None}


async def _count(brokers: Brokers, leader: int, place: TopicPartition, offset: int, end: int) -> int | None:
    """How many records a consumer at read_committed gets from an offset to the end; None if that is not known."""
    partition = FetchRequest.Partition(partition=place.partition, fetch_offset=offset, partition_max_bytes=MOST_BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=MOST_BYTES,
        isolation_level=READ_COMMITTED,
        topics=[FetchRequest.Topic(topic=place.topic, partitions=[partition])],
    )
    answer: FetchResponse | None = await brokers.ask(
        leader, request, "records behind committed offsets", highest=LAST_VERSION_WITH_NAMES
    )
    found = [one for topic in answer.responses for one in topic.partitions] if answer is not None else []
    if not found or found[0].error_code or found[0].records is None:
        return None  # this user may not read, perhaps
    aborted = AbortedBatches([(one.producer_id, one.first_offset) for one in found[0].aborted_transactions or ()])
    count, read_to = 0, offset
    for position, header in iter_batches(found[0].records):
        read_to = header.next_offset
        if not aborted.has(found[0].records, position, header) and not header.is_control:
            count += sum(offset <= one.offset < end for one in decode_records(found[0].records, position, header))
    return count if read_to >= end else None

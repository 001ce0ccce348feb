"""Partitions as the metadata has them, with the first and last offsets of each; and their log directories."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kmini.client.errors import error_of
from kmini.doctor.asking import Brokers
from kmini.doctor.findings import Finding
from kmini.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kmini.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from kmini.protocol.messages.list_offsets import EARLIEST, LATEST, ListOffsetsRequest, ListOffsetsResponse
from kmini.protocol.messages.metadata import MetadataResponse
from kmini.protocol.topics import TopicPartition
from kmini.testkit.report.facts import PartitionFacts

AT_A_TIME = 2_000
"""Partitions in a request."""


class PartitionState(NamedTuple):
    """A partition, as the metadata has it."""

    place: TopicPartition
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


def states_of(metadata: MetadataResponse) -> list[PartitionState]:
    """All partitions in an answer, by topic and number."""
    return sorted(
        PartitionState(
            TopicPartition(topic.name or "", one.partition_index),
            one.leader_id,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
        )
        for topic in metadata.topics
        for one in topic.partitions
    )


async def log_dirs(brokers: Brokers) -> list[Finding]:
    """Log directories that have failed."""

    async def at(node_id: int) -> list[Finding]:
        response: DescribeLogDirsResponse | None = await brokers.ask(
            node_id, DescribeLogDirsRequest(topics=[]), "log directories"
        )
        if response is None:
            return []
        error = error_of(response.error_code)
        if error is not None:
            brokers.refused(error, "log directories", f"broker {node_id}")
        return [
            Finding(
                "log-dir-offline",
                f"log directory {result.log_dir} of broker {node_id} is offline: its replicas are not served",
                "look at the disk and at the log of the broker, and restart it once the disk is well",
            )
            for result in response.results
            if result.error_code
        ]

    return [one for found in await asyncio.gather(*map(at, brokers.routes)) for one in found]


async def offsets_of(brokers: Brokers, states: Sequence[PartitionState]) -> dict[TopicPartition, PartitionFacts]:
    """The offsets of partitions whose leaders can be asked. Records are counted by offsets, so markers count.

    The last stable offset is asked for last: it is behind only where a transaction is open, even if producers go on.
    """
    starts = await _list_offsets(brokers, states, EARLIEST)
    ends = await _list_offsets(brokers, states, LATEST)
    stable = await _list_offsets(brokers, states, LATEST, READ_COMMITTED)
    found = {}
    for place, start in starts.items():
        if place in stable and place in ends:
            end = max(ends[place], start)
            last_stable = min(stable[place], end)
            found[place] = PartitionFacts(
                place.partition, start, last_stable, end, max(last_stable - start, 0), end - last_stable, None
            )
    return found


async def _list_offsets(
    brokers: Brokers, states: Sequence[PartitionState], landmark: int, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for state in states:
        if state.leader in brokers.routes:
            by_leader[state.leader].append(state.place)
    found: dict[TopicPartition, int] = {}

    async def at(node_id: int, places: Sequence[TopicPartition]) -> None:
        for begin in range(0, len(places), AT_A_TIME):
            by_topic: defaultdict[str, list[ListOffsetsRequest.Topic.Partition]] = defaultdict(list)
            for place in places[begin : begin + AT_A_TIME]:
                by_topic[place.topic].append(
                    ListOffsetsRequest.Topic.Partition(partition_index=place.partition, timestamp=landmark)
                )
            topics = [ListOffsetsRequest.Topic(name=name, partitions=ones) for name, ones in by_topic.items()]
            request = ListOffsetsRequest(
                isolation_level=isolation_level, topics=topics, timeout_ms=int(brokers.timeout_ms)
            )
            response: ListOffsetsResponse | None = await brokers.ask(node_id, request, "offsets")
            for topic in response.topics if response is not None else ():
                for one in topic.partitions:
                    error = error_of(one.error_code)
                    if error is not None:
                        brokers.refused(error, "offsets", f"topic {topic.name!r}")
                    else:
                        found[TopicPartition(topic.name, one.partition_index)] = one.offset

    await asyncio.gather(*(at(node_id, places) for node_id, places in by_leader.items()))
    return found

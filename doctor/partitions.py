"""Partitions: leaders, replicas in sync, log directories; and the first and last offsets of each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kmini.client.errors import error_of
from kmini.doctor.asking import Brokers
from kmini.doctor.findings import Finding
from kmini.doctor.settings import TopicSettings
from kmini.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kmini.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from kmini.protocol.messages.list_offsets import EARLIEST, LATEST, ListOffsetsRequest, ListOffsetsResponse
from kmini.protocol.messages.metadata import MetadataResponse
from kmini.protocol.topics import TopicPartition
from kmini.testkit.phrases import counted
from kmini.testkit.report.facts import PartitionFacts

SHOWN = 3
"""Most partitions of a finding that are named."""
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


def replication(
    states: Sequence[PartitionState], topics: Mapping[str, TopicSettings], live: Sequence[int]
) -> Iterator[Finding]:
    """What is the matter with leaders and replicas. A partition is told once, for the worst."""
    kinds: defaultdict[str, list[str]] = defaultdict(list)
    missing: defaultdict[str, set[int]] = defaultdict(set)
    for state in states:
        settings = topics.get(state.place.topic)
        value = settings.values.get("min.insync.replicas", "1") if settings is not None else "1"
        least = int(value) if value.isdigit() else 1
        in_sync = f"{state.place} ({len(state.in_sync)} of {len(state.replicas)} replicas in sync"
        if state.leader < 0:
            kind, text = "leaderless", f"{state.place} (replicas {', '.join(map(str, state.replicas))})"
        elif len(state.replicas) < least:
            kind, text = "too-few-replicas", f"{state.place} (replication factor {len(state.replicas)}, {least} wanted)"
        elif len(state.in_sync) < least:
            kind, text = "under-min-isr", f"{in_sync}, {least} wanted)"
        elif len(state.in_sync) < len(state.replicas):
            kind, text = "under-replicated", f"{in_sync})"
        else:
            continue
        kinds[kind].append(text)
        missing[kind] |= {*state.replicas} - ({*live} if state.leader < 0 else {*state.in_sync})
    for kind, found in kinds.items():
        effect, change = _EFFECTS[kind]
        lost = ", ".join(map(str, sorted(missing[kind])))
        yield Finding(kind, f"{_listed(found)}: {effect}", change.format(lost=lost or "those of the replicas"))
    if not kinds and states:
        names = {state.place.topic for state in states}
        text = f"{counted(len(states), 'partition')} of {counted(len(names), 'topic')}: each has a leader, and all its"
        yield Finding("replicas-in-sync", f"{text} replicas are in sync")


_EFFECTS = {
    "leaderless": (
        "no leader, so nothing can be read or written there (LEADER_NOT_AVAILABLE)",
        "start the brokers that are missing: {lost}; if their data are lost, elect another replica "
        "(kafka-leader-election --election-type unclean)",
    ),
    "too-few-replicas": (
        "a smaller replication factor than min.insync.replicas, so acks=all can never succeed (NOT_ENOUGH_REPLICAS)",
        "lower min.insync.replicas of the topic (kmini topic alter NAME -c min.insync.replicas=1 -b HOST:PORT), or add "
        "replicas (kafka-reassign-partitions)",
    ),
    "under-min-isr": (
        "fewer replicas in sync than min.insync.replicas, so acks=all fails at present (NOT_ENOUGH_REPLICAS)",
        "look at the brokers of the other replicas: {lost}",
    ),
    "under-replicated": (
        "replicas are behind or down; one more failure may stop producers, or lose records",
        "look at the brokers of the other replicas: {lost}",
    ),
}


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


def _listed(found: Sequence[str]) -> str:
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"{', '.join(found[:SHOWN])}{more}"

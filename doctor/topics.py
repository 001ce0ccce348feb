"""Topics: probably misspelt ones, and those that retention has emptied; and what the clock of the brokers shows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kmini.doctor.asking import Brokers
from kmini.doctor.findings import Finding, command
from kmini.doctor.settings import TopicSettings
from kmini.protocol.messages.list_offsets import MAX_TIMESTAMP, ListOffsetsRequest, ListOffsetsResponse
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition, is_internal
from kmini.testkit.report.diagnoses import older_than_retention, wrong_topics
from kmini.testkit.report.facts import Facts, PartitionFacts, TopicFacts, duration

STAMPED = (CONSUMER_OFFSETS, TRANSACTION_STATE)
MOST_COMPARED = 500
"""Topics whose names are compared with each other, at most: every empty one with every other."""
CLOCK_TOLERANCE_MS = 2_000
"""A clock that differs by less is right."""
FIRST_WITH_MAX_TIMESTAMP = 7
"""The version of ListOffsets that finds the largest timestamp of a partition (KIP-734)."""


def topic_facts(
    partitions: Mapping[TopicPartition, PartitionFacts], counts: Mapping[str, int]
) -> tuple[TopicFacts, ...]:
    """All topics, with the partitions whose offsets are known; `counts` has their numbers of partitions."""
    by_topic: defaultdict[str, list[PartitionFacts]] = defaultdict(list)
    for place, one in partitions.items():
        by_topic[place.topic].append(one)
    return tuple(TopicFacts(name, count, tuple(by_topic[name])) for name, count in counts.items())


def odd_topics(facts: Facts) -> Iterator[Finding]:
    """Topics that are likely misspelt, and those that have been emptied."""
    complete = [
        one for one in facts.topics if len(one.partitions) == one.partition_count > 0 and not is_internal(one.name)
    ]
    if len(complete) > MOST_COMPARED:
        text = f"there are {len(complete)} topics: the names of the first {MOST_COMPARED} were compared with each other"
        yield Finding("topics-sampled", text)
    for sentence in wrong_topics(facts._replace(topics=tuple(complete[:MOST_COMPARED]), requests=())):
        yield Finding(
            "misspelt-topic",
            sentence,
            "correct the name where it is wrong, delete the other topic (kmini topic delete NAME -b HOST:PORT), and "
            "think of auto.create.topics.enable=false",
        )
    for topic in complete:
        emptied = older_than_retention(facts._replace(topics=(topic,), requests=()))
        if emptied is not None:
            yield Finding(
                "topic-emptied", emptied, f"its settings: {command('config', 'describe', 'topic', topic.name)}"
            )


def is_stamped(name: str, of_topics: Mapping[str, TopicSettings]) -> bool:
    """Whether the timestamps of a topic are the broker's: those of coordinators, and of LogAppendTime."""
    settings = of_topics.get(name)
    return name in STAMPED or (
        settings is not None and settings.values.get("message.timestamp.type") == "LogAppendTime"
    )


async def clock(brokers: Brokers, stamped: Sequence[TopicPartition], leaders: Mapping[TopicPartition, int]) -> Finding:
    """The clock of the brokers, as far as the largest timestamp that they have given themselves shows it. That is a
    lower bound, so a clock that is behind stays unknown."""
    unknown = Finding(
        "clock-unknown",
        "nothing that a broker has stamped is ahead of this machine; no request tells its time, so whether its clock "
        "is behind is unknown",
    )
    latest = -1
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for place in stamped:
        by_leader[leaders[place]].append(place)
    for node_id, places in by_leader.items():
        if await brokers.highest(node_id, ListOffsetsRequest) < FIRST_WITH_MAX_TIMESTAMP:
            continue
        topics = [
            ListOffsetsRequest.Topic(
                name=place.topic,
                partitions=[
                    ListOffsetsRequest.Topic.Partition(partition_index=place.partition, timestamp=MAX_TIMESTAMP)
                ],
            )
            for place in places
        ]
        response: ListOffsetsResponse | None = await brokers.ask(node_id, ListOffsetsRequest(topics=topics), "clock")
        for topic in response.topics if response is not None else ():
            latest = max(latest, *(one.timestamp for one in topic.partitions if not one.error_code), -1)
    ahead_ms = latest - time.time_ns() // 1_000_000
    if ahead_ms <= CLOCK_TOLERANCE_MS:
        return unknown
    return Finding(
        "clock-ahead",
        f"the clock of a broker is ahead of this machine by {duration(ahead_ms)} or more: records that are stamped "
        "here are as much older there, which retention and time-outs of transactions count",
        "set both clocks right (NTP); a kmini broker whose clock a test has moved goes back with reset()",
    )

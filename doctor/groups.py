"""Consumer groups: those that are stuck, and why; and the facts of each, for the diagnoses that all reports share
(`testkit/report/group_diagnoses.py`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from kmini.client.errors import error_of
from kmini.client.groups import LAST_VERSION_WITH_NAMES
from kmini.doctor.asking import Brokers
from kmini.doctor.described_groups import AT_A_TIME, Listed, by_coordinator, describe
from kmini.doctor.findings import Finding, command
from kmini.protocol.errors import InvalidTopic, UnknownTopicOrPartition
from kmini.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kmini.protocol.topics import TopicPartition
from kmini.testkit.descriptions import GroupDescription
from kmini.testkit.phrases import counted
from kmini.testkit.report.diagnoses import topic_does_not_exist
from kmini.testkit.report.facts import Facts, GroupFacts, PartitionFacts
from kmini.testkit.report.group_diagnoses import more_members_than_partitions, never_assigned, partitions_not_given_up

MOST_GROUPS = 1_000
"""Groups that are examined, at most: the first by name."""
REBALANCING = {
    "PreparingRebalance": "It waits for a member that does not join again",
    "CompletingRebalance": "It waits for the assignment, which the leader among its members makes",
    "Assigning": "It waits for a heartbeat, with which the coordinator computes the assignment",
    "Reconciling": "It waits for members that do not give up their partitions, or do not take them over",
}
"""The states of a group that rebalances, and what it waits for."""
SHARE = "share"
"""The type of groups without committed offsets."""
AGAIN_S = 0.5
"""Seconds between two looks at groups that rebalance."""


async def list_groups(brokers: Brokers) -> list[Listed]:
    """All groups, by name, as their coordinators list them."""

    async def at(node_id: int) -> list[Listed]:
        response: ListGroupsResponse | None = await brokers.ask(node_id, ListGroupsRequest(), "groups")
        if response is None:
            return []
        error = error_of(response.error_code)
        if error is not None:
            brokers.refused(error, "groups", f"broker {node_id}")
        return [Listed(one.group_id, node_id, one.group_type, one.group_state) for one in response.groups]

    return sorted(one for found in await asyncio.gather(*map(at, [*brokers.routes])) for one in found)


async def gather_groups(brokers: Brokers, listed: Sequence[Listed]) -> list[GroupFacts]:
    """The facts of groups of consumers, classic and of KIP-848."""
    described = await describe(brokers, listed)
    offsets = await _committed(brokers, [one for one in listed if one.type.lower() != SHARE])
    facts = [GroupFacts(one, offsets.get(one.group, {})) for one in described.values()]
    others = [one for one in listed if not one.is_described]
    empty = [
        GroupFacts(GroupDescription(one.name, one.type, one.state, -1, None, (), one.node_id), offsets[one.name])
        for one in others
        if one.state == "Empty" and one.name in offsets
    ]
    return sorted([*facts, *empty], key=lambda one: one.description.group)


async def unseen_topics(
    brokers: Brokers, node_id: int, groups: Sequence[GroupFacts], known: Collection[str]
) -> list[str]:
    """The topics that members subscribe to and that are not among the known ones, but exist: made meanwhile, or hidden
    from this user."""
    wanted = {topic for group in groups for member in group.description.members for topic in member.topics}
    missing = sorted(wanted.difference(known))[:MOST_GROUPS]
    if not missing:
        return []
    request = MetadataRequest(
        topics=[MetadataRequest.Topic(name=name) for name in missing], allow_auto_topic_creation=False
    )
    response: MetadataResponse | None = await brokers.ask(node_id, request, "topics of groups")
    unseen = []
    for topic in response.topics if response is not None else ():
        error = error_of(topic.error_code)
        if topic.name is not None and not isinstance(error, (UnknownTopicOrPartition, InvalidTopic)):
            unseen.append(topic.name)
            if error is not None:
                brokers.refused(error, "partitions", f"topic {topic.name!r}")
    return missing if response is None else unseen


async def still_rebalancing(
    brokers: Brokers, groups: Sequence[GroupFacts], listed: Sequence[Listed]
) -> dict[str, float]:
    """The groups that rebalance, and go on with it for the time of a question: the seconds for which they were seen."""
    left = {one.description.group for one in groups if one.description.state in REBALANCING}
    began = time.monotonic()
    while left and time.monotonic() - began < brokers.timeout_ms / 1_000:
        await asyncio.sleep(AGAIN_S)
        described = await describe(brokers, [one for one in listed if one.name in left])
        left = {name for name in left if name in described and described[name].state in REBALANCING}
    return dict.fromkeys(left, time.monotonic() - began)


async def _committed(brokers: Brokers, listed: Sequence[Listed]) -> dict[str, dict[TopicPartition, int]]:
    found: dict[str, dict[TopicPartition, int]] = {}

    async def at(node_id: int, names: Sequence[str]) -> None:
        size = AT_A_TIME if await brokers.highest(node_id, OffsetFetchRequest) >= 8 else 1
        for begin in range(0, len(names), size):
            some = names[begin : begin + size]
            request = OffsetFetchRequest(
                group_id=some[0],
                topics=None,
                groups=[OffsetFetchRequest.Group(group_id=name, topics=None) for name in some],
            )
            response: OffsetFetchResponse | None = await brokers.ask(
                node_id, request, "committed offsets", highest=LAST_VERSION_WITH_NAMES
            )
            if response is None:
                return
            answers = {one.group_id: (one.error_code, _offsets(one.topics)) for one in response.groups}
            if not answers:  # below version 8
                answers[some[0]] = (response.error_code, _offsets(response.topics))
            for name, (code, offsets) in answers.items():
                error = error_of(code)
                if error is not None:
                    brokers.refused(error, "committed offsets", f"group {name!r}")
                else:
                    found[name] = offsets

    await asyncio.gather(*(at(node_id, names) for node_id, names in by_coordinator(listed).items()))
    return found


def _offsets(
    topics: Sequence[OffsetFetchResponse.Topic] | Sequence[OffsetFetchResponse.Group.Topic],
) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, one.partition_index): one.committed_offset
        for topic in topics
        for one in topic.partitions
        if one.committed_offset >= 0 and not one.error_code
    }


def counted_groups(listed: Sequence[Listed]) -> Iterator[Finding]:
    """How many groups there are, and those whose members cannot be asked for."""
    yield Finding("groups-examined", f"{counted(len(listed), 'group')} examined")
    others = [one.name for one in listed if not one.is_described]
    if others:
        text = (
            f"{counted(len(others), 'group')} of another protocol, as {others[0]!r}: only states and offsets are asked"
        )
        yield Finding("groups-not-described", text)


def stuck_groups(
    facts: Facts,
    partitions: Mapping[TopicPartition, PartitionFacts],
    rebalancing: Mapping[str, float],
    waiting: Mapping[tuple[TopicPartition, int], int],
) -> Iterator[Finding]:
    """Groups that read nothing, or will miss records, and why. `waiting` has the numbers of records behind committed
    offsets that are known; of others, offsets are counted."""
    for group in facts.groups:
        alone = facts._replace(groups=(group,), requests=(), waits=())
        name = group.description.group
        if name in rebalancing:
            text = partitions_not_given_up(alone) or never_assigned(alone)
            text = text or f"group {name} is {group.description.state}"
            yield Finding(
                "group-rebalancing",
                f"{text}; seen for {rebalancing[name]:.0f} s. {REBALANCING[group.description.state]}",
                f"find the member that is stuck: {command('group', 'describe', name, '--members')}",
            )
        for finding, sentence, change in (
            (
                "group-on-missing-topic",
                topic_does_not_exist(alone),
                "correct the topic of the consumer, or create it: kmini topic create NAME -b HOST:PORT",
            ),
            (
                "group-has-idle-members",
                more_members_than_partitions(alone),
                "give the topic more partitions (kmini topic alter NAME -p N -b HOST:PORT), or run fewer consumers",
            ),
        ):
            if sentence is not None:
                yield Finding(finding, sentence, change)
        yield from _positions(group, partitions, waiting)


def _positions(
    group: GroupFacts,
    partitions: Mapping[TopicPartition, PartitionFacts],
    waiting: Mapping[tuple[TopicPartition, int], int],
) -> Iterator[Finding]:
    """What is found of the committed offsets of a group beside the logs."""
    name, is_idle = group.description.group, not group.description.members
    known = [(place, offset, partitions[place]) for place, offset in group.offsets.items() if place in partitions]
    gone = [(place, offset, log) for place, offset, log in known if offset < log.log_start_offset]
    beyond = [(place, offset, log) for place, offset, log in known if offset > log.high_watermark]
    for place, offset, log in gone[:1]:
        yield Finding(
            "committed-offset-deleted",
            f"group {name} is at {place}@{offset}{_others(len(gone))}, and the log begins at {log.log_start_offset}: "
            f"{counted(log.log_start_offset - offset, 'record')} went before they were read (retention or "
            "DeleteRecords). auto.offset.reset of its consumers says where they go on",
            f"raise retention.ms of {place.topic}; to set the group: {_reset(name, place)}",
        )
    for place, offset, log in beyond[:1]:
        yield Finding(
            "committed-offset-beyond-end",
            f"group {name} is at {place}@{offset}{_others(len(beyond))}, and the log ends at {log.high_watermark}: the "
            "topic was made anew, or its records were lost. auto.offset.reset of its consumers says where they go on",
            _reset(name, place),
        )
    lags = {
        (place, offset): max(log.high_watermark - max(offset, log.log_start_offset), 0) for place, offset, log in known
    }
    lag = sum(waiting.get(each, offsets) for each, offsets in lags.items())
    if is_idle and lag:
        topics = ", ".join(dict.fromkeys(place.topic for place, _, _ in known))
        is_sure = all(each in waiting for each, offsets in lags.items() if offsets)
        doubt = "" if is_sure else " (by offsets: markers that end transactions are among them, if there are any)"
        yield Finding(
            "group-without-members",
            f"group {name} has no members, and {counted(lag, 'record')} of {topics} wait for it{doubt}",
            f"start its consumers; or delete the group if they are gone for good: {command('group', 'delete', name)}",
        )
    elif is_idle and known and not (gone or beyond) and any(log.high_watermark for _, _, log in known):
        place, offset, _ = next(one for one in known if one[2].high_watermark)
        yield Finding(
            "group-at-the-end",
            f"group {name} has no members, and has committed {place}@{offset}{_others(len(known))}, which is the end: "
            "a consumer of it sees nothing until something new is written",
            f"to read again, use another group, or set this one back: {_reset(name, place)}",
        )


def _reset(group: str, place: TopicPartition) -> str:
    return f"{command('group', 'reset', group, place.topic, '--to-earliest')} (--execute does it)"


def _others(count: int) -> str:
    return f" (and in {counted(count - 1, 'other partition')})" if count > 1 else ""

"""What commonly goes wrong with consumer groups, each as a function of the facts: a part of the list of diagnoses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kmini.descriptions import at_generation
from kmini.phrases import counted, nearest
from kmini.report.facts import Facts, GroupFacts, client_of, moved_by

if TYPE_CHECKING:
    from kmini.broker.groups.group import Departure
    from kmini.broker.journal.entries import JournalEntry

LATEST = -1
"""The timestamp with which ListOffsets asks for the end of a partition."""

POLL_TIMEOUT = "poll timeout"
"""A part of the reason that Java's consumer gives when it leaves because it was not polled (KIP-800)."""

NEARLY = 0.98
"""The part of a time-out that has passed when it is taken to have passed: clients and broker measure from other
moments."""


def leftover_member(facts: Facts) -> str | None:
    """A member joins, and the group waits for another one that does not."""
    for group in facts.groups:
        described = group.description
        joining = [
            entry for entry in facts.asked("JoinGroup") if entry.is_in_service and described.group in entry.groups
        ]
        if not joining or described.state != "PreparingRebalance":
            continue
        clients = {entry.client_id for entry in joining}
        others = [member for member in described.members if member.client_id not in clients]
        if others:
            return (
                f"group {described.group} waits for {others[0].client_id!r}, which is still a member and does not join "
                f"again (a consumer of an earlier test?); {client_of(joining[-1])} gets no partition until it "
                "joins, leaves or times out"
            )
    return None


def partitions_not_given_up(facts: Facts) -> str | None:
    """A member of a consumer group waits for partitions that another one has not given up (KIP-848)."""
    for group in facts.groups:
        described = group.description
        targets = [(member, {*(member.target or ())}) for member in described.members if member.target is not None]
        owed = {place: member for member, target in targets for place in member.assignment if place not in target}
        for member, target in targets:
            awaited = sorted(place for place in target.difference(member.assignment) if place in owed)
            if awaited:
                return (
                    f"group {described.group} is {described.state}: {member.client_id!r} waits for {awaited[0]}, which "
                    f"{owed[awaited[0]].client_id!r} has not given up: a consumer gives up partitions when it is "
                    "polled, and is removed after its max.poll.interval.ms"
                )
    return None


def member_expelled(facts: Facts) -> str | None:
    """A consumer is no member any more, because it did not poll or sent no heartbeat in time."""
    for group in facts.groups:
        name, kind = group.description.group, group.description.kind
        for gone in reversed(group.departures):
            at = at_generation(kind, gone.generation)
            if gone.is_expelled:
                moved = f"; the clock was {moved_by(facts.ahead_ms)}" if facts.ahead_ms else ""
                return f"consumer {gone.client_id!r} was removed from group {name} in {at}: {gone.reason}{moved}"
            if POLL_TIMEOUT in gone.reason:
                return (
                    f"consumer {gone.client_id!r} left group {name} in {at}, because it did "
                    f"not poll for max.poll.interval.ms={gone.max_poll_interval_ms}: {gone.reason!r}"
                )
            since_ms = _silent_ms(facts, name, gone)
            if not gone.reason and since_ms is not None and since_ms >= gone.max_poll_interval_ms * NEARLY:
                return (
                    f"consumer {gone.client_id!r} left group {name} {since_ms / 1_000:.1f} s after it had got its "
                    "partitions, and stays connected: as a client does that is not polled for "
                    f"max.poll.interval.ms={gone.max_poll_interval_ms}"
                )
    return None


def _silent_ms(facts: Facts, group: str, gone: Departure) -> int | None:
    """Milliseconds from the last SyncGroup of a member to its LeaveGroup; None if its client has gone, or has joined
    again at once."""
    if gone.client_id not in {client.client_id for client in facts.clients}:
        return None
    own = [entry for entry in facts.requests if group in entry.groups and gone.member_id in entry.members]
    left = [entry for entry in own if entry.api == "LeaveGroup"]
    synced = [entry for entry in own if entry.api == "SyncGroup"]
    return left[-1].time_ms - synced[-1].time_ms if left and synced else None


def group_never_joined(facts: Facts) -> str | None:
    """The test waited for a group, and no client ever joined it or committed in it."""
    known = [group.description.group for group in facts.groups]
    for wait in facts.waits:
        if wait.group and wait.group not in known:
            return f"the test waited for group {wait.group!r}, which no client ever joined{nearest(wait.group, known)}"
    return None


def never_assigned(facts: Facts) -> str | None:
    """A group has members, and its assignment never came to its end."""
    for group in facts.groups:
        described = group.description
        without = [member for member in described.members if not member.assignment]
        if without and described.state != "Stable":
            listed = " and ".join(repr(member.client_id) for member in without[:3])
            return f"group {described.group} is {described.state}: {listed} never got a partition, and fetches nothing"
    return None


def more_members_than_partitions(facts: Facts) -> str | None:
    """A member has no partition, because there are too few."""
    for group in facts.groups:
        described = group.description
        idle = [member for member in described.members if not member.assignment]
        topics = {topic for member in described.members for topic in member.topics}
        known = [topic for name in topics if (topic := facts.topic(name)) is not None]
        partitions = sum(topic.partition_count for topic in known)
        if described.state == "Stable" and idle and known and len(described.members) > partitions:
            return (
                f"group {described.group} has {len(described.members)} members and {', '.join(sorted(topics))} has "
                f"{counted(partitions, 'partition')}: {idle[0].client_id!r} has no partition, and fetches nothing"
            )
    return None


def assigned_after_produce(facts: Facts) -> str | None:
    """A consumer asked for the end of a partition, after records had been written there."""
    for entry in facts.asked("ListOffsets"):
        for one in entry.partitions:
            if one.offset != LATEST or _has_committed(facts, one.topic, one.partition):
                continue
            before = [
                written
                for written in facts.asked("Produce")
                if written.number < entry.number
                and not written.errors
                and (one.topic, one.partition) in _places(written)
            ]
            if before and any(_reads(later, one.topic) for later in facts.requests if later.number > entry.number):
                place, after_s = f"{one.topic}-{one.partition}", facts.after_s(entry)
                return (
                    f"{client_of(entry)} began at the end of {place} at +{after_s:.2f} s "
                    f"(auto.offset.reset=latest, nothing committed), after the record of "
                    f"+{facts.after_s(before[-1]):.2f} s: produce after the assignment, or read from the earliest"
                )
    return None


def group_at_the_end(facts: Facts) -> str | None:
    """The group has committed everything that there is, before a consumer came that was to read it."""
    for group in facts.groups:
        behind = [*_committed_ends(facts, group)]
        if not behind or not all(at_end for _, at_end in behind):
            continue
        name = group.description.group
        commits = [one.number for one in facts.asked("OffsetCommit", "TxnOffsetCommit") if name in one.groups]
        began = [one for one in facts.asked("OffsetFetch") if name in one.groups]
        if began and began[-1].number > max(commits, default=0):
            topic = behind[0][0]
            return (
                f"group {name} had committed the end of {topic} before {client_of(began[-1])} asked where to begin: it "
                "gets only what is written from then on. Use another group, or set its offsets back"
            )
    return None


def _committed_ends(facts: Facts, group: GroupFacts) -> Iterator[tuple[str, bool]]:
    """Each topic with a committed offset, and whether that is the end of a partition with records."""
    for place, offset in group.offsets.items():
        topic = facts.topic(place.topic)
        for one in topic.partitions if topic is not None else ():
            if one.number == place.partition and one.high_watermark:
                yield place.topic, offset >= one.high_watermark


def _places(entry: JournalEntry) -> set[tuple[str, int | None]]:
    return {(one.topic, one.partition) for one in entry.partitions}


def _reads(entry: JournalEntry, topic: str) -> bool:
    return entry.api == "Fetch" and topic in entry.topics


def _has_committed(facts: Facts, topic: str, partition: int | None) -> bool:
    return any((topic, partition) in group.offsets for group in facts.groups)

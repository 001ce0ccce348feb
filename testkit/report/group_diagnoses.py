"""What commonly goes wrong with consumer groups, each as a function of the facts: a part of the list of diagnoses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kmini.protocol.topics import TopicPartition
from kmini.testkit.descriptions import at_generation
from kmini.testkit.phrases import counted, nearest
from kmini.testkit.report.facts import Facts, GroupFacts, client_of, moved_by, record_shown

if TYPE_CHECKING:
    from kmini.broker.groups.group import Departure
    from kmini.broker.journal.entries import JournalEntry

JOINING = ("JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
"""The requests that join groups."""

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


_ASKS_AGAIN = {
    "MEMBER_ID_REQUIRED",
    "REBALANCE_IN_PROGRESS",
    "UNKNOWN_MEMBER_ID",
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
}
"""Errors after which a client joins again."""


def group_never_joined(facts: Facts) -> str | None:
    """The test waited for a group, and no client ever joined it or committed in it."""
    known = [group.description.group for group in facts.groups]
    for wait in facts.waits:
        if wait.group and wait.group not in known:
            for entry in facts.asked(*JOINING):
                refused = [error for error in entry.errors if error not in _ASKS_AGAIN]
                if wait.group in entry.groups and refused:
                    return (
                        f"{client_of(entry)} could not join group {wait.group!r}: {entry.api} was answered {refused[0]}"
                    )
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
        if described.kind == "share":  # its members share partitions
            continue
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
    """A consumer began at the end of a partition, and the records were there already."""
    for entry in facts.asked("ListOffsets"):
        for one in entry.partitions:
            if one.offset != LATEST or one.partition is None:
                continue
            place = TopicPartition(one.topic, one.partition)
            began, partition = _began_at(facts, entry, place), facts.partition(place)
            if began is None or partition is None or _had_committed(facts, place, entry.number):
                continue
            before = [
                written
                for written in facts.asked("Produce")
                if written.number < entry.number and not written.errors and place in _places(written)
            ]
            # The test itself may have written the records: then no request says when.
            is_behind_all = partition.high_watermark == began > partition.log_start_offset
            if before or is_behind_all:
                record = f"the record of +{facts.after_s(before[-1]):.2f} s" if before else "all records that are there"
                return (
                    f"{client_of(entry)} began at the end of {place} at +{facts.after_s(entry):.2f} s "
                    f"(auto.offset.reset=latest, nothing committed), after {record}: "
                    "produce after the assignment, or read from the earliest"
                )
    return None


def _began_at(facts: Facts, asked: JournalEntry, place: TopicPartition) -> int | None:
    """The offset at which a consumer began to read, having asked for the end; None if it read before, or never did."""
    for entry in facts.asked("Fetch"):
        if entry.client_id != asked.client_id or place not in _places(entry):
            continue
        if entry.number < asked.number:
            return None
        return next(one.offset for one in entry.partitions if (one.topic, one.partition) == place)
    return None


def _had_committed(facts: Facts, place: TopicPartition, number: int) -> bool:
    """Whether a group had committed an offset of a partition before the request of this number: a later commit may be
    that of the position at which a consumer began (enable.auto.commit)."""
    commits = [entry for entry in facts.asked("OffsetCommit", "TxnOffsetCommit") if place in _places(entry)]
    if commits:
        return commits[0].number < number
    return any(place in group.offsets for group in facts.groups)


def fetched_and_never_committed(facts: Facts) -> str | None:
    """A consumer of a group fetched records, and neither committed them nor asked for more: what handles them failed,
    or hangs."""
    for group in facts.groups:
        for place, fetched in _fetched(facts, group).items():
            offset, entry = fetched[-1]
            partition = facts.partition(place)
            record = None if partition is None else partition.at.get(offset)
            if record is None or entry.is_in_service or group.offsets.get(place, offset) > offset:
                continue
            times = [at for at, _ in fetched].count(offset)
            committed = f"nothing beyond offset {offset} was committed" if place in group.offsets else "never committed"
            again = f" for the {_ordinal(times)} time" if times > 1 else ""
            return (
                f"{client_of(entry)} of group {group.description.group} fetched {place}@{offset}{again} at "
                f"+{facts.after_s(entry):.2f} s, {committed}, and nothing was asked for since: the handler of the "
                f"record {record_shown(record)} failed, or is still running"
            )
    return None


def fetched_beyond_what_is_committed(facts: Facts) -> str | None:
    """A consumer of a group fetched records beyond what the group has committed, and the test waited in vain. Clients
    that fetch ahead ask for more although the handler of a record has failed."""
    for group in facts.groups if facts.waits else ():
        for place, fetched in _fetched(facts, group).items():
            (first, _), (last, entry) = fetched[0], fetched[-1]
            partition = facts.partition(place)
            begin = group.offsets.get(place, 0 if partition is None else partition.log_start_offset)
            if partition is not None and first <= begin < last:
                committed = f"nothing beyond offset {begin}" if place in group.offsets else "nothing"
                return (
                    f"{client_of(entry)} of group {group.description.group} fetched {counted(last - begin, 'record')} "
                    f"of {place}, and {committed} was committed: the handler failed, or the commit is missing or still "
                    "to come"
                )
    return None


def _fetched(facts: Facts, group: GroupFacts) -> dict[TopicPartition, list[tuple[int, JournalEntry]]]:
    """By partition, the offsets from which clients of a group have fetched, each with its request."""
    name = group.description.group
    clients = {entry.client_id for entry in facts.requests if name in entry.groups}
    fetched: dict[TopicPartition, list[tuple[int, JournalEntry]]] = {}
    for entry in facts.asked("Fetch"):
        for one in entry.partitions if entry.client_id in clients and not entry.errors else ():
            if one.partition is not None and one.offset is not None:
                fetched.setdefault(TopicPartition(one.topic, one.partition), []).append((one.offset, entry))
    return fetched


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def left_without_partition(facts: Facts) -> str | None:
    """A consumer that has left never read, because the others had all partitions."""
    for group in facts.groups:
        name = group.description.group
        for gone in reversed(group.departures):
            own = [entry for entry in facts.requests if entry.client_id == gone.client_id]
            if gone.is_expelled or not own or any(entry.api in ("Fetch", "OffsetCommit") for entry in own):
                continue
            beside = [
                entry
                for entry in facts.asked("SyncGroup", "ConsumerGroupHeartbeat")
                if name in entry.groups and entry.number < own[-1].number
            ]
            others = {entry.client_id for entry in beside} - {gone.client_id}
            read = {one for entry in facts.asked("Fetch") if entry.client_id in others for one in entry.topics}
            topics = [topic for one in sorted(read) if (topic := facts.topic(one)) is not None]
            partitions = sum(topic.partition_count for topic in topics)
            if 0 < partitions <= len(others):
                return (
                    f"consumer {gone.client_id!r} of group {name} never had a partition until it left: there were "
                    f"{len(others) + 1} members, and {', '.join(topic.name for topic in topics)} has "
                    f"{counted(partitions, 'partition')}"
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
        partition = facts.partition(place)
        if partition is not None and partition.high_watermark:
            yield place.topic, offset >= partition.high_watermark


def _places(entry: JournalEntry) -> set[tuple[str, int | None]]:
    return {(one.topic, one.partition) for one in entry.partitions}

"""Groups and transactions as the test kit, the failure report and doctor show them, wherever they were asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kmini.protocol.topics import TopicPartition
from kmini.testkit.phrases import counted

if TYPE_CHECKING:
    from kmini.client import GroupDescription as ToldGroup
    from kmini.client import GroupMember as ToldMember
    from kmini.client import ShareGroupOffset

SHOWN = 10
"""Most members, or partitions, in a description."""


class GroupMember(NamedTuple):
    """A member of a group."""

    member_id: str
    client_id: str
    address: str
    """The host that its client connects from."""
    instance_id: str | None
    """The name of a static member (`group.instance.id`); None for a dynamic one."""
    topics: tuple[str, ...]
    """The topics that it subscribes to, sorted; empty if it is no consumer."""
    assignment: tuple[TopicPartition, ...]
    """The partitions that it has, sorted, with those that it has not given up yet. In a classic group it is empty until
    the group is Stable."""
    protocol: str = "classic"
    """The group protocol that it speaks: "classic", "consumer" (KIP-848), "share" (KIP-932) or "streams" (KIP-1071). A
    consumer group may have members of the first two."""
    epoch: int | None = None
    """Its member epoch; -2 of a static member that is away. None in a classic group."""
    state: str | None = None
    """How far it is on its way to its target: "STABLE", "UNREVOKED_PARTITIONS" while it has partitions to give up,
    "UNRELEASED_PARTITIONS" while it waits for partitions of others; in a streams group "UNREVOKED_TASKS" and
    "UNRELEASED_TASKS". None in a classic group, and where the group was
    asked over the protocol, which does not tell it."""
    target: tuple[TopicPartition, ...] | None = None
    """The partitions that it is to have, sorted; None in a classic group."""
    topic_regex: str = ""
    """The regular expression that it subscribes to, which the coordinator resolves; empty for none."""

    def __str__(self) -> str:
        topics = [*self.topics[:SHOWN], *([f"the expression {self.topic_regex}"] if self.topic_regex else [])]
        wants = f", subscribed to {', '.join(topics)}" if topics else ""
        to_have = "" if self.target in (None, self.assignment) else f", is to have {_listed(self.target or ())}"
        has = _listed(self.assignment)
        return f"{self.member_id} (client {self.client_id} at {self.address}{wants}, has {has}{to_have})"


class InFlightRecords(NamedTuple):
    """Consecutive records of a partition that a share group has in flight, all of one state (KIP-932)."""

    first_offset: int
    last_offset: int
    state: str
    """"ACQUIRED" while a member has them locked, "AVAILABLE" for the next fetch; "ACKNOWLEDGED" and "ARCHIVED" where an
    earlier record is not done."""
    delivery_count: int
    """How many times they were delivered, the present delivery included."""
    member_id: str
    """The member that has acquired them; empty in the other states."""

    def __str__(self) -> str:
        offsets = f"{self.first_offset}" + (f"-{self.last_offset}" * (self.last_offset > self.first_offset))
        by = f" by {self.member_id}" if self.member_id else ""
        return f"{offsets} {self.state}{by} (delivery count {self.delivery_count})"


class SharePartition(NamedTuple):
    """Where a share group is in a partition (KIP-932)."""

    partition: TopicPartition
    start_offset: int | None
    """The first offset whose delivery has not ended; None until a member has begun to read the partition."""
    lag: int | None
    """The records, with transaction markers, whose delivery has not ended, up to the high watermark; None as the start
    offset is, and if no broker that runs leads the partition."""
    in_flight: tuple[InFlightRecords, ...] | None
    """The records in flight, in order, as the leader of the partition has them; while no member reads it, as they are
    stored. None where the group was asked over the protocol, which does not tell them."""

    def __str__(self) -> str:
        if self.start_offset is None:
            return f"{self.partition} is not read yet"
        lag = "" if self.lag is None else f", lag {self.lag}"
        some = [str(records) for records in (self.in_flight or ())[:SHOWN]]
        more = len(self.in_flight or ()) - len(some)
        in_flight = f", in flight: {', '.join(some)}{f' and {more} more' if more else ''}" if some else ""
        return f"{self.partition} starts at {self.start_offset}{lag}{in_flight}"


class GroupDescription(NamedTuple):
    """A group and its members."""

    group: str
    kind: str
    """The group protocol, as ListGroups names it: "classic", "consumer" (KIP-848), "share" (KIP-932) or "streams"
    (KIP-1071)."""
    state: str
    """"Empty", "PreparingRebalance", "CompletingRebalance", "Stable" or "Dead"; of a consumer group "Empty",
    "Assigning", "Reconciling", "Stable" or "Dead", of a streams group "NotReady" too, while topics are missing; of
    a share group "Empty", "Stable" or "Dead"."""
    generation: int
    """Raised by one at the end of each rebalance; 0 before the first one. Of a consumer group its group epoch, which is
    raised by each change of members, subscriptions or topics."""
    protocol: str | None
    """The assignor that the members have agreed on ("range"); of a consumer group that of the coordinator ("uniform").
    None without members."""
    members: tuple[GroupMember, ...]
    """In the order in which they joined."""
    coordinator: int
    """The number of the broker that coordinates the group."""
    assignment_epoch: int | None = None
    """The group epoch that the members' targets were computed for; None of a classic group."""
    share_partitions: tuple[SharePartition, ...] = ()
    """Where a share group is in the partitions that it reads, sorted; empty for groups of other kinds."""

    @property
    def at(self) -> str:
        """The generation in words: "generation 3", or of a consumer group "group epoch 4, assignment epoch 3"; empty
        where it is unknown."""
        if self.generation < 0:
            return ""
        behind = self.assignment_epoch not in (None, self.generation)
        return at_generation(self.kind, self.generation) + (f", assignment epoch {self.assignment_epoch}" * behind)

    def __str__(self) -> str:
        shared = "".join(f"; {one}" for one in self.share_partitions[:SHOWN])
        if not self.members:
            past = "its members have left" if self.generation else "it never had a member"
            return f"group {self.group} is {self.state}; {past}{shared}"
        count = len(self.members)
        members = counted(count, "member")
        listed = "; ".join(map(str, self.members[:SHOWN])) + (f"; and {count - SHOWN} more" if count > SHOWN else "")
        protocol = f", {'protocol' if self.kind == 'classic' else 'assignor'} {self.protocol}" if self.protocol else ""
        at = f", {self.at}" if self.at else ""
        return f"group {self.group} is {self.state}{at}{protocol}, {members}: {listed}{shared}"


def group_of(
    told: ToldGroup, share_offsets: Mapping[TopicPartition, ShareGroupOffset] | None = None
) -> GroupDescription:
    """A group as its coordinator told it over the protocol, which does not tell the generation of a classic group."""
    is_classic = told.epoch is None
    return GroupDescription(
        told.group_id,
        told.type,
        told.state,
        -1 if told.epoch is None else told.epoch,
        (told.protocol if is_classic or told.members else None) or None,
        tuple(map(_member_of, told.members)),
        told.coordinator.node_id,
        told.assignment_epoch,
        tuple(
            SharePartition(place, found.offset, found.lag, None)
            for place, found in sorted((share_offsets or {}).items())
        ),
    )


def _member_of(member: ToldMember) -> GroupMember:
    """A member as its coordinator told it. The topics are those that it names, and those of which it has partitions."""
    assigned = {place.topic for place in (*member.partitions, *(member.target or ()))}
    return GroupMember(
        member.member_id,
        member.client_id,
        member.client_host,
        member.group_instance_id,
        tuple(sorted({*(member.topics or ()), *assigned})),
        member.partitions,
        member.type,
        member.epoch,
        None,
        member.target,
        member.topic_regex,
    )


def at_generation(kind: str, generation: int) -> str:
    """The number that a rebalance of a kind of group raises, in words."""
    return f"{'generation' if kind == 'classic' else 'group epoch'} {generation}"


def _listed(places: tuple[TopicPartition, ...]) -> str:
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    return f"{' '.join(map(str, places[:SHOWN])) or 'nothing'}{more}"


class OpenTransaction(NamedTuple):
    """A transaction that has begun and not ended."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    """"Ongoing"; or "PrepareCommit" or "PrepareAbort" while its markers are being written."""
    partitions: tuple[TopicPartition, ...]
    """The partitions that it has written to, sorted; those of `__consumer_offsets` stand for groups whose offsets it
    commits."""
    age_ms: int
    """Milliseconds since it began, on the timeline of time-outs."""
    timeout_ms: int
    """Milliseconds after which the broker aborts it (`transaction.timeout.ms` of the producer)."""

    def __str__(self) -> str:
        places = ", ".join(map(str, self.partitions[:SHOWN]))
        more = f" and {len(self.partitions) - SHOWN} more" if len(self.partitions) > SHOWN else ""
        return (
            f"{self.transactional_id} is {self.state} for {self.age_ms} of {self.timeout_ms} ms, "
            f"producer {self.producer_id} epoch {self.producer_epoch}, in {places}{more}"
        )

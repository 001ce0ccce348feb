"""Groups and transactions as the test kit, the failure report and doctor show them, wherever they were asked."""

from __future__ import annotations

from typing import NamedTuple

from kmini.phrases import counted
from kmini.protocol.topics import TopicPartition

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
    """The partitions that it has, sorted; empty until the group is Stable."""

    def __str__(self) -> str:
        wants = f", subscribed to {', '.join(self.topics[:SHOWN])}" if self.topics else ""
        has = " ".join(map(str, self.assignment[:SHOWN])) or "nothing"
        more = f" and {len(self.assignment) - SHOWN} more" if len(self.assignment) > SHOWN else ""
        return f"{self.member_id} (client {self.client_id} at {self.address}{wants}, has {has}{more})"


class GroupDescription(NamedTuple):
    """A group and its members."""

    group: str
    kind: str
    """The group protocol, as ListGroups names it: "classic"."""
    state: str
    """"Empty", "PreparingRebalance", "CompletingRebalance", "Stable" or "Dead"."""
    generation: int
    """Raised by one at the end of each rebalance; 0 before the first one."""
    protocol: str | None
    """The assignor that the members have agreed on ("range"); None without members."""
    members: tuple[GroupMember, ...]
    """In the order in which they joined."""
    coordinator: int
    """The number of the broker that coordinates the group."""

    def __str__(self) -> str:
        if not self.members:
            past = "its members have left" if self.generation else "it never had a member"
            return f"group {self.group} is {self.state}; {past}"
        count = len(self.members)
        members = counted(count, "member")
        listed = "; ".join(map(str, self.members[:SHOWN])) + (f"; and {count - SHOWN} more" if count > SHOWN else "")
        protocol = f", protocol {self.protocol}" if self.protocol else ""
        return f"group {self.group} is {self.state}, generation {self.generation}{protocol}, {members}: {listed}"


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

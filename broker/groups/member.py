"""One member of a group: who it is, what it can do, what it got, and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..coordinators.coordinator_topic import MAX_NAME_BYTES

if TYPE_CHECKING:
    from ..clock import Timer

T = TypeVar("T")


class Joining(NamedTuple):
    """What a client asks for when it joins."""

    member_id: str
    """Empty if it has none."""
    instance_id: str | None
    client_id: str
    client_host: str
    """With a slash in front, as Java shows addresses: other tools read it from the offsets topic."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    """What it supports, the one it likes best first, and for each what it wants."""
    takes_member_id: bool = True
    """Whether it can be told to come back with a member id (v4, KIP-394)."""
    skips_assignment: bool = True
    """Whether it can be a leader who need not assign (v9, KIP-814)."""

    @property
    def can_be_kept(self) -> bool:
        """Whether a record has room for its names. Flexible versions of a request have room for longer ones."""
        names = (self.instance_id or "", self.protocol_type, *self.protocols)
        return all(len(name.encode()) <= MAX_NAME_BYTES for name in names)


class JoinedMember(NamedTuple):
    """A member as the leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a JoinGroup."""

    error_code: int
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncResult(NamedTuple):
    """The answer to a SyncGroup."""

    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Member:
    """A member of a group. It outlives the connection it came by: only leaving, falling silent and missing a rebalance
    end it."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "replaces",
        "session_timeout_ms",
        "sync",
        "timer",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Mapping[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        """The name of a static member; None for a dynamic one."""
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        """What it supports, the one it likes best first. Not changed in place: the group counts them."""
        self.assignment = assignment
        """Opaque; set when the leader's assignment is stored, emptied when a generation ends before that."""
        self.replaces: Member | None = None
        """The static member that it takes the place of, until that is replicated: readers are shown this one."""
        self.is_new = False
        """Whether it has joined for the first time and knows its member id by no answer yet."""
        self.join: asyncio.Future[JoinResult] | None = None
        """The answer that its JoinGroup waits for. Still there, and cancelled, if the connection was lost meanwhile:
        such a member has joined, as in Kafka."""
        self.sync: asyncio.Future[SyncResult] | None = None
        """The answer that its SyncGroup waits for; likewise."""
        self.deadline_ms = 0
        """When it is given up if nothing is heard of it, in liveness time. Raised by every sign of life."""
        self.timer: Timer | None = None
        """Fires at the deadline or before it, and is then set anew: a heartbeat only moves the deadline."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def has_joined(self) -> bool:
        """Whether it has joined the generation that is being prepared."""
        return self.join is not None

    @property
    def is_excused(self) -> bool:
        """Whether it cannot send heartbeats because it waits for us. A new member is excused for a while only: nobody
        may be there any more to hear its member id."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def supports(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether it said just this before: the same protocols in the same order, with the same metadata."""
        return [*self.protocols.items()] == [*protocols.items()]

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that it likes best. Raises ValueError if it supports none."""
        for name in self.protocols:
            if name in candidates:
                return name
        raise ValueError(f"{self.member_id} supports none of the protocols")

    def successor(self, member_id: str) -> Member:
        """The same static member after a restart, under another id, with its assignment."""
        return Member(
            member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    def answer_join(self, result: JoinResult) -> bool:
        """Answer the JoinGroup that waits; say whether there was one. To be called by the group, which counts."""
        waiting, self.join = self.join, None
        return _answer(waiting, result)

    def answer_sync(self, result: SyncResult) -> bool:
        """Answer the SyncGroup that waits; say whether there was one."""
        waiting, self.sync = self.sync, None
        return _answer(waiting, result)

    def forget_timer(self) -> None:
        """Nobody waits for a sign of life any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def _answer(waiting: asyncio.Future[T] | None, result: T) -> bool:
    """Say whether somebody waited; whose connection was lost is not told."""
    if waiting is None:
        return False
    if not waiting.done():
        waiting.set_result(result)
    return True

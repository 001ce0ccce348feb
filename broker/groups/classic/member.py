"""One member of a group: its identity, its protocols, its assignment, and the answers that it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...coordinators.coordinator_topic import MAX_NAME_BYTES

if TYPE_CHECKING:
    from ....protocol.errors import KafkaError
    from ...clock import Timer
    from ..group_records import GroupMetadata

T = TypeVar("T")


class Joining(NamedTuple):
    """The fields of a JoinGroup, and of the connection that sent it."""

    member_id: str
    """Empty if the client has none."""
    instance_id: str | None
    client_id: str
    client_host: str
    """With a slash in front, as Java shows addresses: other tools read it from the offsets topic."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    """The protocols that the client supports, the preferred one first, each with its metadata (its subscription)."""
    takes_member_id: bool = True
    """Whether MEMBER_ID_REQUIRED may be answered (v4, KIP-394)."""
    skips_assignment: bool = True
    """Whether the answer may ask a leader to skip the assignment (v9, KIP-814)."""

    @property
    def can_be_kept(self) -> bool:
        """Whether a record has room for its names. Flexible versions of a request have room for longer names."""
        names = (self.instance_id or "", self.protocol_type, *self.protocols)
        return all(len(name.encode()) <= MAX_NAME_BYTES for name in names)


class Leaving(NamedTuple):
    """A member that leaves. Without a member id, its instance id identifies it."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""
    """The reason that the request gives (KIP-800); most clients other than Java give none."""


class JoinedMember(NamedTuple):
    """A member as the answer to the leader lists it."""

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
    """A member of a group. It outlives its connection: it ends by leaving, by the end of its session, or by missing a
    rebalance."""

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
        """Metadata by protocol, the preferred protocol first. Never changed in place: the group counts supporters."""
        self.assignment = assignment
        """Opaque bytes; set when the leader's assignment is stored, emptied when a generation ends before that."""
        self.replaces: Member | None = None
        """The static member that it replaces, until the replacement is replicated: readers are shown this one."""
        self.is_new = False
        """Whether its first JoinGroup is not answered yet, so that the client does not know the member id."""
        self.join: asyncio.Future[JoinResult] | None = None
        """The answer that its JoinGroup waits for. If the connection is lost it stays, cancelled: as in Kafka, such a
        member has joined."""
        self.sync: asyncio.Future[SyncResult] | None = None
        """The answer that its SyncGroup waits for; it stays likewise."""
        self.deadline_ms = 0
        """When its session ends, in liveness time. Every heartbeat, join and commit raises it."""
        self.timer: Timer | None = None
        """Fires at the deadline or before it, and is then set again: a heartbeat moves only the deadline."""

    @classmethod
    def restored(cls, stored: GroupMetadata.Member, protocol_name: str) -> Member:
        """The member as the offsets topic holds it, with the metadata of one protocol."""
        rebalance_timeout_ms = stored.rebalance_timeout_ms
        return cls(
            stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout_ms=stored.session_timeout_ms,
            rebalance_timeout_ms=stored.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
            protocols={protocol_name: stored.subscription},
            assignment=stored.assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def has_joined(self) -> bool:
        """Whether it has joined the generation that is in preparation."""
        return self.join is not None

    @property
    def is_excused(self) -> bool:
        """Whether it cannot send heartbeats because it waits for an answer. A new member is not excused: its client may
        be gone, and does not know the member id."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def supports(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether these are its protocols: the same names in the same order, with the same metadata."""
        return [*self.protocols.items()] == [*protocols.items()]

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that it prefers. Raises ValueError if it supports none."""
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
        """Answer the JoinGroup that waits; return whether one did. Only the group calls this, because it counts
        joins."""
        waiting, self.join = self.join, None
        return _answer(waiting, result)

    def answer_sync(self, result: SyncResult) -> bool:
        """Answer the SyncGroup that waits; return whether one did."""
        waiting, self.sync = self.sync, None
        return _answer(waiting, result)

    def cancel_timer(self) -> None:
        """Cancel the end of its session."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def refused(error: type[KafkaError], member_id: str = "") -> JoinResult:
    """The answer to a JoinGroup that failed."""
    return JoinResult(error.code, member_id)


def size_of(protocols: Mapping[str, bytes]) -> int:
    """Approximate bytes that protocols and their metadata take in memory."""
    return sum(len(name) + len(metadata) for name, metadata in protocols.items())


def _answer(waiting: asyncio.Future[T] | None, result: T) -> bool:
    """Set the result; return whether a request waited. One whose connection was lost is cancelled already."""
    if waiting is None:
        return False
    if not waiting.done():
        waiting.set_result(result)
    return True

"""Members that leave their group as soon as their connection ends: `kmini.group.expel.on.disconnect`.

In Kafka a member outlives its connection until its session ends, so the group of a client that was killed stands still
for a session time-out. With this setting it rebalances at once. A member is tied to the connection by which its last
JoinGroup, SyncGroup or Heartbeat came. Static members (KIP-345) stay: they exist to come back. A broker that stops ends
its connections itself, and expels no member.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import KafkaError
from .classic.classic_group import ClassicGroup

if TYPE_CHECKING:
    from ..coordinators.background_writes import Writes
    from .classic.member import JoinResult
    from .groups_by_partition import Shards

MANY_TIES = 64
"""Ties of one connection, beyond which those of former members are dropped: each rejoin may bring a new id."""

ENDED = "its connection ended"
"""The reason of the departures."""


class EndingConnection(Protocol):
    """A connection that tells when it has ended."""

    def when_lost(self, callback: Callable[[], None]) -> None: ...


class Coordinator(Protocol):
    """The group coordinator, as this module uses it."""

    groups: Shards

    writes: Writes

    async def expel(self, group_id: str, member_id: str, reason: str) -> None: ...


class Tie(NamedTuple):
    """A member, or a member id that has not joined yet."""

    group_id: str
    member_id: str


class Disconnects:
    """Which connection each member came by. Belongs to the broker's loop."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._connection_of: dict[Tie, EndingConnection] = {}
        self._ties_of: dict[EndingConnection, set[Tie]] = {}

    def join_came_by(self, connection: EndingConnection, group_id: str, answer: asyncio.Future[JoinResult]) -> None:
        """Note the connection of a JoinGroup that the coordinator answers, now or later."""
        if answer.done():
            member_id = answer.result().member_id
        else:
            group = self._coordinator.groups.get(group_id)
            members = group.members.values() if isinstance(group, ClassicGroup) else ()
            member_id = next((member.member_id for member in members if member.join is answer), "")
        self.came_by(connection, group_id, member_id)

    def came_by(self, connection: EndingConnection, group_id: str, member_id: str) -> None:
        """Note the connection of another request of a member."""
        if not member_id:
            return
        tie = Tie(group_id, member_id)
        if self._connection_of.get(tie) is connection:
            return
        ties = self._ties_of.get(connection)
        if ties is None:
            ties = self._ties_of[connection] = set()
            connection.when_lost(partial(self._lost, connection))
        elif len(ties) >= MANY_TIES:
            self._forget_members_of_the_past(ties)
        ties.add(tie)
        self._connection_of[tie] = connection

    def _forget_members_of_the_past(self, ties: set[Tie]) -> None:
        for tie in [*ties]:
            group = self._coordinator.groups.get(tie.group_id)
            if group is None or not group.knows(tie.member_id):
                ties.discard(tie)
                self._connection_of.pop(tie, None)

    def _lost(self, connection: EndingConnection) -> None:
        """The members that came by this connection last leave their groups."""
        for tie in self._ties_of.pop(connection):
            if self._connection_of.get(tie) is not connection:
                continue
            del self._connection_of[tie]
            group = self._coordinator.groups.get(tie.group_id)
            member = None if group is None else group.members.get(tie.member_id)
            if member is None or not member.is_static:
                self._coordinator.writes.start(self._expel(tie))

    async def _expel(self, tie: Tie) -> None:
        with contextlib.suppress(KafkaError):  # another broker coordinates the group by now
            await self._coordinator.expel(tie.group_id, tie.member_id, ENDED)

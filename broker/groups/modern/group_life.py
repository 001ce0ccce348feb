"""The life of groups that the coordinator assigns: their changes are written and applied, their members time out.

Requests decide what changes; this module is the one place where it happens. A kind of group adds what its own members
may do (`consumer/life.py`).
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from ...api.error_mapping import kafka_error
from ...network.peer_log import PeerLog
from ...scheduler import Turn, run_now
from ..classic.classic_group import ClassicGroup
from ..group import Departure, Group
from .changes import Change
from .modern_group import Member, ModernGroup
from .timers import MemberTimers, Wait

if TYPE_CHECKING:
    from ...clock import Clock
    from ...coordinators.background_writes import Writes
    from ...coordinators.coordinator_topic import AppendedBatch
    from ...settings.broker_config import BrokerConfig
    from ...settings.group_config import GroupConfig
    from ..classic.classic_groups import ClassicGroups
    from ..group_store import GroupStore
    from ..groups_by_partition import Shards
    from .topic_catalog import Catalog

# --- one change of a group at a time


T = TypeVar("T")


class GroupTurns:
    """The computations in progress, by group id. Belongs to the broker's loop."""

    def __init__(self) -> None:
        self._busy: dict[str, asyncio.Future[None]] = {}

    async def free(self, group_id: str) -> None:
        """Wait until no computation of the group is in progress. It is so until the caller waits for something else."""
        while (busy := self._busy.get(group_id)) is not None:
            await asyncio.wait([busy])

    async def run(self, group_id: str, steps: Generator[None, None, T]) -> T:
        """Run a computation, in turns if it takes long; the caller has found the group `free`. Until the caller waits
        for something else, the group is as it was."""
        turn = Turn()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                result: T = done.value
                return result
            if turn.is_over:
                await self._rest(group_id, turn)

    async def _rest(self, group_id: str, turn: Turn) -> None:
        """Let everything else have a turn, while the group is busy."""
        busy = self._busy[group_id] = asyncio.get_running_loop().create_future()
        try:
            await turn.next()
        finally:
            del self._busy[group_id]
            busy.set_result(None)


log = PeerLog(logging.getLogger("kmini.groups"))

RETRY_MS = 500
"""Milliseconds until a member whose time is over is removed again, after that could not be stored."""

M = TypeVar("M", bound=Member)
G = TypeVar("G", bound=ModernGroup[Any, Any, Any])


class Coordinated(NamedTuple):
    """What the groups of a coordinator have in common."""

    config: BrokerConfig
    clock: Clock
    store: GroupStore
    groups: Shards
    classic: ClassicGroups
    """Serves the classic groups, whose place others may take."""
    catalog: Catalog
    settings: Callable[[str], GroupConfig]
    """Gives the settings of a group id."""
    writes: Writes
    appended: Callable[[Group, AppendedBatch], None]
    """Called when a record of a group was appended."""
    changed: Callable[[str], None]
    """Called with the id of a group that has changed."""


class GroupLife(ABC, Generic[G, M]):
    """The groups of one kind in one coordinator, and what happens to all of them. Belongs to the broker's loop."""

    kind: ClassVar[type[ModernGroup[Any, Any, Any]]]

    def __init__(self, shared: Coordinated) -> None:
        self.config = shared.config
        self.clock = shared.clock
        self.store = shared.store
        self.groups = shared.groups
        self._classic = shared.classic
        self.catalog = shared.catalog
        self.settings = shared.settings
        self.writes = shared.writes
        self._appended = shared.appended
        self._changed = shared.changed
        self.turns = GroupTurns()
        self.timers = MemberTimers(shared.clock, self._expired)

    @abstractmethod
    def new(self, group_id: str) -> G:
        """A group without members, which is not stored."""

    @abstractmethod
    def session_timeout_ms(self, group: G, member: M) -> int:
        """How long the session of a member is."""

    @abstractmethod
    def removal_of_members(self, group: G, member_ids: Iterable[str]) -> Iterable[Change[G]]:
        """The tombstones of members, and of what only they use."""

    @abstractmethod
    def next_epoch(self, group: G, metadata_hash: int) -> Change[G]:
        """The change to the epoch after the present one, whose members read topics of this hash."""

    def revoking_epoch(self, group: G, member_id: str) -> int | None:
        """The epoch of a member that is asked to give up something; None for any other."""
        current = group.currents.get(member_id)
        if member_id not in group.memberships or current is None or current.state is not group.unrevoked:
            return None
        epoch: int = current.epoch
        return epoch

    def loaded(self, group: G) -> None:
        """Begin the time-outs of a loaded group's members anew."""
        for member_id in group.memberships:
            self.extend_session(group, member_id)
            self.set_rebalance_timer(group, member_id)

    def unload(self, group: G) -> None:
        """Forget the time-outs of a group that is coordinated elsewhere now."""
        self.timers.cancel_group(group.group_id)
        group.mark_removed()

    def extend_session(self, group: G, member_id: str) -> None:
        """Let the session of a member begin anew, if it is one: the append that made it one may have failed."""
        member = group.memberships.get(member_id)
        if member is not None:
            self.timers.extend_session(group.group_id, member_id, self.session_timeout_ms(group, member))

    def session_ends(self, group: G) -> Iterator[tuple[str, int]]:
        """The client ids of the members, and when their sessions end, in liveness time."""
        for member_id, member in group.memberships.items():
            deadline_ms = self.timers.deadline_ms(group.group_id, member_id, Wait.SESSION)
            if deadline_ms is not None:
                yield member.client_id, deadline_ms

    def set_rebalance_timer(self, group: G, member_id: str) -> None:
        """Wait for what a member has to give up, if there is something."""
        epoch = self.revoking_epoch(group, member_id)
        if epoch is None:
            self.timers.cancel(group.group_id, member_id, Wait.REBALANCE)
        else:
            timeout_ms = group.memberships[member_id].rebalance_timeout_ms
            self.timers.start(group.group_id, member_id, Wait.REBALANCE, timeout_ms, epoch)

    # --- leaving

    def removing(self, group: G, reasons: Mapping[str, str], *, is_expelled: bool) -> Awaitable[None]:
        """Remove members, given with the reasons, as `write` changes a group: the group gets another epoch."""
        gone = [
            Departure(member_id, member.client_id, group.epoch, reason, is_expelled, member.rebalance_timeout_ms)
            for member_id, reason in reasons.items()
            if (member := group.memberships[member_id])
        ]
        left = [member for member_id, member in group.memberships.items() if member_id not in reasons]
        return self._remove(group, gone, left)

    def _remove(self, group: G, gone: Iterable[Departure], left: Iterable[M]) -> Awaitable[None]:
        """Remove the members that are gone, and keep those that are left."""
        removal = self.removal_of_members(group, [departure.member_id for departure in gone])
        epoch = self.next_epoch(group, self.metadata_hash(group, left))
        return self.write(group, [*removal, epoch], gone=gone)

    async def remove(self, group_id: str, reasons: Mapping[str, str], *, is_expelled: bool) -> None:
        """Remove those of these members that are in the group. Raises what the store does."""
        await self.turns.free(group_id)
        group = self._present(group_id)
        if group is not None:
            present = {member_id: reason for member_id, reason in reasons.items() if member_id in group.memberships}
            if present:
                await self.removing(group, present, is_expelled=is_expelled)

    async def rebalance(self, group: G) -> None:
        """Raise the group epoch, so that the target assignment is computed anew. Raises what the store does."""
        await self.turns.free(group.group_id)
        metadata_hash = self.metadata_hash(group, group.memberships.values())
        await self.write(group, [self.next_epoch(group, metadata_hash)])

    def _expired(self, group_id: str, member_id: str, wait: Wait, number: int) -> None:
        self.writes.start(self._expire(group_id, member_id, wait, number))

    async def _expire(self, group_id: str, member_id: str, wait: Wait, number: int) -> None:
        """Remove a member whose time is over, unless it was only waited for at an epoch before, or a new wait has begun
        while the group was busy."""
        await self.turns.free(group_id)
        if self.timers.is_running(group_id, member_id, wait):
            return
        group = self._present(group_id)
        if group is None or not self.keeps(group) or member_id not in group.memberships:
            return
        if wait is not Wait.SESSION and group.epoch_of(member_id) != number:
            return
        member = group.memberships[member_id]
        reason = (
            f"no heartbeat for a session time-out of {number} ms"
            if wait is Wait.SESSION
            else f"no {wait.value} within max.poll.interval.ms={member.rebalance_timeout_ms}"
        )
        log.info("group %s: %s is removed: %s", group_id, member_id, reason)
        try:
            await self.remove(group_id, {member_id: reason}, is_expelled=True)
        except Exception as error:
            log.warning("group %s: %s", group_id, kafka_error(error, "removing a member"))
            if member_id in group.memberships:
                self.timers.start(group_id, member_id, wait, RETRY_MS, number)

    def _present(self, group_id: str) -> G | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, self.kind) else None  # type: ignore[return-value]  # `kind` is G

    def keeps(self, group: G) -> bool:
        """Whether the group is still in memory and this broker leads its partition, so that it may be stored."""
        return self.groups.get(group.group_id) is group and self.store.leads(group.group_id)

    def metadata_hash(self, group: G, members: Iterable[M]) -> int:
        """The hash of the topics that these members read."""
        return self.catalog.hash_of(group.topics_of(members))

    # --- writing

    def write(
        self,
        group: G,
        changes: list[Change[G]],
        before: Iterable[Change[G]] = (),
        gone: Iterable[Departure] = (),
    ) -> Awaitable[None]:
        """Append changes as one batch and apply them, at once; wait for the replicas when awaited. `before` are changes
        that are applied already: those that made the group of one of another kind, whose place it takes. Raises what
        the store does, when awaited; nothing has changed then, unless only the replicas were late."""
        if not changes:
            return _done() if group.is_replicated else self.store.replicated(group.group_id)
        present = self.groups.get(group.group_id)
        tombstones = () if present is None or present is group else present.tombstones()
        records = [*tombstones, *(change.record(group.group_id) for change in (*before, *changes))]
        return run_now(self.store.write(group.group_id, records, partial(self._apply, group, changes, gone)))

    def _apply(self, group: G, changes: Iterable[Change[G]], gone: Iterable[Departure], batch: AppendedBatch) -> None:
        self.note(group, gone)
        if not batch.is_replicated:
            group.hold_back()
            batch.when_replicated(group.show_next)
        for change in changes:
            change.apply(group)
            self._follow(group, change)
        replaced = self.groups.get(group.group_id)
        if isinstance(replaced, ClassicGroup):
            self._classic.upgraded(replaced)
        self.groups.put(group)
        self._appended(group, batch)
        self._changed(group.group_id)

    @abstractmethod
    def _follow(self, group: G, change: Change[G]) -> None:
        """Start or cancel the time-outs that a change, which was applied, begins or ends."""

    def note(self, group: G, gone: Iterable[Departure]) -> None:
        """Let the group remember these members."""
        for departure in gone:
            group.add_departure(departure)


async def _done() -> None:
    """Nothing to wait for."""

"""The requests of the classic group protocol, with Kafka's order of checks.

`group_states.py` holds what depends on the state of a group, as tables; `joins.py` serves JoinGroup; `rebalance.py`
waits and times out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import (
    NONE,
    CoordinatorNotAvailable,
    InconsistentGroupProtocol,
    KafkaError,
    NotCoordinator,
    RebalanceInProgress,
)
from ...api.error_mapping import kafka_error
from .classic_group import ClassicGroup
from .fencing import check_generation, check_member
from .group_states import DEAD, EMPTY, HEARTBEAT, PREPARING, STABLE, SYNC, Sync, can_rebalance
from .joins import Joins
from .member import Joining, JoinResult, Leaving, SyncResult
from .rebalance import Rebalancer

if TYPE_CHECKING:
    from ...clock import Clock
    from ...coordinators.background_writes import Writes
    from ...coordinators.coordinator_topic import AppendedBatch, Applied, KeyValue
    from ...settings.broker_config import BrokerConfig
    from ..group import Group
    from ..group_records import GroupMetadata
    from ..group_store import GroupStore


class Syncing(NamedTuple):
    """The fields of a SyncGroup."""

    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None
    """None, like `protocol_name`, in versions that lack it."""
    protocol_name: str | None
    assignments: Mapping[str, bytes]
    """By member id; only the leader sends them."""


class ClassicGroups:
    """Serves the members of classic groups. Belongs to the broker's loop."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, store: GroupStore, writes: Writes, changed: Callable[[str], None]
    ) -> None:
        """`changed` is called with the id of a group whose state has changed."""
        self._config = config
        self._clock = clock
        self._store = store
        self.rebalancer = Rebalancer(config, clock, store, writes, changed)
        self._joins = Joins(config, store, self.rebalancer)

    # --- life

    def loaded(self, group: ClassicGroup) -> None:
        """Begin the sessions of a loaded group's members anew."""
        for member in group.members.values():
            self.rebalancer.sessions.extend(member, group)

    def all_loaded(self, groups: Iterable[ClassicGroup]) -> None:
        """Have the members of these groups join again if a group is larger than `group.max.size` now."""
        for group in groups:
            if len(group.members) > self._config.group_max_size:
                self.rebalancer.prepare_rebalance(group, "group.max.size has become smaller than the group")

    def unload(self, group: ClassicGroup) -> None:
        """Make a group Dead that is coordinated elsewhere now."""
        if group.is_alive:
            self.rebalancer.mark_dead(group, NotCoordinator)
        else:
            group.state = DEAD  # most of a million groups only hold offsets

    def mark_removed(self, group: ClassicGroup) -> None:
        """Make a group Dead that is being removed; its clients try again meanwhile."""
        self.rebalancer.mark_dead(group, CoordinatorNotAvailable)

    def upgraded(self, group: ClassicGroup) -> None:
        """Make a group Dead in whose place a consumer group is now; its members find that when they join again."""
        self.rebalancer.mark_dead(group, RebalanceInProgress)

    def downgraded(self, group: ClassicGroup, reason: str | None) -> None:
        """Begin the sessions of a group that was a consumer group, and have its members join again if there is a
        reason."""
        self.loaded(group)
        if reason is not None:
            self.rebalancer.prepare_rebalance(group, reason)

    def create(
        self,
        group_id: str,
        *,
        appended: Callable[[ClassicGroup, AppendedBatch], None],
        failed: Callable[[ClassicGroup, GroupMetadata], None],
        replaced: Group | None = None,
    ) -> ClassicGroup:
        """A new group, which is stored at once. `appended` is called with it and the batch once its record is appended.
        It becomes Dead if that fails, and `failed` is called with it and what the log may hold. It may take the place
        of a group of another kind without members, whose offsets it keeps."""
        group = ClassicGroup(group_id, self._clock.now_ms())
        group.is_being_created = True
        before: list[KeyValue] = []
        if replaced is not None:
            group.take_place_of(replaced)
            before = replaced.tombstones()
        self.rebalancer.writes.start(self._store_new(group, before, partial(appended, group), failed))
        return group

    async def _store_new(
        self,
        group: ClassicGroup,
        before: list[KeyValue],
        applied: Applied,
        failed: Callable[[ClassicGroup, GroupMetadata], None],
    ) -> None:
        """Store a group without members. If the append fails the group is gone; if it was appended and not replicated
        in time, it stays as the log holds it, without members."""
        metadata = group.stored({})
        try:
            await self._store.write_group(group.group_id, metadata, applied, before=before)
        except Exception as error:
            self.rebalancer.mark_dead(group, type(kafka_error(error, "storing a new group")))
            failed(group, metadata)
        else:
            self.rebalancer.created(group)

    def session_ends(self, group: ClassicGroup) -> Iterator[tuple[str, int]]:
        """The client ids of the members whose session may end, and when, in liveness time."""
        for member in group.members.values():
            if not member.is_excused:
                yield member.client_id, member.deadline_ms

    # --- requests

    def join(self, group: ClassicGroup, joining: Joining, answer: asyncio.Future[JoinResult]) -> None:
        """Serve a JoinGroup; `answer` is set now or later. Raises Refused."""
        self._joins.join(group, joining, answer)

    def sync(self, group: ClassicGroup, syncing: Syncing, answer: asyncio.Future[SyncResult]) -> None:
        """Serve a SyncGroup; `answer` is set now, or once the leader has sent the assignment. Raises KafkaError."""
        action = SYNC[group.state]
        if group.state in (EMPTY, DEAD) and not isinstance(action, Sync):
            raise action
        member = check_member(group, syncing.member_id, syncing.instance_id)
        check_generation(group, syncing.generation_id)
        if syncing.protocol_type not in (None, group.protocol_type) or (
            syncing.protocol_name is not None and syncing.protocol_name != group.protocol_name
        ):
            raise InconsistentGroupProtocol("the group has agreed on another protocol")
        if not isinstance(action, Sync):
            raise action
        self.rebalancer.sync_received(group, member)
        if action is Sync.ANSWER:
            answer.set_result(SyncResult(NONE, group.protocol_type, group.protocol_name, member.assignment))
            return
        member.answer_sync(SyncResult(RebalanceInProgress.code))  # an earlier one
        member.sync = answer
        if member.member_id == group.leader_id:
            self.rebalancer.assign(group, syncing.assignments)

    def heartbeat(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation_id: int) -> None:
        """Extend a member's session. Raises KafkaError if it is no member, or has to join again."""
        refusal = HEARTBEAT[group.state]
        if refusal is not None and group.state is DEAD:
            raise refusal
        member = check_member(group, member_id, instance_id)
        check_generation(group, generation_id)
        self.rebalancer.sessions.extend(member, group)
        if refusal is not None:
            raise refusal

    def leave(self, group: ClassicGroup, leaving: Iterable[Leaving]) -> list[int]:
        """Remove members; the error code of each. Raises KafkaError where the error is the same for all."""
        if group.state is DEAD:
            raise CoordinatorNotAvailable("the group was removed")
        outcomes = [self._leave(group, one) for one in leaving]
        if NONE in outcomes:
            if group.state is PREPARING:
                self.rebalancer.try_complete_join(group)
            elif can_rebalance(group.state) and not group.is_empty:
                self.rebalancer.prepare_rebalance(group, "members left")
        return outcomes

    def _leave(self, group: ClassicGroup, leaving: Leaving) -> int:
        member_id, instance_id, reason = leaving
        if not member_id and instance_id is not None:
            member_id = group.static_members.get(instance_id, "")
        if not group.remove_pending_member(member_id):
            try:
                check_member(group, member_id, instance_id)
            except KafkaError as error:
                return error.code
            group.note_departure(member_id, reason, is_expelled=False)
            self.rebalancer.remove(group, member_id)
        return NONE

    def committed(self, group: ClassicGroup, member_id: str) -> None:
        """A member commits offsets: extend its session."""
        member = group.members.get(member_id)
        if member is not None and group.state in (PREPARING, STABLE):
            self.rebalancer.sessions.extend(member, group)

    def rebalance(self, group: ClassicGroup, reason: str) -> None:
        """Ask all members of a group to join again; nothing changes while they do."""
        if can_rebalance(group.state):
            self.rebalancer.prepare_rebalance(group, reason)

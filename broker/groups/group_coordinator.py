"""The group coordinator: requests of the classic group protocol, with Kafka's order of checks.

`group_states.py` holds what depends on the state of a group, as tables; `joins.py` serves JoinGroup; `rebalance.py`
waits and times out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    NONE,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    KafkaError,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from ...protocol.topics import CONSUMER_OFFSETS
from ..api.error_mapping import kafka_error
from .disconnects import Disconnects
from .fencing import check_commit, check_generation, check_member
from .group import Group, refused
from .group_states import DEAD, EMPTY, HEARTBEAT, PREPARING, STABLE, SYNC, Sync, can_rebalance
from .joins import Joins, Refused
from .member import Joining, JoinResult, Leaving, SyncResult
from .offset_expiry import expire, forget_topics, next_expiry_ms
from .rebalance import Rebalancer
from .shards import Shards

if TYPE_CHECKING:
    from ..clock import Clock
    from ..coordinators.coordinator_topic import AppendedBatch
    from ..coordinators.loader import Steps
    from ..replication.partition import Partition
    from ..settings.broker_config import BrokerConfig
    from .group_loader import LoadedGroup
    from .group_records import GroupMetadata
    from .group_store import GroupStore, OffsetChanges

GROUP_ID_NOT_FOUND_SINCE = 9
"""The first version of OffsetCommit that may answer GROUP_ID_NOT_FOUND (KIP-848)."""


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


class GroupCoordinator:
    """The groups that this broker coordinates. Belongs to the broker's loop."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: GroupStore,
        changed: Callable[[str], None] = lambda group_id: None,
    ) -> None:
        """`changed` is called with the id of a group whose state, or whose committed offsets, have changed."""
        self.changed = changed
        self.groups = Shards(store.partition_of)
        self.store = store
        self._config = config
        self._clock = clock
        self._rebalancer = Rebalancer(config, clock, store, changed)
        self._joins = Joins(config, store, self._rebalancer)
        self.disconnects = Disconnects(self) if config.kmini_group_expel_on_disconnect else None
        """Members that leave with their connection; None where members outlive it, as in Kafka."""

    # --- life

    def load(self, partition: Partition, loaded: Callable[[Group], None] | None = None) -> Steps:
        """Load the groups of a partition that this broker leads from now on, in steps; `loaded` is called with each.

        The sessions of the members begin anew.
        """
        too_large: list[Group] = []

        def take(group_id: str, stored: LoadedGroup) -> None:
            group = Group.restored(group_id, *stored)
            self.groups.put(group)
            for member in group.members.values():
                self._rebalancer.sessions.extend(member, group)
            if len(group.members) > self._config.group_max_size:
                too_large.append(group)
            if loaded is not None:
                loaded(group)
            self.changed(group_id)

        return self._load(self.store.load(partition, take), too_large)

    def _load(self, steps: Steps, too_large: Iterable[Group]) -> Steps:
        yield from steps
        for group in too_large:
            if self.groups.get(group.group_id) is group:
                self._rebalancer.prepare_rebalance(group, "group.max.size has become smaller than the group")

    def unload(self, number: int | None = None) -> Steps:
        """Unload all groups, or those of one partition, which this broker no longer leads. The returned steps free
        their memory."""
        self.store.topic.forget(number)
        unloaded = self.groups.pop(number)
        for shard in unloaded:
            for group in shard.values():
                if group.is_alive:
                    self._rebalancer.mark_dead(group, NotCoordinator)
                else:
                    group.state = DEAD  # most of a million groups only hold offsets
        return _discard(unloaded)

    async def stop(self) -> None:
        """Unload all groups, and wait for the writes in progress."""
        self.unload()
        await self._rebalancer.writes_done()

    def forget_topics(self, topic_ids: Mapping[str, bytes]) -> None:
        """Delete the offsets of deleted topics, given as ids by name, in the background."""
        if CONSUMER_OFFSETS in topic_ids:
            self.unload()
        else:
            self._rebalancer.start_write(forget_topics(self, topic_ids))

    async def expire_offsets(self) -> None:
        """Delete expired offsets and groups."""
        await expire(self, self._clock.now_ms(), self._config.offsets_retention_minutes * 60_000)

    def next_expiry_ms(self) -> int | None:
        """The log time before which `expire_offsets` has no effect unless a group changes; None if it never has one."""
        return next_expiry_ms(self, self._config.offsets_retention_minutes * 60_000)

    def keeps(self, group: Group) -> bool:
        """Whether `group` is still in memory and this broker leads its partition, so that it may be stored."""
        return self.groups.get(group.group_id) is group and self.store.leads(group.group_id)

    @property
    def completed_rebalances(self) -> int:
        """The number of rebalances that ended with a stored assignment."""
        return self._rebalancer.completed

    def _create(self, group_id: str) -> Group:
        """A new group, which is stored at once. It becomes Dead if that fails."""
        group = Group(group_id, self._clock.now_ms())
        group.is_being_created = True
        self._rebalancer.start_write(self._store_new(group))
        return group

    async def _store_new(self, group: Group) -> None:
        """Store a group without members. If the append fails the group is gone; if it was appended and not replicated
        in time, it stays as the log holds it, without members."""
        group_id, metadata = group.group_id, group.stored({})
        try:
            await self.store.write_group(group_id, metadata, partial(self.record_appended, group))
        except Exception as error:
            self._rebalancer.mark_dead(group, type(kafka_error(error, "storing a new group")))
            if self.groups.get(group_id) is group:
                self._replace(group, metadata)
        else:
            self._rebalancer.created(group)

    def _replace(self, dead: Group, metadata: GroupMetadata) -> None:
        """Replace a Dead group by one without members, of which `metadata` is stored."""
        group = Group.restored(dead.group_id, metadata, dead.offsets)
        group.is_shown = dead.is_shown
        self.groups.put(group)

    def record_appended(self, group: Group, written: AppendedBatch) -> None:
        """A record of the group was appended: keep the group in memory, and show it to readers once that record is
        replicated."""
        if group.group_id not in self.groups:
            self.groups.put(group)
        if not group.is_shown:
            written.when_replicated(partial(self._show, group.group_id))

    def _show(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is not None:
            group.is_shown = True

    def shown(self) -> list[Group]:
        """The groups of which the high watermark covers a record."""
        return [group for group in self.groups.values() if group.is_shown]

    # --- JoinGroup

    def join(self, group_id: str, joining: Joining) -> asyncio.Future[JoinResult]:
        """Serve a JoinGroup. The future may be done already, and never fails."""
        answer: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        try:
            self._joins.join(self._group_to_join(group_id, joining), joining, answer)
        except Refused as refusal:
            answer.set_result(refused(refusal.error, refusal.member_id))
        return answer

    def _group_to_join(self, group_id: str, joining: Joining) -> Group:
        """The group of a JoinGroup; created if it is missing and the client has no member id. Raises Refused."""
        member_id = joining.member_id
        if not group_id:
            raise Refused(InvalidGroupId, member_id)
        config = self._config
        if not (
            config.group_min_session_timeout_ms <= joining.session_timeout_ms <= config.group_max_session_timeout_ms
        ):
            raise Refused(InvalidSessionTimeout, member_id)
        if not joining.can_be_kept:
            raise Refused(InvalidRequest, member_id)
        try:
            self.store.check(group_id)
        except KafkaError as error:
            raise Refused(type(error)) from error
        group = self.groups.get(group_id)
        if group is None:
            if member_id:
                raise Refused(UnknownMemberId, member_id)
            group = self._create(group_id)
        return group

    # --- SyncGroup

    def sync(self, group_id: str, syncing: Syncing) -> asyncio.Future[SyncResult]:
        """Serve a SyncGroup, once the leader has sent the assignment. The future may be done already, and never
        fails."""
        answer: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        try:
            self._sync(group_id, syncing, answer)
        except KafkaError as error:
            answer.set_result(SyncResult(error.code))
        return answer

    def _sync(self, group_id: str, syncing: Syncing, answer: asyncio.Future[SyncResult]) -> None:
        group = self._group_of_member(group_id)
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
        self._rebalancer.sync_received(group, member)
        if action is Sync.ANSWER:
            answer.set_result(SyncResult(NONE, group.protocol_type, group.protocol_name, member.assignment))
            return
        member.answer_sync(SyncResult(RebalanceInProgress.code))  # an earlier one
        member.sync = answer
        if member.member_id == group.leader_id:
            self._rebalancer.assign(group, syncing.assignments)

    # --- Heartbeat

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> None:
        """Extend a member's session. Raises KafkaError if it is no member, or has to join again. As in Kafka, a
        heartbeat succeeds while the group is loading."""
        try:
            group = self._group_of_member(group_id)
        except CoordinatorLoadInProgress:
            return
        refusal = HEARTBEAT[group.state]
        if refusal is not None and group.state is DEAD:
            raise refusal
        member = check_member(group, member_id, instance_id)
        check_generation(group, generation_id)
        self._rebalancer.sessions.extend(member, group)
        if refusal is not None:
            raise refusal

    # --- LeaveGroup

    def leave(self, group_id: str, leaving: Iterable[Leaving]) -> list[int]:
        """Remove members; the error code of each. Raises KafkaError where the error is the same for all."""
        group = self._group_of_member(group_id)
        if group.state is DEAD:
            raise CoordinatorNotAvailable("the group was removed")
        outcomes = [self._leave(group, one) for one in leaving]
        if NONE in outcomes:
            if group.state is PREPARING:
                self._rebalancer.try_complete_join(group)
            elif can_rebalance(group.state) and not group.is_empty:
                self._rebalancer.prepare_rebalance(group, "members left")
        return outcomes

    def _leave(self, group: Group, leaving: Leaving) -> int:
        member_id, instance_id, reason = leaving
        if not member_id and instance_id is not None:
            member_id = group.static_members.get(instance_id, "")
        if not group.remove_pending_member(member_id):
            try:
                check_member(group, member_id, instance_id)
            except KafkaError as error:
                return error.code
            group.note_departure(member_id, reason, is_expelled=False)
            self._rebalancer.remove(group, member_id)
        return NONE

    # --- administration and commits

    def find(self, group_id: str, *, shown_only: bool = False) -> Group:
        """The group; with `shown_only`, only if readers are shown it. Raises GroupIdNotFound, NotCoordinator,
        CoordinatorLoadInProgress."""
        self.store.check(group_id, allow_empty=True)
        group = self.groups.get(group_id)
        if group is None or (shown_only and not group.is_shown):
            raise GroupIdNotFound(f"there is no group {group_id}")
        return group

    def group_for_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int, version: int
    ) -> Group:
        """The group in which a client may commit offsets; a commit extends the session of a member.

        A client that is no member may commit in a group that does not exist: it gets a new one, which `commit` keeps.
        Raises GroupIdNotFound or, below OffsetCommit v9, IllegalGeneration, and what `fencing.check_commit` does.
        """
        group = self.groups.get(group_id)
        if group is None:
            if generation_id >= 0:
                error = GroupIdNotFound if version >= GROUP_ID_NOT_FOUND_SINCE else IllegalGeneration
                raise error("there is no such group")
            group = Group(group_id, self._clock.now_ms())
        check_commit(group, member_id, instance_id, generation_id)
        member = group.members.get(member_id)
        if member is not None and group.state in (PREPARING, STABLE):
            self._rebalancer.sessions.extend(member, group)
        return group

    async def commit(self, group: Group, changes: OffsetChanges) -> None:
        """Write offsets of a group, which is kept in memory then. Raises what `GroupStore.write_offsets` does."""
        applied = None if group.is_shown else partial(self.record_appended, group)
        await self.store.write_offsets(changes, group.offsets, applied)
        self.changed(group.group_id)

    def rebalance(self, group_id: str, reason: str) -> None:
        """Ask all members of a group to join again; nothing changes while they do. Raises what `find` does, and
        UnknownMemberId for a group without members."""
        group = self.find(group_id)
        if not group.members:
            raise UnknownMemberId("the group has no members")
        if can_rebalance(group.state):
            self._rebalancer.prepare_rebalance(group, reason)

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, and its offsets. Raises GroupIdNotFound, NonEmptyGroup, or what the store
        does. The group is Dead until its tombstone is replicated, even if that times out."""
        group = self.find(group_id)
        group.check_delete()
        before = group.stored({})
        self._rebalancer.mark_dead(group, CoordinatorNotAvailable)  # clients try again meanwhile
        is_appended = False

        def applied(written: AppendedBatch) -> None:
            nonlocal is_appended
            is_appended = True
            written.when_replicated(partial(self.groups.drop, group))

        try:
            await self.store.write_tombstone(group_id, group.offsets, applied)
        finally:
            if not is_appended and self.groups.get(group_id) is group:
                self._replace(group, before)

    def _group_of_member(self, group_id: str) -> Group:
        """The group of a request that a member sends. Raises UnknownMemberId if it does not exist, InvalidGroupId,
        NotCoordinator, CoordinatorLoadInProgress."""
        self.store.check(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise UnknownMemberId("there is no such group")
        return group


def _discard(shards: list[dict[str, Group]]) -> Steps:
    """Free unloaded groups a few at a time, because freeing a million offsets takes long."""
    for shard in shards:
        while shard:
            _, group = shard.popitem()
            for _ in group.offsets.clear():
                yield
            yield

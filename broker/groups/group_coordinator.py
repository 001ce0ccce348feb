"""The group coordinator: the groups in memory, their life, and which kind of group serves a request.

The kinds are in rooms of their own: `classic/` has the classic protocol, `consumer/` that of KIP-848, and `modern/`
what all kinds have in common that the coordinator assigns. `group.py` has what a group of any kind refuses, as its
deletion while it has members.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    KafkaError,
    UnknownMemberId,
)
from ...protocol.topics import CONSUMER_OFFSETS
from ...protocol.uuids import ZERO_UUID
from ..api.error_mapping import kafka_error
from ..coordinators.background_writes import Writes
from .classic.classic_group import ClassicGroup
from .classic.classic_groups import ClassicGroups, Syncing
from .classic.joins import Refused, check_fields
from .classic.member import Joining, JoinResult, Leaving, SyncResult, refused
from .consumer.classic_members import ClassicMembers
from .consumer.consumer_group import ConsumerGroup
from .consumer.heartbeats import Heartbeats
from .consumer.life import ConsumerGroupLife
from .consumer.member_steps import MemberSteps
from .consumer.regex_resolution import Expressions
from .coordinator_searches import CoordinatorSearches
from .disconnects import Disconnects
from .group import Committer, Group, Place
from .groups_by_partition import Shards, discard
from .modern.group_life import Coordinated, GroupLife
from .modern.modern_group import ModernGroup
from .modern.topic_catalog import Catalog
from .offset_expiry import expire, forget_topics, next_expiry_ms
from .share.share_group import ShareGroup
from .share.share_groups import ShareGroups
from .streams.streams_group import StreamsGroup
from .streams.streams_groups import StreamsGroups

if TYPE_CHECKING:
    from ..clock import Clock
    from ..coordinators.coordinator_topic import AppendedBatch
    from ..coordinators.loader import Steps
    from ..replication.partition import Partition
    from ..settings.broker_config import BrokerConfig
    from ..settings.group_config import GroupConfig
    from ..share_state.persister import Persister
    from .group_loader import LoadedGroup
    from .group_records import GroupMetadata
    from .group_store import GroupStore, OffsetChanges
    from .modern.topic_catalog import Metadata

log = logging.getLogger("kmini.groups")

GROUP_ID_NOT_FOUND_SINCE = 9
"""The first version of OffsetCommit that may answer GROUP_ID_NOT_FOUND (KIP-848)."""


def no_persister() -> Persister:
    """In place of a persister where there is no share coordinator. Raises CoordinatorNotAvailable."""
    raise CoordinatorNotAvailable("there is no share coordinator")


_NO_GROUP: tuple[type[KafkaError], type[KafkaError]] = (IllegalGeneration, GroupIdNotFound)


class GroupCoordinator:
    """The groups that this broker coordinates. Belongs to the broker's loop."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: GroupStore,
        metadata: Metadata,
        settings: Callable[[str], GroupConfig],
        changed: Callable[[str], None] = lambda group_id: None,
        persister: Callable[[], Persister] = no_persister,
    ) -> None:
        """`metadata` has the topics, `settings` gives those of a group id. `changed` is called with the id of a group
        whose state, or whose committed offsets, have changed. `persister` gives what reaches the share coordinators."""
        self.changed = changed
        self.groups = Shards(store.partition_of)
        self.store = store
        self.searches = CoordinatorSearches(clock)
        self._config = config
        self._clock = clock
        self._catalog = Catalog(metadata)
        self.writes = Writes()
        self.classic = ClassicGroups(config, clock, store, self.writes, changed)
        shared = Coordinated(
            config,
            clock,
            store,
            self.groups,
            self.classic,
            self._catalog,
            settings,
            self.writes,
            self.record_appended,
            changed,
        )
        self.consumer_life = ConsumerGroupLife(shared)
        self.streams = StreamsGroups(shared)
        self.share = ShareGroups(shared, persister)
        self._lives: dict[str, GroupLife[Any, Any]] = {
            ConsumerGroup.group_type: self.consumer_life,
            ShareGroup.group_type: self.share.life,
            StreamsGroup.group_type: self.streams.life,
        }
        expressions = Expressions(self.consumer_life)
        self.member_steps = MemberSteps(self.consumer_life, expressions)
        self.consumer = Heartbeats(self.consumer_life, self.member_steps, expressions)
        self._classic_members = ClassicMembers(self.consumer_life, self.member_steps)
        self.disconnects = Disconnects(self) if config.kmini_group_expel_on_disconnect else None
        """Members that leave with their connection; None where members outlive it, as in Kafka."""

    # --- life

    def load(self, partition: Partition, loaded: Callable[[Group], None] | None = None) -> Steps:
        """Load the groups of a partition that this broker leads from now on, in steps; `loaded` is called with each.

        The sessions of the members begin anew.
        """
        classic: list[ClassicGroup] = []

        def take(group_id: str, stored: LoadedGroup) -> None:
            group = self._restored(group_id, stored)
            self.groups.put(group)
            if isinstance(group, ModernGroup):
                self.life_of(group).loaded(group)
            elif isinstance(group, ClassicGroup) and group.members:
                self.classic.loaded(group)
                classic.append(group)
            if loaded is not None:
                loaded(group)
            self.changed(group_id)

        return self._load(self.store.load(partition, take), classic)

    def _restored(self, group_id: str, stored: LoadedGroup) -> Group:
        """The group as its partition holds it."""
        if not stored.changes:
            return ClassicGroup.restored(group_id, stored.metadata, stored.offsets)
        group: ModernGroup[Any, Any, Any] = self._lives[stored.kind].new(group_id)
        group.is_shown, group.offsets = True, stored.offsets
        for change in stored.changes:
            change.apply(group)
        return group

    def _load(self, steps: Steps, classic: Iterable[ClassicGroup]) -> Steps:
        yield from steps
        self.classic.all_loaded(group for group in classic if self.groups.get(group.group_id) is group)

    def unload(self, number: int | None = None) -> Steps:
        """Unload all groups, or those of one partition, which this broker no longer leads. The returned steps free
        their memory."""
        self.store.topic.forget(number)
        unloaded = self.groups.pop(number)
        for shard in unloaded:
            for group in shard.values():
                if isinstance(group, ModernGroup):
                    self.life_of(group).unload(group)
                else:
                    self.classic.unload(_classic(group))
        return discard(unloaded)

    async def stop(self) -> None:
        """Unload all groups, and wait for the writes in progress."""
        self.unload()
        await self.writes_done()

    async def writes_done(self) -> None:
        """Wait for the writes in progress."""
        await self.writes.done()

    def forget_topics(self, topic_ids: Mapping[str, bytes]) -> None:
        """Delete the offsets of deleted topics, given as ids by name, in the background."""
        if CONSUMER_OFFSETS in topic_ids:
            self.unload()
        else:
            self.writes.start(forget_topics(self, topic_ids))
            for group in self.groups.values():
                if isinstance(group, ShareGroup):
                    self.writes.start(self._forget_states(group, topic_ids.values()))

    async def _forget_states(self, group: ShareGroup, topic_ids: Collection[bytes]) -> None:
        try:
            await self.share.states.forget_topics(group, topic_ids)
        except KafkaError as error:
            log.warning("group %s: states of deleted topics are still noted: %s", group.group_id, error)

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
        """The number of rebalances of classic groups that ended with a stored assignment."""
        return self.classic.rebalancer.completed

    def _creation_failed(self, group: ClassicGroup, metadata: GroupMetadata) -> None:
        if self.groups.get(group.group_id) is group:
            self._replace(group, metadata)

    def _replace(self, dead: ClassicGroup, metadata: GroupMetadata) -> None:
        """Replace a Dead group by one without members, of which `metadata` is stored."""
        group = ClassicGroup.restored(dead.group_id, metadata, dead.offsets)
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

    def life_of(self, group: ModernGroup[Any, Any, Any]) -> GroupLife[Any, Any]:
        """What happens to the groups of its kind."""
        return self._lives[group.group_type]

    def session_ends(self, group: Group) -> Iterator[tuple[str, int]]:
        """The client ids of the members whose session may end, and when, in liveness time."""
        if isinstance(group, ModernGroup):
            return self.life_of(group).session_ends(group)
        return self.classic.session_ends(_classic(group))

    # --- JoinGroup

    def join(self, group_id: str, joining: Joining) -> asyncio.Future[JoinResult]:
        """Serve a JoinGroup. The future may be done already, and never fails."""
        answer: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        self._join(group_id, joining, answer)
        return answer

    def _join(self, group_id: str, joining: Joining, answer: asyncio.Future[JoinResult]) -> None:
        try:
            group = self._group_to_join(group_id, joining)
            if isinstance(group, ConsumerGroup):
                self.writes.start(self._join_consumer_group(group, joining, answer))
            else:
                self.classic.join(_classic(group), joining, answer)
        except Refused as refusal:
            answer.set_result(refused(refusal.error, refusal.member_id))

    async def _join_consumer_group(
        self, group: ConsumerGroup, joining: Joining, answer: asyncio.Future[JoinResult]
    ) -> None:
        await self.consumer_life.turns.free(group.group_id)
        if self.groups.get(group.group_id) is not group:
            self._join(group.group_id, joining, answer)
            return
        try:
            result = await self._classic_members.join(group, joining)
        except Refused as refusal:
            result = refused(refusal.error, refusal.member_id)
        except Exception as error:
            result = refused(type(kafka_error(error, "a member joining a consumer group")), joining.member_id)
        if not answer.done():  # it is cancelled if the connection was lost
            answer.set_result(result)

    def _group_to_join(self, group_id: str, joining: Joining) -> Group:
        """The group of a JoinGroup; created if it is missing and the client has no member id. Raises Refused."""
        member_id = joining.member_id
        if not group_id:
            raise Refused(InvalidGroupId, member_id)
        check_fields(joining, self._config)
        try:
            self.store.check(group_id)
        except KafkaError as error:
            raise Refused(type(error)) from error
        group = self.groups.get(group_id)
        if group is None:
            if member_id:
                raise Refused(UnknownMemberId, member_id)
            return self.classic.create(group_id, appended=self.record_appended, failed=self._creation_failed)
        if isinstance(group, ModernGroup) and group.is_removed:
            raise Refused(CoordinatorNotAvailable, member_id)
        if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and not group.is_empty):
            raise Refused(InconsistentGroupProtocol)
        if isinstance(group, ModernGroup) and group.is_empty:
            return self.classic.create(
                group_id, appended=self._put_classic, failed=self._creation_failed, replaced=group
            )
        return group

    def _put_classic(self, group: ClassicGroup, batch: AppendedBatch) -> None:
        """A classic group has taken the place of a group of another kind without members."""
        self.groups.put(group)
        self.record_appended(group, batch)

    # --- SyncGroup

    def sync(self, group_id: str, syncing: Syncing) -> asyncio.Future[SyncResult]:
        """Serve a SyncGroup, once the leader has sent the assignment. The future may be done already, and never
        fails."""
        answer: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        try:
            group = self._group_of_member(group_id)
            if isinstance(group, ConsumerGroup):
                answer.set_result(self._classic_members.sync(group, syncing))
            else:
                self.classic.sync(_classic(group), syncing, answer)
        except KafkaError as error:
            answer.set_result(SyncResult(error.code))
        return answer

    # --- Heartbeat

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> None:
        """Extend a member's session. Raises KafkaError if it is no member, or has to join again. As in Kafka, a
        heartbeat succeeds while the group is loading."""
        try:
            group = self._group_of_member(group_id)
        except CoordinatorLoadInProgress:
            return
        if isinstance(group, ConsumerGroup):
            self._classic_members.heartbeat(group, member_id, instance_id, generation_id)
        else:
            self.classic.heartbeat(_classic(group), member_id, instance_id, generation_id)

    # --- LeaveGroup

    async def leave(self, group_id: str, leaving: Iterable[Leaving]) -> list[int]:
        """Remove members; the error code of each. Raises KafkaError where the error is the same for all."""
        group = self._group_of_member(group_id)
        if isinstance(group, ConsumerGroup):
            await self.consumer_life.turns.free(group_id)
            group = self._group_of_member(group_id)
        if isinstance(group, ConsumerGroup):
            return await self._classic_members.leave(group, leaving)
        return self.classic.leave(_classic(group), leaving)

    # --- administration and commits

    def find(self, group_id: str, *, shown_only: bool = False) -> Group:
        """The group; with `shown_only`, only if readers are shown it. Raises GroupIdNotFound, NotCoordinator,
        CoordinatorLoadInProgress."""
        self.store.check(group_id, allow_empty=True)
        group = self.groups.get(group_id)
        if group is None or (shown_only and not group.is_shown):
            raise GroupIdNotFound(f"there is no group {group_id}")
        return group

    def group_for_commit(self, committer: Committer, changes: OffsetChanges) -> Group:
        """The group in which a client may commit these offsets; a commit extends the session of a classic member.

        A client that is no member may commit in a group that does not exist: it gets a new one, which `commit` keeps.
        Raises GroupIdNotFound or IllegalGeneration where there is no group, and what the checks of its kind do.
        """
        group = self.groups.get(changes.group_id)
        if group is None:
            if committer.generation_id >= 0:
                raise _NO_GROUP[(committer.version or 0) >= GROUP_ID_NOT_FOUND_SINCE]("there is no such group")
            group = ClassicGroup(changes.group_id, self._clock.now_ms())
        group.check_commit(committer, partial(self._places, changes))
        if isinstance(group, ClassicGroup) and not committer.is_transactional:
            self.classic.committed(group, committer.member_id)
        return group

    def _places(self, changes: OffsetChanges) -> Iterator[Place]:
        """The partitions of these offsets; a commit in a transaction does not tell the ids of its topics."""
        for topic_partition, committed in changes.outcome:
            topic_id = ZERO_UUID if committed is None else committed.topic_id
            if topic_id == ZERO_UUID:
                topic_id = self._catalog.id_of(topic_partition.topic) or ZERO_UUID
            yield Place(topic_partition.topic, topic_id, topic_partition.partition)

    async def commit(self, group: Group, changes: OffsetChanges) -> None:
        """Write offsets of a group, which is kept in memory then. Raises what `GroupStore.write_offsets` does."""
        applied = None if group.is_shown else partial(self.record_appended, group)
        await self.store.write_offsets(changes, group.offsets, applied)
        self.changed(group.group_id)

    async def rebalance(self, group_id: str, reason: str) -> None:
        """Have the members of a group join again, or its target assignment computed anew; nothing else changes. Raises
        what `find` does, and UnknownMemberId for a group without members."""
        group = self.find(group_id)
        if not group.members:
            raise UnknownMemberId("the group has no members")
        if isinstance(group, ModernGroup):
            await self.life_of(group).rebalance(group)
        else:
            self.classic.rebalance(_classic(group), reason)

    async def expel(self, group_id: str, member_id: str, reason: str) -> None:
        """Remove a member, if it is one. Raises what `find` and the store do."""
        group = self.find(group_id)
        if isinstance(group, ModernGroup):
            await self.life_of(group).remove(group_id, {member_id: reason}, is_expelled=False)
        else:
            self.classic.leave(_classic(group), [Leaving(member_id, reason=reason)])

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, and its offsets; of a share group the states of its partitions first. Raises
        GroupIdNotFound, NonEmptyGroup, or what the store does. The group is Dead until its tombstone is replicated,
        even if that times out."""
        group = self.find(group_id)
        group.check_delete()
        if isinstance(group, ShareGroup):
            await self.share.states.delete_all(group)
            group = self.find(group_id)
            group.check_delete()
        restore = self._mark_removed(group)
        is_appended = False

        def applied(written: AppendedBatch) -> None:
            nonlocal is_appended
            is_appended = True
            written.when_replicated(partial(self.groups.drop, group))

        try:
            await self.store.write_tombstones(group_id, group.offsets, group.tombstones(), applied)
        finally:
            if not is_appended and self.groups.get(group_id) is group:
                restore()

    def _mark_removed(self, group: Group) -> Callable[[], None]:
        """Make a group Dead; the returned call undoes it."""
        if isinstance(group, ModernGroup):
            group.mark_removed()
            return partial(group.mark_removed, is_removed=False)
        classic = _classic(group)
        before = classic.stored({})
        self.classic.mark_removed(classic)
        return partial(self._replace, classic, before)

    def _group_of_member(self, group_id: str) -> Group:
        """The group of a request that a member sends. Raises UnknownMemberId if it does not exist, InvalidGroupId,
        NotCoordinator, CoordinatorLoadInProgress."""
        self.store.check(group_id)
        group = self.groups.get(group_id)
        if not isinstance(group, (ClassicGroup, ConsumerGroup)):
            raise UnknownMemberId("there is no such group for members of the classic protocol")
        return group


def _classic(group: Group) -> ClassicGroup:
    """The group, which is known to be a classic one."""
    assert isinstance(group, ClassicGroup)
    return group

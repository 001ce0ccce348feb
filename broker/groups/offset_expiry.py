"""The expiry of committed offsets, and the removal of offsets of deleted topics and of groups that are empty.

| group                                         | an offset expires `offsets.retention.minutes` after  |
|-----------------------------------------------|------------------------------------------------------|
| Empty, and once had members                   | the group became Empty (if that is not known: its commit) |
| Stable, with known subscriptions of consumers | its commit, if no member subscribes to its topic     |
| never had members (a simple consumer's)       | its commit                                           |
| any other                                     | never                                                |

An offset with its own time of expiry (OffsetCommit v2 to v4) expires then, in the same groups. An offset that an open
transaction may replace does not expire. An Empty group without offsets is deleted, unless it is a share group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import CoordinatorLoadInProgress, KafkaError
from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID
from ..scheduler import Turn
from .committed_offsets import CommittedOffset

if TYPE_CHECKING:
    from .group import Group
    from .group_store import GroupStore
    from .groups_by_partition import Shards

log = logging.getLogger("kmini.groups")


class CleanedCoordinator(Protocol):
    """The group coordinator, as cleanup uses it."""

    groups: Shards
    store: GroupStore

    def keeps(self, group: Group) -> bool: ...

    async def delete(self, group_id: str) -> None: ...


async def expire(coordinator: CleanedCoordinator, now_ms: int, retention_ms: int) -> None:
    """Delete all that has expired by `now_ms`, log time."""
    turn = Turn()
    for group in list(coordinator.groups.values()):
        if not coordinator.keeps(group):
            continue
        try:
            await _expire(coordinator, group, now_ms, retention_ms, turn)
        except CoordinatorLoadInProgress:
            continue  # the next round finds it loaded
        except KafkaError as error:
            if coordinator.keeps(group):
                log.error("offsets of group %r could not be expired: %s", group.group_id, error)


async def _expire(coordinator: CleanedCoordinator, group: Group, now_ms: int, retention_ms: int, turn: Turn) -> None:
    removed = dict(expired(group, now_ms, retention_ms))
    has_none_left = len(removed) == len(group.offsets) and not group.offsets.has_pending
    if has_none_left and group.is_empty and group.expires:
        log.info("group %r is deleted, with %d expired offsets", group.group_id, len(removed))
        await coordinator.delete(group.group_id)
    else:
        await _remove(coordinator, group, removed, turn)
    if turn.is_over:
        await turn.next()


def expired(group: Group, now_ms: int, retention_ms: int) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
    """The expired offsets of a group; see the table above."""
    if group.keeps_all_offsets:
        return
    empty_since_ms = group.empty_since_ms
    for topic, partitions in group.offsets.by_topic.items():
        if group.is_subscribed_to(topic):
            continue
        for partition, committed in partitions.items():
            if _is_over(committed, empty_since_ms, now_ms, retention_ms):
                topic_partition = TopicPartition(topic, partition)
                if not group.offsets.is_pending(topic_partition):
                    yield topic_partition, committed


def _is_over(committed: CommittedOffset, empty_since_ms: int | None, now_ms: int, retention_ms: int) -> bool:
    return now_ms >= _over_ms(committed, empty_since_ms, retention_ms)


def _over_ms(committed: CommittedOffset, empty_since_ms: int | None, retention_ms: int) -> int:
    if committed.expire_timestamp_ms is not None:
        return committed.expire_timestamp_ms
    return (committed.commit_timestamp_ms if empty_since_ms is None else empty_since_ms) + retention_ms


def next_expiry_ms(coordinator: CleanedCoordinator, retention_ms: int) -> int | None:
    """The log time before which `expire` has no effect unless a group changes; None if it never has one.

    May be too early, where subscriptions or open transactions keep offsets.
    """
    earliest: int | None = None
    for group in coordinator.groups.values():
        if not group.offsets and group.is_empty and group.expires:
            return 0
        empty_since_ms = group.empty_since_ms
        for partitions in group.offsets.by_topic.values():
            for committed in partitions.values():
                over_ms = _over_ms(committed, empty_since_ms, retention_ms)
                earliest = over_ms if earliest is None else min(earliest, over_ms)
    return earliest


async def forget_topics(coordinator: CleanedCoordinator, topic_ids: Mapping[str, bytes]) -> None:
    """Delete the offsets of deleted topics, given as ids by name, in every group. Offsets that were committed for new
    topics of these names stay."""
    turn = Turn()
    for group in list(coordinator.groups.values()):
        if not coordinator.keeps(group):
            continue
        by_topic = group.offsets.by_topic
        removed: dict[TopicPartition, CommittedOffset | None] = {
            TopicPartition(name, partition): committed
            for name, topic_id in topic_ids.items()
            for partition, committed in by_topic.get(name, {}).items()
            if committed.topic_id in (ZERO_UUID, topic_id)
        }
        for topic_partition in group.offsets.pending_partitions():
            if topic_partition.topic in topic_ids:
                removed.setdefault(topic_partition, None)
        try:
            await _remove(coordinator, group, removed, turn)
        except KafkaError as error:
            if coordinator.keeps(group):
                log.error("offsets of deleted topics stay in group %r until they expire: %s", group.group_id, error)
        if turn.is_over:
            await turn.next()


async def _remove(
    coordinator: CleanedCoordinator, group: Group, removed: Mapping[TopicPartition, CommittedOffset | None], turn: Turn
) -> None:
    """Write tombstones, in as many batches as they need, except for offsets that were committed again meanwhile. The
    value None stands for an offset that was only pending."""
    changes = coordinator.store.changes(group.group_id)
    for topic_partition, committed in removed.items():
        if changes.is_full:
            await coordinator.store.write_offsets(changes, group.offsets)
            changes = coordinator.store.changes(group.group_id)
            if turn.is_over:
                await turn.next()
            if not coordinator.keeps(group):
                return
        if group.offsets.get(topic_partition) is committed:
            changes.remove(topic_partition)
    await coordinator.store.write_offsets(changes, group.offsets)

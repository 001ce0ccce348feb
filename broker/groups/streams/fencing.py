"""Fences of a streams group: the checks of a client that commits or reads offsets (KIP-1071).

They are those of a consumer group, with the tasks that read a topic for its partitions: a commit with an older epoch is
accepted if the member had each of these tasks active at or before that epoch, and has it still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ....protocol.errors import IllegalGeneration, KafkaError, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from ..group import MEMBER_EPOCHS_SINCE

if TYPE_CHECKING:
    from ..group import Committer, Place
    from .streams_group import StreamsGroup


def check_commit(group: StreamsGroup, committer: Committer, places: Callable[[], Iterable[Place]]) -> None:
    """Check whether a client may commit offsets of these places. Raises UnknownMemberId, UnsupportedVersion,
    StaleMemberEpoch, and IllegalGeneration instead of that in transactions."""
    epoch = committer.generation_id
    if epoch < 0 and not group.memberships:
        return
    if committer.is_transactional and epoch < 0 and not committer.member_id and committer.instance_id is None:
        return
    _check_member(group, committer.member_id)
    if committer.version is not None and committer.version < MEMBER_EPOCHS_SINCE:
        raise UnsupportedVersion(f"members of this group commit with OffsetCommit {MEMBER_EPOCHS_SINCE} or later")
    current = group.current(committer.member_id)
    if epoch == current.epoch:
        return
    error: type[KafkaError] = IllegalGeneration if committer.is_transactional else StaleMemberEpoch
    if epoch > current.epoch:
        raise error(f"the member epoch is {current.epoch}, not {epoch}")
    readers = {} if group.topology is None else group.topology.readers
    for place in places():
        subtopology_id = readers.get(place.topic, "")
        assigned_at = current.active.get(subtopology_id, {}).get(place.partition)
        if assigned_at is None:
            assigned_at = current.revoking_active.get(subtopology_id, {}).get(place.partition)
        if assigned_at is None or epoch < assigned_at:
            raise error(
                f"the member epoch is {current.epoch}, and the member did not read {place.topic}-{place.partition} "
                f"at {epoch}"
            )


def check_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> None:
    """Check whether a client may read the committed offsets. Raises UnknownMemberId, StaleMemberEpoch."""
    if member_id is None and epoch < 0:
        return
    _check_member(group, member_id or "")
    current = group.current(member_id or "")
    if epoch != current.epoch:
        raise StaleMemberEpoch(f"the member epoch is {current.epoch}, not {epoch}")


def _check_member(group: StreamsGroup, member_id: str) -> None:
    if member_id not in group.memberships:
        raise UnknownMemberId(f"there is no member {member_id!r}")

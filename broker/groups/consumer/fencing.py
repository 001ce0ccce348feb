"""Fences of a consumer group: the checks of a client that commits or reads offsets (KIP-848).

The epoch of a member counts as the generation does in the classic protocol. A commit with an older epoch is accepted if
the member was assigned each partition at or before that epoch, and has it still; else the whole request is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ....protocol.errors import IllegalGeneration, KafkaError, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from ..group import MEMBER_EPOCHS_SINCE

if TYPE_CHECKING:
    from ..group import Committer, Place
    from .consumer_group import ConsumerGroup
    from .members import Membership


def check_commit(group: ConsumerGroup, committer: Committer, places: Callable[[], Iterable[Place]]) -> None:
    """Check whether a client may commit offsets of these places. Raises UnknownMemberId, UnsupportedVersion,
    StaleMemberEpoch, and IllegalGeneration instead of that for members of the classic protocol and in transactions."""
    epoch = committer.generation_id
    if epoch < 0 and not group.memberships:
        return
    if committer.is_transactional and epoch < 0 and not committer.member_id and committer.instance_id is None:
        return
    membership = _member(group, committer.member_id)
    is_classic = membership.classic is not None
    if committer.version is not None and committer.version < MEMBER_EPOCHS_SINCE and not is_classic:
        raise UnsupportedVersion(f"members of this group commit with OffsetCommit {MEMBER_EPOCHS_SINCE} or later")
    current = group.current(membership.member_id)
    if epoch == current.epoch:
        return
    error: type[KafkaError] = IllegalGeneration if is_classic or committer.is_transactional else StaleMemberEpoch
    if epoch > current.epoch:
        raise error(f"the member epoch is {current.epoch}, not {epoch}")
    for _, topic_id, partition in places():
        assigned_at = current.assigned.get(topic_id, {}).get(partition)
        if assigned_at is None:
            assigned_at = current.revoking.get(topic_id, {}).get(partition)
        if assigned_at is None or epoch < assigned_at:
            raise error(f"the member epoch is {current.epoch}, and the member was not assigned a partition at {epoch}")


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Check whether a client may read the committed offsets. Raises UnknownMemberId, StaleMemberEpoch, and
    IllegalGeneration instead of that for members of the classic protocol."""
    if member_id is None and epoch < 0:
        return
    membership = _member(group, member_id or "")
    current = group.current(membership.member_id)
    if epoch != current.epoch:
        error = StaleMemberEpoch if membership.classic is None else IllegalGeneration
        raise error(f"the member epoch is {current.epoch}, not {epoch}")


def _member(group: ConsumerGroup, member_id: str) -> Membership:
    membership = group.memberships.get(member_id)
    if membership is None:
        raise UnknownMemberId(f"there is no member {member_id!r}")
    return membership

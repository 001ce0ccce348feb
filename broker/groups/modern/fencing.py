"""Fences of a group that the coordinator assigns: commits and fetches of offsets by a member whose epoch does not count
are refused (KIP-848).

| request         | member                                     | epoch                                                 |
|-----------------|--------------------------------------------|-------------------------------------------------------|
| OffsetCommit    | checked, unless it gives no epoch and the  | the member's; an older one if the member had all of   |
|                 | group is empty                             | the partitions at it, and has them still              |
| TxnOffsetCommit | checked, unless it names none              | likewise                                              |
| OffsetFetch     | checked, unless it names none              | the member's                                          |

A wrong epoch is STALE_MEMBER_EPOCH; for a member of the classic protocol, and in a transaction, ILLEGAL_GENERATION.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ....protocol.errors import IllegalGeneration, KafkaError, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from ..group import MEMBER_EPOCHS_SINCE

if TYPE_CHECKING:
    from ..group import Committer, Place
    from .modern_group import ModernGroup


def check_commit(
    group: ModernGroup[Any, Any, Any], committer: Committer, places: Callable[[], Iterable[Place]]
) -> None:
    """Check whether a client may commit offsets of these places. Raises UnknownMemberId, UnsupportedVersion,
    StaleMemberEpoch, and IllegalGeneration instead of that for members of the classic protocol and in transactions."""
    member_id, epoch = committer.member_id, committer.generation_id
    if epoch < 0 and not group.memberships:
        return
    if committer.is_transactional and epoch < 0 and not member_id and committer.instance_id is None:
        return
    _check_member(group, member_id)
    is_classic = group.speaks_classic(member_id)
    if committer.version is not None and committer.version < MEMBER_EPOCHS_SINCE and not is_classic:
        raise UnsupportedVersion(f"members of this group commit with OffsetCommit {MEMBER_EPOCHS_SINCE} or later")
    present = group.epoch_of(member_id)
    if epoch == present:
        return
    error: type[KafkaError] = IllegalGeneration if is_classic or committer.is_transactional else StaleMemberEpoch
    if epoch > present:
        raise error(f"the member epoch is {present}, not {epoch}")
    for place in places():
        assigned_at = group.assigned_at(member_id, place)
        if assigned_at is None or epoch < assigned_at:
            raise error(
                f"the member epoch is {present}, and the member did not have {place.topic}-{place.partition} at {epoch}"
            )


def check_fetch(group: ModernGroup[Any, Any, Any], member_id: str | None, epoch: int) -> None:
    """Check whether a client may read the committed offsets. Raises UnknownMemberId, StaleMemberEpoch, and
    IllegalGeneration instead of that for members of the classic protocol."""
    if member_id is None and epoch < 0:
        return
    _check_member(group, member_id or "")
    present = group.epoch_of(member_id or "")
    if epoch != present:
        error = IllegalGeneration if group.speaks_classic(member_id or "") else StaleMemberEpoch
        raise error(f"the member epoch is {present}, not {epoch}")


def _check_member(group: ModernGroup[Any, Any, Any], member_id: str) -> None:
    if member_id not in group.memberships:
        raise UnknownMemberId(f"there is no member {member_id!r}")

"""Reconciliation: one step of a member from what it has to its target assignment (KIP-848).

A member first gives up what is not in its target: it is shown a smaller assignment at its old epoch, and acknowledges
it by reporting what it owns. Then it moves to the epoch of the target, with the partitions that no other member has any
more. Partitions that another member still has follow at later heartbeats.

| state                 | the step                                                                            |
|-----------------------|-------------------------------------------------------------------------------------|
| STABLE                | to the target, if that has another epoch; else only topics are dropped, see below   |
| UNREVOKED_PARTITIONS  | to the target, once the member reports none of the partitions that it is to give up |
| UNRELEASED_PARTITIONS | to the target, each time: more may be free                                          |

Topics that the member has unsubscribed from are dropped at once, at its old epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ....protocol.errors import FencedMemberEpoch
from .members import CurrentAssignment, MemberState, Owned, Partitions


class Aim(NamedTuple):
    """Where a member is to get."""

    epoch: int
    """The epoch of the target assignment."""
    target: Mapping[bytes, Collection[int]]
    """Its partitions by topic id."""
    topic_ids: Collection[bytes]
    """The topics that it subscribes to."""
    is_subscription_new: bool
    """Whether the heartbeat has changed what it subscribes to."""
    is_free: Callable[[bytes, int], bool]
    """Whether no other member has a partition."""


def reconcile(current: CurrentAssignment, aim: Aim, owned: Owned | None) -> CurrentAssignment:
    """The next assignment of a member that reports `owned`, or nothing. Raises FencedMemberEpoch for a member in a
    state that is not known, unless it reports that it owns nothing."""
    state = current.state
    if state is MemberState.STABLE and current.epoch == aim.epoch:
        return _without_unsubscribed(current, aim, owned) if aim.is_subscription_new else current
    if state is MemberState.UNREVOKED_PARTITIONS and _still_owns(owned, current.revoking):
        return _without_unsubscribed(current, aim, owned) if aim.is_subscription_new else current
    if state is MemberState.UNKNOWN and (owned is None or any(owned.values())):
        raise FencedMemberEpoch("a newer coordinator moved this member to a state that is not known here")
    return _towards(current, aim, owned)


def _towards(current: CurrentAssignment, aim: Aim, owned: Owned | None) -> CurrentAssignment:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    target = {topic_id: set(aim.target.get(topic_id, ())) for topic_id in aim.topic_ids}
    for topic_id, partitions in current.assigned.items():
        wanted = target.get(topic_id, ())
        for partition, epoch in partitions.items():
            (kept if partition in wanted else revoked).setdefault(topic_id, {})[partition] = epoch
    if revoked and _still_owns(owned, revoked):
        return CurrentAssignment(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    waits = False
    for topic_id, wanted in target.items():
        has = kept.get(topic_id, {})
        for partition in wanted:
            if partition in has:
                continue
            if aim.is_free(topic_id, partition):
                kept.setdefault(topic_id, {})[partition] = aim.epoch
            else:
                waits = True
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return CurrentAssignment(aim.epoch, current.epoch, state, kept, {})


def _without_unsubscribed(current: CurrentAssignment, aim: Aim, owned: Owned | None) -> CurrentAssignment:
    """Drop the topics that the member does not subscribe to any more, at its epoch."""
    dropped = {topic_id: each for topic_id, each in current.assigned.items() if topic_id not in aim.topic_ids}
    if not dropped:
        return current
    kept = {topic_id: each for topic_id, each in current.assigned.items() if topic_id not in dropped}
    revoking = _merged(current.revoking, dropped)
    if _still_owns(owned, revoking):
        return CurrentAssignment(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return CurrentAssignment(current.epoch, current.epoch, MemberState.STABLE, kept, {})


def _still_owns(owned: Owned | None, partitions: Partitions) -> bool:
    """Whether a member may still own one of these partitions; one that reports nothing may."""
    if owned is None:
        return True
    return any(
        not partitions[topic_id].keys().isdisjoint(each) for topic_id, each in owned.items() if topic_id in partitions
    )


def _merged(first: Partitions, second: Partitions) -> Partitions:
    return {topic_id: {**first.get(topic_id, {}), **second.get(topic_id, {})} for topic_id in {**first, **second}}

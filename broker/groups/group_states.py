"""The states of a group, and what each request does in each of them: everything that depends on the state, as tables.

A group goes round. Members join in PreparingRebalance until all that are known are there, or the time is over; then a
generation begins, and in CompletingRebalance everybody waits for the leader's assignment; when that is stored the
group is Stable. Whoever comes, goes, falls silent or changes its mind sends a Stable group back to PreparingRebalance.
A group whose last member went is Empty: its offsets are kept. Dead is one that was removed; who holds it asks again.

         first member                all joined, or time-out            assignment stored
    Empty ----------> PreparingRebalance --------------> CompletingRebalance ----------> Stable
      ^                    |  ^      ^                            |                         |
      +--- nobody came ----+  |      +------- join, leave --------+                         |
                              +------- join, leave, session or sync time-out ---------------+
"""

from __future__ import annotations

from enum import Enum, auto

from ...protocol.errors import CoordinatorNotAvailable, KafkaError, RebalanceInProgress, UnknownMemberId


class GroupState(Enum):
    """A state, by the name that clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState

PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    EMPTY: frozenset({PREPARING}),
    PREPARING: frozenset({EMPTY, COMPLETING, STABLE}),
    COMPLETING: frozenset({PREPARING}),
    STABLE: frozenset({COMPLETING}),
    DEAD: frozenset(GroupState),
}
"""From which states a state may be reached."""


def can_rebalance(state: GroupState) -> bool:
    """Whether a rebalance may begin: in PreparingRebalance one is under way."""
    return state in PREVIOUS[PREPARING]


# --- JoinGroup


class Caller(Enum):
    """Who sends a JoinGroup, as the group knows them. A dynamic member has no instance id, a static one has."""

    NAMELESS = auto()
    """Dynamic, without a member id, in a version in which nobody joins before they know theirs (v4, KIP-394)."""
    NEWCOMER = auto()
    """Dynamic without a member id (below v4), or with one that was given out and not used yet; or static, and nobody
    has its instance id."""
    RETURNING = auto()
    """Static, without a member id, and its instance id belongs to a member: that one was restarted."""
    LEADER = auto()
    """The leader, supporting and wanting what it did before."""
    FOLLOWER = auto()
    """Another member, likewise."""
    CHANGED = auto()
    """A member, leader or not, that supports or wants something else now."""


class Join(Enum):
    """What a JoinGroup does."""

    RESERVE_ID = auto()
    """Give out a member id, to be joined with within the session time-out: MEMBER_ID_REQUIRED."""
    ADD = auto()
    """Make it a member, and rebalance."""
    REPLACE = auto()
    """Give the member a new id, fencing the old one, and count it as joined."""
    REPLACE_AND_REBALANCE = auto()
    """As before, and rebalance: the leader may be assigning partitions to the old id just now."""
    REPLACE_QUIETLY = auto()
    """As before, but rebalance only if the group would choose another protocol for it (KIP-345)."""
    UPDATE = auto()
    """Take over what it supports and wants, count it as joined, and rebalance."""
    ANSWER = auto()
    """Tell the generation in force again: its answer was lost."""


_UNAVAILABLE = CoordinatorNotAvailable

# fmt: off
_JOIN: dict[Caller, tuple[Join | type[KafkaError], ...]] = {
    #                  Empty            Preparing        Completing                  Stable
    Caller.NAMELESS:  (Join.RESERVE_ID, Join.RESERVE_ID, Join.RESERVE_ID,            Join.RESERVE_ID),
    Caller.NEWCOMER:  (Join.ADD,        Join.ADD,        Join.ADD,                   Join.ADD),
    Caller.RETURNING: (UnknownMemberId, Join.REPLACE,    Join.REPLACE_AND_REBALANCE, Join.REPLACE_QUIETLY),
    Caller.LEADER:    (UnknownMemberId, Join.UPDATE,     Join.ANSWER,                Join.UPDATE),
    Caller.FOLLOWER:  (UnknownMemberId, Join.UPDATE,     Join.ANSWER,                Join.ANSWER),
    Caller.CHANGED:   (UnknownMemberId, Join.UPDATE,     Join.UPDATE,                Join.UPDATE),
}
# fmt: on

JOIN: dict[tuple[Caller, GroupState], Join | type[KafkaError]] = {
    (caller, state): action
    for caller, actions in _JOIN.items()
    for state, action in zip(GroupState, (*actions, _UNAVAILABLE), strict=True)
}
"""What a JoinGroup does, or how it is refused."""


# --- the other requests


class Sync(Enum):
    """What a SyncGroup does."""

    WAIT = auto()
    """Wait for the leader's assignment; the leader's own is stored, and answers everybody."""
    ANSWER = auto()
    """Tell the assignment in force."""


SYNC: dict[GroupState, Sync | type[KafkaError]] = {
    EMPTY: UnknownMemberId,
    PREPARING: RebalanceInProgress,
    COMPLETING: Sync.WAIT,
    STABLE: Sync.ANSWER,
    DEAD: _UNAVAILABLE,
}

HEARTBEAT: dict[GroupState, type[KafkaError] | None] = {
    EMPTY: UnknownMemberId,
    PREPARING: RebalanceInProgress,  # it counts as a sign of life all the same
    COMPLETING: None,
    STABLE: None,
    DEAD: _UNAVAILABLE,
}

COMMIT: dict[GroupState, type[KafkaError] | None] = {
    EMPTY: None,
    PREPARING: None,  # the last chance for a member that is about to lose its partitions
    COMPLETING: RebalanceInProgress,
    STABLE: None,
    DEAD: _UNAVAILABLE,
}
"""Whether members may commit offsets; those of a transaction may always."""

"""The states of a group, and the effect of each request in each state, as tables.

Members join in PreparingRebalance until every member has joined, or the rebalance time-out is over; then a generation
begins. In CompletingRebalance the members wait for the leader's assignment; once that is stored the group is Stable. A
member that joins, leaves, ends its session, changes its protocols or sends no SyncGroup in time returns the group to
PreparingRebalance, and so does an assignment that cannot be stored. A group whose last member left is Empty: its
offsets are kept. A removed group is Dead; its clients look for the coordinator again.

         first member                all joined, or time-out            assignment stored
    Empty ----------> PreparingRebalance --------------> CompletingRebalance ----------> Stable
      ^                    |  ^      ^                            |                         |
      +--- no member ------+  |      +--- as from Stable, or -----+                         |
                              |           not stored                                        |
                              +------- join, leave, session or sync time-out ---------------+
"""

from __future__ import annotations

from enum import Enum, auto

from ....protocol.errors import CoordinatorNotAvailable, KafkaError, RebalanceInProgress, UnknownMemberId


class GroupState(Enum):
    """A state, with the name that clients are given."""

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
"""By state, the states from which it may be reached."""


def can_rebalance(state: GroupState) -> bool:
    """Whether a rebalance may begin: in PreparingRebalance one is in progress."""
    return state in PREVIOUS[PREPARING]


# --- JoinGroup


class Caller(Enum):
    """The kinds of clients that send a JoinGroup. A static member has an instance id, a dynamic member has none."""

    NAMELESS = auto()
    """Dynamic, without a member id, in a version that requires one (v4, KIP-394)."""
    NEWCOMER = auto()
    """Dynamic, without a member id (below v4) or with the id of a pending member; or static, with an instance id that
    no member has."""
    RETURNING = auto()
    """Static, without a member id, with the instance id of a member: that member was restarted."""
    LEADER = auto()
    """The leader, with the protocols and metadata that it had."""
    FOLLOWER = auto()
    """Another member, with the protocols and metadata that it had."""
    CHANGED = auto()
    """A member, leader or not, with other protocols or metadata than it had."""


class Join(Enum):
    """The effects of a JoinGroup."""

    REQUIRE_ID = auto()
    """Answer MEMBER_ID_REQUIRED with a new member id, which has to join within the session time-out."""
    ADD = auto()
    """Add it as a member, and rebalance."""
    REPLACE = auto()
    """Give the member a new id, fence the old id, and count the member as joined."""
    REPLACE_AND_REBALANCE = auto()
    """Like REPLACE, and rebalance: the leader may be about to assign partitions to the old id."""
    REPLACE_WITHOUT_REBALANCE = auto()
    """Like REPLACE, but rebalance only if the group would choose another protocol now (KIP-345)."""
    UPDATE = auto()
    """Take over its protocols and metadata, count it as joined, and rebalance."""
    ANSWER = auto()
    """Answer with the present generation again: the first answer was lost."""


_UNAVAILABLE = CoordinatorNotAvailable

# fmt: off
_JOIN: dict[Caller, tuple[Join | type[KafkaError], ...]] = {
    #                  Empty            Preparing        Completing                  Stable
    Caller.NAMELESS:  (Join.REQUIRE_ID, Join.REQUIRE_ID, Join.REQUIRE_ID,            Join.REQUIRE_ID),
    Caller.NEWCOMER:  (Join.ADD,        Join.ADD,        Join.ADD,                   Join.ADD),
    Caller.RETURNING: (UnknownMemberId, Join.REPLACE,    Join.REPLACE_AND_REBALANCE, Join.REPLACE_WITHOUT_REBALANCE),
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
"""By caller and state, the effect of a JoinGroup, or the error that refuses it."""


# --- the other requests


class Sync(Enum):
    """The effects of a SyncGroup."""

    WAIT = auto()
    """Wait for the leader's assignment. The leader's own request stores it, which answers all members."""
    ANSWER = auto()
    """Answer with the present assignment."""


SYNC: dict[GroupState, Sync | type[KafkaError]] = {
    EMPTY: UnknownMemberId,
    PREPARING: RebalanceInProgress,
    COMPLETING: Sync.WAIT,
    STABLE: Sync.ANSWER,
    DEAD: _UNAVAILABLE,
}

HEARTBEAT: dict[GroupState, type[KafkaError] | None] = {
    EMPTY: UnknownMemberId,
    PREPARING: RebalanceInProgress,  # it extends the session all the same
    COMPLETING: None,
    STABLE: None,
    DEAD: _UNAVAILABLE,
}

COMMIT: dict[GroupState, type[KafkaError] | None] = {
    EMPTY: None,
    PREPARING: None,  # the last commit of a member before it loses its partitions
    COMPLETING: RebalanceInProgress,
    STABLE: None,
    DEAD: _UNAVAILABLE,
}
"""By state, the error that refuses a commit of a member. Transactional commits are not refused by the state."""

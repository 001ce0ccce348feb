"""JoinGroup (key 11): become or stay a member of a group, and wait for its next generation.

The answer comes when every member has joined, or when the rebalance time-out has passed. One member, the leader, gets
the metadata of all members; it computes the assignment and sends it with SyncGroup.

- v1: rebalance_timeout_ms (KIP-62). v2: throttle_time_ms. v3: throttling after the response (KIP-219).
- v4: a new member is given an id first, with MEMBER_ID_REQUIRED, and joins again with it (KIP-394).
- v5: static members (KIP-345). v6: flexible. v7: the response names the protocol type (KIP-559).
- v8: why a member joins (KIP-800). v9: skip_assignment (KIP-814).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, Bytes, ErrorCode, Int32, NullableString, String
from ..schema import Request, Response, Struct, field


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+"):
    class Protocol(Struct):
        name: String
        """Of an assignor, if the group is one of consumers."""
        metadata: Bytes
        """The member's subscription, for the leader."""

    group_id: String
    session_timeout_ms: Int32
    """Milliseconds without a heartbeat after which the coordinator removes the member."""
    rebalance_timeout_ms: Int32 = field(since=1, default=-1)
    """Milliseconds that the coordinator waits for the member to join again in a rebalance. In v0 the session time-out.
    """
    member_id: String
    """Empty for a new member."""
    group_instance_id: NullableString = field(since=5, default=None)
    """The name under which a static member comes back after a restart; null for all others."""
    protocol_type: String
    """"consumer", or another use of groups, such as "connect"."""
    protocols: Array[Protocol]
    """The protocols that the member supports, the preferred one first."""
    reason: NullableString = field(since=8, default=None)
    """For the broker's log."""


class JoinGroupResponse(Response, to=JoinGroupRequest):
    class Member(Struct):
        member_id: String
        group_instance_id: NullableString = field(since=5, default=None)
        metadata: Bytes

    throttle_time_ms: Int32 = field(since=2, default=0)
    error_code: ErrorCode = NONE
    """MEMBER_ID_REQUIRED (v4): join again with the `member_id` given here. UNKNOWN_MEMBER_ID: join again without one.
    FENCED_INSTANCE_ID: another member has joined with this instance id. GROUP_MAX_SIZE_REACHED.
    INCONSISTENT_GROUP_PROTOCOL: no protocol, or not one that all members share, or another protocol type.
    INVALID_SESSION_TIMEOUT: outside the broker's limits. INVALID_GROUP_ID: it is empty. REBALANCE_IN_PROGRESS.
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE: look for the coordinator. COORDINATOR_LOAD_IN_PROGRESS: ask again.
    GROUP_AUTHORIZATION_FAILED. UNSUPPORTED_VERSION: a static member cannot be told from others below v5."""
    generation_id: Int32 = -1
    """The number of rebalances. Later requests of a member carry it."""
    protocol_type: NullableString = field(since=7, default=None)
    protocol_name: NullableString = field(nullable_since=7, default="")
    """The protocol that all members share. Null with an error; empty below v7."""
    leader: String = ""
    """The member id of the leader."""
    skip_assignment: Boolean = field(since=9, default=False)
    """The leader has returned, and the assignment in force stays: the leader gets the members only to watch their
    topics."""
    member_id: String = ""
    members: Array[Member] = field(default=[])
    """All members in the leader's answer; empty in the others'."""

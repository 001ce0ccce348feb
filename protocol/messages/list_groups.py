"""ListGroups (key 16): the groups that one broker coordinates.

- v1: throttle_time_ms. v2: throttling after the response (KIP-219). v3: flexible. v4: by state (KIP-518).
- v5: by type (KIP-848).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, String
from ..schema import Request, Response, Struct, field


class ListGroupsRequest(Request, api_key=16, versions="0-5", flexible="3+"):
    states_filter: Array[String] = field(since=4, default=[])
    """An empty filter matches all groups. Case does not matter; an unknown name matches no group."""
    types_filter: Array[String] = field(since=5, default=[])


class ListGroupsResponse(Response, to=ListGroupsRequest):
    class Group(Struct):
        group_id: String
        protocol_type: String
        """Empty if the group never had a member, and only offsets were committed."""
        group_state: String = field(since=4, default="")
        group_type: String = field(since=5, default="")
        """"classic", "consumer", …"""

    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: ErrorCode = NONE
    """COORDINATOR_LOAD_IN_PROGRESS: some groups are not loaded yet. COORDINATOR_NOT_AVAILABLE.
    CLUSTER_AUTHORIZATION_FAILED does not occur: a client that may describe no group gets an empty list."""
    groups: Array[Group] = field(default=[])

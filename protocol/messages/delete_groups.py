"""DeleteGroups (key 42): forget groups that have no members, and their offsets (KIP-229).

- v1: throttling after the response (KIP-219). v2: flexible.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, String
from ..schema import Request, Response, Struct


class DeleteGroupsRequest(Request, api_key=42, versions="0-2", flexible="2+"):
    groups_names: Array[String]


class DeleteGroupsResponse(Response, to=DeleteGroupsRequest):
    class Result(Struct):
        group_id: String
        error_code: ErrorCode = NONE
        """NON_EMPTY_GROUP: it has members. GROUP_ID_NOT_FOUND, INVALID_GROUP_ID. NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED."""

    throttle_time_ms: Int32 = 0
    results: Array[Result]

"""DeleteTopics (key 20): remove topics, each by itself: one that fails does not hinder the others.

- v1: throttle_time_ms. v2: throttling after the response (KIP-219). v3: TOPIC_DELETION_DISABLED instead of silence
  (KIP-322). v4: flexible. v5: error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599). v6: by id as well (KIP-516).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID


class DeleteTopicsRequest(Request, api_key=20, versions="0-6", flexible="4+"):
    class Topic(Struct):
        name: NullableString = None
        """Null if the topic is named by its id."""
        topic_id: Uuid = ZERO_UUID

    topics: Array[Topic] = field(since=6, default=[])
    topic_names: Array[String] = field(until=5, default=[])
    timeout_ms: Int32 = 60_000


class DeleteTopicsResponse(Response, to=DeleteTopicsRequest):
    class Topic(Struct):
        name: NullableString = field(nullable_since=6)
        """Null if an id was given that is not known, or whose topic the client may not see."""
        topic_id: Uuid = field(since=6, default=ZERO_UUID)
        error_code: ErrorCode = NONE
        """UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID. INVALID_REQUEST: named twice, or by name and id.
        TOPIC_DELETION_DISABLED: delete.topic.enable is off (INVALID_REQUEST before v3). REQUEST_TIMED_OUT: it will be
        removed. NOT_CONTROLLER. THROTTLING_QUOTA_EXCEEDED. TOPIC_AUTHORIZATION_FAILED."""
        error_message: NullableString = field(since=5, default=None)

    throttle_time_ms: Int32 = field(since=1, default=0)
    responses: Array[Topic]

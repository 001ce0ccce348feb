"""AlterClientQuotas (key 49): set and remove the quotas of users, client ids and addresses (KIP-546).

- v1: flexible.
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Float64, Int32, NullableString, String
from ..schema import Request, Response, Struct


class AlterClientQuotasRequest(Request, api_key=49, versions="0-1", flexible="1+"):
    class Entry(Struct):
        class Entity(Struct):
            entity_type: String
            entity_name: NullableString
            """Null for the default."""

        class Op(Struct):
            key: String
            """Such as "producer_byte_rate"."""
            value: Float64
            remove: Boolean

        entity: Array[Entity]
        ops: Array[Op]

    Entity, Op = Entry.Entity, Entry.Op

    entries: Array[Entry]
    validate_only: Boolean


class AlterClientQuotasResponse(Response, to=AlterClientQuotasRequest):
    class Entry(Struct):
        class Entity(Struct):
            entity_type: String
            entity_name: NullableString

        error_code: ErrorCode = NONE
        """INVALID_REQUEST: the entity, a key or a value means nothing. CLUSTER_AUTHORIZATION_FAILED. NOT_CONTROLLER."""
        error_message: NullableString = None
        entity: Array[Entity]

    Entity = Entry.Entity

    throttle_time_ms: Int32 = 0
    entries: Array[Entry]

"""DescribeClientQuotas (key 48): the quotas of users, client ids and addresses that a filter matches (KIP-546).

- v1: flexible.
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Float64, Int8, Int32, NullableArray, NullableString, String
from ..schema import Request, Response, Struct, field

EXACT_NAME = 0
DEFAULT_ENTITY = 1
ANY_NAME = 2
"""How a component of the filter matches: the name `match`, the default of all names, or every name."""

ENTITY_TYPES = ("user", "client-id", "ip")


class DescribeClientQuotasRequest(Request, api_key=48, versions="0-1", flexible="1+"):
    class Component(Struct):
        entity_type: String
        """"user", "client-id" or "ip"."""
        match_type: Int8
        match: NullableString
        """The name, for EXACT_NAME; else null."""

    components: Array[Component]
    """None: every quota."""
    strict: Boolean
    """Whether entities with other components than these are left out."""


class DescribeClientQuotasResponse(Response, to=DescribeClientQuotasRequest):
    class Entry(Struct):
        class Entity(Struct):
            entity_type: String
            entity_name: NullableString
            """Null for the default."""

        class Value(Struct):
            key: String
            value: Float64

        entity: Array[Entity]
        values: Array[Value]

    Entity, Value = Entry.Entity, Entry.Value

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """INVALID_REQUEST: the filter means nothing. UNSUPPORTED_VERSION: it has an entity type that is not known.
    CLUSTER_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    entries: NullableArray[Entry] = field(default=[])
    """Null with an error."""

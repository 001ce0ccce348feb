"""UpdateFeatures (key 57): finalize the levels of the cluster's features (KIP-584).

- v1: upgrade_type instead of allow_downgrade, validate_only (KIP-778).
- v2: all updates or none, without a result for each (KIP-1022).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int8, Int16, Int32, NullableString, String
from ..schema import Request, Response, Struct, field

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3
"""Upgrade types. An unsafe downgrade may lose metadata."""


class UpdateFeaturesRequest(Request, api_key=57, versions="0-2", flexible="0+"):
    class FeatureUpdate(Struct):
        feature: String
        max_version_level: Int16
        """Below 1: the feature is taken away."""
        allow_downgrade: Boolean = field(until=0, default=False)
        upgrade_type: Int8 = field(since=1, default=UPGRADE)

    timeout_ms: Int32 = 60_000
    feature_updates: Array[FeatureUpdate]
    validate_only: Boolean = field(since=1, default=False)


class UpdateFeaturesResponse(Response, to=UpdateFeaturesRequest):
    class Result(Struct):
        feature: String = field(until=1, default="")
        error_code: ErrorCode = field(until=1, default=NONE)
        error_message: NullableString = field(until=1, default=None)

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """INVALID_UPDATE_VERSION: the level is not supported, or is lower than the present one and that was not allowed.
    INVALID_REQUEST, FEATURE_UPDATE_FAILED. NOT_CONTROLLER, REQUEST_TIMED_OUT. CLUSTER_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    results: Array[Result] = field(until=1, default=[])

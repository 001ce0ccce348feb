"""ApiVersions, versions 0 to 4: what the registry holds, and no more.

A version beyond these is answered in version 0 (KIP-511), by the connection, with `unsupported_version_answer`. Of the
cluster's features only `metadata.version` is told, at Kafka 4.3's level, from which tools read the release. Kafka's
others would make clients use what is not served: `group.version` the consumer protocol (KIP-848), `transaction.version`
the second version of transactions (KIP-890).
"""

from __future__ import annotations

import re

from ...protocol.errors import InvalidRequest, UnsupportedVersion
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..context import Context
from ..registry import handles, registered

METADATA_VERSION = 30
"""4.3-IV0."""
OLDEST_METADATA_VERSION = 7
"""3.3-IV3, the oldest that Kafka 4.3 knows."""

_WELL_FORMED = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?", re.ASCII)


@handles(ApiVersionsRequest)
async def api_versions(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Tell which requests are served, in which versions."""
    software = (request.client_software_name, request.client_software_version)
    if context.version >= 3 and not all(map(_WELL_FORMED.fullmatch, software)):
        return ApiVersionsResponse(error_code=InvalidRequest.code, api_keys=[])
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=api_key, min_version=handler.advertised_min, max_version=handler.max_version
            )
            for api_key, handler in sorted(registered().items())
        ],
        supported_features=[
            ApiVersionsResponse.SupportedFeature(
                name="metadata.version", min_version=OLDEST_METADATA_VERSION, max_version=METADATA_VERSION
            )
        ],
        finalized_features_epoch=0,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(
                name="metadata.version", max_version_level=METADATA_VERSION, min_version_level=METADATA_VERSION
            )
        ],
    )


def unsupported_version_answer() -> ApiVersionsResponse:
    """The answer, to be encoded in version 0, to an ApiVersions request of a version we do not have."""
    api_key = ApiVersionsRequest.api_key
    handler = registered()[api_key]
    served = ApiVersionsResponse.ApiVersion(
        api_key=api_key, min_version=handler.advertised_min, max_version=handler.max_version
    )
    return ApiVersionsResponse(error_code=UnsupportedVersion.code, api_keys=[served])

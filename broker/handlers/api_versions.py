"""ApiVersions, versions 0 to 4: the requests that are served, all or those of a release (`kmini.as.version`).

The connection answers a version beyond these in version 0 (KIP-511), with `unsupported_version_answer`. Answers before
version 4 leave out features whose lowest level is 0: the clients that send these versions fail on one.
"""

from __future__ import annotations

import re

from ...protocol.errors import InvalidRequest
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..api.registry import handles, registered, served
from ..api.request_context import Context
from ..api.version_ranges import version_range
from ..security.permissions import OPEN

_WELL_FORMED = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?", re.ASCII)

LEVEL_0_SINCE = 4
"""The first version in which features may have a level 0 (KIP-1022)."""


@handles(ApiVersionsRequest, needs=OPEN)
async def api_versions(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Answer with the requests served, their versions, and the cluster's features."""
    software = (request.client_software_name, request.client_software_version)
    if context.version >= 3 and not all(map(_WELL_FORMED.fullmatch, software)):
        return ApiVersionsResponse(error_code=InvalidRequest.code, api_keys=[])
    handlers = served(registered(), context.services.release)
    features = context.services.features
    return ApiVersionsResponse(
        api_keys=[version_range(api_key, handlers) for api_key in sorted(handlers)],
        supported_features=[
            ApiVersionsResponse.SupportedFeature(
                name=feature.name, min_version=feature.min_level, max_version=feature.max_level
            )
            for feature in features
            if feature.min_level > 0 or context.version >= LEVEL_0_SINCE
        ],
        finalized_features_epoch=context.services.controller.features_epoch,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(
                name=feature.name, max_version_level=feature.level, min_version_level=feature.level
            )
            for feature in features
            if feature.level > 0
        ],
    )

"""ApiVersions, versions 0 to 4: the requests that are served, all or those of a release (`kmini.as.version`).

A version beyond these is answered in version 0 (KIP-511): `network/dispatch.py` sends `unsupported_version_answer`.
Answers before version 4 leave out features whose lowest level is 0: the clients that send these versions fail on one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...protocol.errors import InvalidRequest, UnsupportedVersion
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..api.registry import Handler, handles, registered, served
from ..api.request_context import Context
from ..security.permission_kinds import OPEN

_WELL_FORMED = r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?"

LEVEL_0_SINCE = 4
"""The first version in which features may have a level 0 (KIP-1022)."""


@handles(ApiVersionsRequest, needs=OPEN)
async def api_versions(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Answer with the requests served, their versions, and the cluster's features."""
    software = (request.client_software_name, request.client_software_version)
    if context.version >= 3 and not all(re.fullmatch(_WELL_FORMED, text) for text in software):
        return ApiVersionsResponse(error_code=InvalidRequest.code, api_keys=[])
    context.connection.software = software
    handlers = served(registered(), context.services.release)
    features = context.services.features
    return ApiVersionsResponse(
        api_keys=[_version_range(api_key, handlers) for api_key in sorted(handlers)],
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


def _version_range(api_key: int, handlers: Mapping[int, Handler]) -> ApiVersionsResponse.ApiVersion:
    """The versions of an API that clients are told."""
    handler = handlers[api_key]
    return ApiVersionsResponse.ApiVersion(
        api_key=api_key, min_version=handler.advertised_min, max_version=handler.max_version
    )


def unsupported_version_answer(handlers: Mapping[int, Handler]) -> ApiVersionsResponse:
    """The answer, to be encoded in version 0, to an ApiVersions request of a version that is not served (KIP-511)."""
    return ApiVersionsResponse(
        error_code=UnsupportedVersion.code, api_keys=[_version_range(ApiVersionsRequest.api_key, handlers)]
    )

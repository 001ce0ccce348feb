"""The version ranges that ApiVersions answers with, read from the handlers that a broker serves."""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.errors import UnsupportedVersion
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from .registry import Handler


def version_range(api_key: int, handlers: Mapping[int, Handler]) -> ApiVersionsResponse.ApiVersion:
    """The versions of an API that clients are told."""
    handler = handlers[api_key]
    return ApiVersionsResponse.ApiVersion(
        api_key=api_key, min_version=handler.advertised_min, max_version=handler.max_version
    )


def unsupported_version_answer(handlers: Mapping[int, Handler]) -> ApiVersionsResponse:
    """The answer, to be encoded in version 0, to an ApiVersions request of a version that is not served (KIP-511)."""
    return ApiVersionsResponse(
        error_code=UnsupportedVersion.code, api_keys=[version_range(ApiVersionsRequest.api_key, handlers)]
    )

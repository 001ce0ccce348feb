from kmini.protocol.errors import UnsupportedVersion
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


def test_the_header_of_the_response_is_never_flexible() -> None:
    assert [ApiVersionsRequest.header_version(version) for version in range(6)] == [1, 1, 1, 2, 2, 2]
    assert [ApiVersionsResponse.header_version(version) for version in range(6)] == [0] * 6


def test_a_refusal_is_of_version_0_whatever_was_asked() -> None:
    refusal = ApiVersionsResponse(error_code=UnsupportedVersion.code)
    body = refusal.encode(0)[0]
    assert ApiVersionsResponse.version_of(body, 4) == 0
    assert ApiVersionsResponse.decode(body, 0) == refusal


def test_any_other_answer_is_of_the_version_that_was_asked() -> None:
    body = ApiVersionsResponse().encode(4)[0]
    assert ApiVersionsResponse.version_of(body, 4) == 4

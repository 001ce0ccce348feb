"""The message of KIP-107, by hand: what the other tests say of all messages, readable for one."""

import pytest

from kmini.protocol.errors import NONE, OffsetOutOfRange
from kmini.protocol.messages.delete_records import HIGH_WATERMARK, DeleteRecordsRequest, DeleteRecordsResponse

REQUEST = DeleteRecordsRequest(
    topics=[
        DeleteRecordsRequest.Topic(
            name="orders",
            partitions=[
                DeleteRecordsRequest.Partition(partition_index=0, offset=40),
                DeleteRecordsRequest.Partition(partition_index=1, offset=HIGH_WATERMARK),
            ],
        )
    ],
    timeout_ms=5_000,
)

OLD_REQUEST = bytes.fromhex(
    "00000001"  # one topic
    "0006 6f7264657273"  # orders
    "00000002"  # two partitions
    "00000000 0000000000000028"
    "00000001 ffffffffffffffff"
    "00001388"
)

FLEXIBLE_REQUEST = bytes.fromhex(
    "0207 6f72646572730300000000 0000000000000028 0000000001 ffffffffffffffff 000000001388 00"
)

RESPONSE = DeleteRecordsResponse(
    throttle_time_ms=0,
    topics=[
        DeleteRecordsResponse.Topic(
            name="orders",
            partitions=[
                DeleteRecordsResponse.Partition(partition_index=0, low_watermark=40),
                DeleteRecordsResponse.Partition(partition_index=1, error_code=OffsetOutOfRange.code),
            ],
        )
    ],
)

OLD_RESPONSE = bytes.fromhex(
    "00000000000000010006 6f72646572730000000200000000 0000000000000028 000000000001 ffffffffffffffff 0001"
)


@pytest.mark.parametrize(("version", "encoded"), [(0, OLD_REQUEST), (1, OLD_REQUEST), (2, FLEXIBLE_REQUEST)])
def test_the_request(version: int, encoded: bytes) -> None:
    assert b"".join(REQUEST.encode(version)) == encoded
    assert DeleteRecordsRequest.decode(encoded, version) == REQUEST


@pytest.mark.parametrize("version", [0, 1])
def test_the_response(version: int) -> None:
    assert b"".join(RESPONSE.encode(version)) == OLD_RESPONSE
    assert DeleteRecordsResponse.decode(OLD_RESPONSE, version) == RESPONSE


def test_an_outcome_without_more_words_is_an_error_less_one_without_a_low_watermark() -> None:
    outcome = DeleteRecordsResponse.Partition(partition_index=3)
    assert (outcome.low_watermark, outcome.error_code) == (-1, NONE)


def test_the_class_says_which_api_it_is() -> None:
    assert (DeleteRecordsRequest.api_key, DeleteRecordsRequest.name) == (21, "DeleteRecords")
    assert (DeleteRecordsRequest.min_version, DeleteRecordsRequest.max_version) == (0, 2)
    assert DeleteRecordsRequest.response is DeleteRecordsResponse
    assert [DeleteRecordsRequest.header_version(version) for version in (0, 1, 2)] == [1, 1, 2]
    assert [DeleteRecordsResponse.header_version(version) for version in (0, 1, 2)] == [0, 0, 1]

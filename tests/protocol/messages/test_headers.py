import pytest

from kmini.protocol.errors import MalformedMessage
from kmini.protocol.messages.headers import (
    RequestHeader,
    encode_response_header,
    read_header_start,
    read_request_header,
    read_response_header,
)

FLEXIBLE_FROM = {0: 9, 18: 3}


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "é" * 100])
@pytest.mark.parametrize(("api_version", "header_version"), [(8, 1), (9, 2), (13, 2)])
def test_a_request_header_survives_the_round_trip(client_id: str | None, api_version: int, header_version: int) -> None:
    header = RequestHeader(0, api_version, -5, client_id)
    encoded = header.encode(header_version)
    assert read_request_header(memoryview(encoded + b"body"), FLEXIBLE_FROM) == (header, len(encoded))


def test_a_request_header_is_what_kafka_python_writes() -> None:
    from kafka.protocol.api_header import RequestHeader as Theirs

    for client_id in (None, "", "kafka-python"):
        for flexible, header_version in ((False, 1), (True, 2)):
            theirs = Theirs(request_api_key=3, request_api_version=9, correlation_id=77, client_id=client_id)
            assert RequestHeader(3, 9, 77, client_id).encode(header_version) == theirs.encode(flexible=flexible)


def test_the_client_id_keeps_its_old_form_in_flexible_headers() -> None:
    assert RequestHeader(18, 3, 1, "a").encode(2).hex() == "001200030000000100016100"


def test_tagged_fields_of_a_header_are_skipped() -> None:
    encoded = RequestHeader(18, 3, 1, "a").encode(2)[:-1] + bytes.fromhex("02 05 02 aabb 07 00")
    header, position = read_request_header(memoryview(encoded + b"body"), FLEXIBLE_FROM)
    assert (header.client_id, position) == ("a", len(encoded))


@pytest.mark.parametrize("cut", range(11))
def test_a_header_that_is_cut_off_is_malformed(cut: int) -> None:
    encoded = RequestHeader(18, 3, 1, "a").encode(2)
    with pytest.raises(MalformedMessage):
        read_request_header(memoryview(encoded[:cut]), FLEXIBLE_FROM)


@pytest.mark.parametrize("tail", ["fffe", "7fff61", "0002c328", "0001ff"])
def test_a_client_id_that_is_none_is_malformed(tail: str) -> None:
    start = bytes.fromhex("0000000700000001")
    with pytest.raises(MalformedMessage, match="client id"):
        read_request_header(memoryview(start + bytes.fromhex(tail)), FLEXIBLE_FROM)


def test_the_header_of_an_unknown_api_is_read_as_version_1() -> None:
    header, position = read_request_header(memoryview(RequestHeader(999, 99, 1, "a").encode(1) + b"?"), FLEXIBLE_FROM)
    assert (header, position) == (RequestHeader(999, 99, 1, "a"), 11)


def test_the_start_of_a_header_is_readable_whatever_follows() -> None:
    assert read_header_start(memoryview(bytes.fromhex("0012 0063 00000007 ffff ff"))) == (18, 99, 7, None)
    with pytest.raises(MalformedMessage, match="7 bytes"):
        read_header_start(memoryview(bytes(7)))


def test_a_client_id_of_more_than_an_int16_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="too long"):
        RequestHeader(0, 0, 0, "x" * 40_000).encode(1)


@pytest.mark.parametrize(("header_version", "encoded"), [(0, "00000007"), (1, "0000000700")])
def test_response_headers_have_two_versions(header_version: int, encoded: str) -> None:
    assert bytes(encode_response_header(7, header_version)).hex() == encoded
    content = memoryview(bytes.fromhex(encoded) + b"body")
    assert read_response_header(content, header_version) == (7, len(encoded) // 2)


@pytest.mark.parametrize(("header_version", "encoded"), [(0, "000000"), (1, "00000007"), (1, "000000070105")])
def test_a_response_header_that_is_cut_off_is_malformed(header_version: int, encoded: str) -> None:
    with pytest.raises(MalformedMessage):
        read_response_header(memoryview(bytes.fromhex(encoded)), header_version)

"""Nothing a peer sends is believed.

Whatever the bytes, a decoder returns a message or raises MalformedMessage, and takes no more memory than they deserve.
"""

import random
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.protocol.compile import COMPILED_MESSAGES
from kmini.protocol.decoder_source import MAX_OBJECTS_PER_BYTE, SMALL_MESSAGE_MEMORY
from kmini.protocol.errors import MalformedMessage
from kmini.protocol.messages import (
    REQUESTS,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
)
from kmini.protocol.primitives import STRING, Array, Int8, Int32, String, unsigned_varint
from kmini.protocol.schema import NEVER, REQUIRED, Message, Request, Struct, field
from support.for_each import for_each
from support.message_versions import TRIED
from support.mutation import mutated

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("form")]  # compiled and interpreted


def limit(cls: type[Message], frame: bytes) -> int:
    return max(SMALL_MESSAGE_MEMORY, cls.memory_per_byte * len(frame))


def needs_form(form: str, cls: type[Message], version: int) -> None:
    if form == "compiled" and version < COMPILED_MESSAGES.get(cls.__name__, NEVER):
        pytest.skip("it is interpreted in either form")


@for_each("message_class, version", TRIED)
def test_mutated_messages_are_decoded_or_malformed(
    message_class: type[Message],
    version: int,
    form: str,
    random_message: Callable[..., Any],
    memory_of: Callable[[Any], int],
) -> None:
    needs_form(form, message_class, version)
    dice = random.Random(f"{message_class.__name__} {version}")
    for _ in range(100):
        valid = b"".join(random_message(message_class, version, dice).encode(version))
        frame = mutated(valid, dice)
        try:
            message = message_class.decode(memoryview(bytearray(frame)), version)
        except MalformedMessage:
            continue
        assert memory_of(message) <= limit(message_class, frame)


@for_each("message_class, version", TRIED)
def test_a_message_cut_anywhere_is_malformed(
    message_class: type[Message], version: int, form: str, random_message: Callable[..., Any]
) -> None:
    needs_form(form, message_class, version)
    dice = random.Random(f"{message_class.__name__} {version}")
    valid = b"".join(random_message(message_class, version, dice).encode(version))
    for cut in {*range(min(len(valid), 100)), *(dice.randrange(len(valid)) for _ in range(100) if valid)}:
        with pytest.raises(MalformedMessage):
            message_class.decode(valid[:cut], version)


@for_each("message_class, version", TRIED)
def test_a_byte_too_many_is_malformed_in_a_response_and_left_alone_in_a_request(
    message_class: type[Message], version: int, form: str, random_message: Callable[..., Any]
) -> None:
    needs_form(form, message_class, version)
    message = random_message(message_class, version, random.Random(5))
    valid = b"".join(message.encode(version))
    if issubclass(message_class, Request):
        assert message_class.decode(valid + b"\0", version) == message_class.decode(valid, version)
        return
    with pytest.raises(MalformedMessage, match="1 bytes follow"):
        message_class.decode(valid + b"\0", version)


@settings(max_examples=300, deadline=None)
@given(request=st.sampled_from(sorted(REQUESTS)), version=st.integers(0, 18), frame=st.binary(max_size=200))
def test_random_bytes_are_decoded_or_malformed(request: int, version: int, frame: bytes) -> None:
    reasons = []
    for cls in (REQUESTS[request], REQUESTS[request].response):
        try:
            cls.decode(frame, max(min(version, cls.max_version), cls.min_version))
        except MalformedMessage as error:
            reasons.append(str(error))
    assert all(len(reason) < 120 for reason in reasons)


# ------------------------------------------------------------------------------------------------ counts and lengths


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("count", [1, 1_000_000, (1 << 31) - 1])
def test_a_count_that_the_bytes_cannot_hold_allocates_nothing(version: int, count: int) -> None:
    DeleteRecordsRequest.decode(b"".join(DeleteRecordsRequest(topics=[], timeout_ms=0).encode(version)), version)
    announced = unsigned_varint(count + 1) if version == 2 else struct.pack(">i", count)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            DeleteRecordsRequest.decode(announced, version)
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [-2, -32_768])
def test_a_negative_length_is_malformed_also_where_null_is_allowed(length: int) -> None:
    with pytest.raises(MalformedMessage, match="negative"):
        ProduceRequest.decode(struct.pack(">h", length) + bytes(100), 3)


def test_a_length_beyond_the_end_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="longer than the message"):
        ProduceRequest.decode(struct.pack(">h", 101) + bytes(100), 3)


def test_bytes_that_are_not_utf_8_are_malformed() -> None:
    for text in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"):
        with pytest.raises(MalformedMessage, match="UTF-8"):
            ProduceRequest.decode(struct.pack(">h", len(text)) + text + bytes(10), 3)


def test_64_unknown_tags_are_skipped_and_65_are_malformed() -> None:
    request = b"".join(DeleteRecordsRequest(topics=[], timeout_ms=0).encode(2))[:-1]
    assert DeleteRecordsRequest.decode(request + b"\x40" + b"\x09\x00" * 64, 2).topics == []
    with pytest.raises(MalformedMessage, match="too many"):
        DeleteRecordsRequest.decode(request + b"\x41" + b"\x09\x00" * 65, 2)


def test_a_tagged_field_must_have_the_size_that_it_says() -> None:
    class Tagged(Message, versions="0", flexible="0+"):
        number: Int32 = field(tag=0, default=0)

    assert Tagged.decode(bytes.fromhex("01 00 04 00000007"), 0).number == 7
    for frame in ("01 00 03 00000007", "01 00 05 0000000700", "01 00 04 000007"):
        with pytest.raises(MalformedMessage):
            Tagged.decode(bytes.fromhex(frame), 0)


# ------------------------------------------------------------------------------------------------ memory


class Cheap(Message, versions="0", flexible="0+"):
    """A byte or two on the wire, much in memory."""

    class Item(Struct):
        names: Array[String] = field(default=[])

    items: Array[Item] = field(default=[])
    strings: Array[String] = field(default=[])
    small: Array[Int8] = field(default=[])


@pytest.mark.parametrize("n", [100, 5_000, 200_000])
@pytest.mark.parametrize("what", ["items", "strings", "small"])
def test_elements_that_take_more_memory_than_their_bytes_deserve_are_refused(
    what: str, n: int, memory_of: Callable[[Any], int]
) -> None:
    element = {"items": Cheap.Item(), "strings": "", "small": -100}[what]
    frame = b"".join(Cheap(**{what: [element] * n}).encode(0))  # type: ignore[arg-type]
    Cheap.decode(b"\1\1\1\0", 0)  # compiles the decoder
    tracemalloc.start()
    try:
        message = Cheap.decode(frame, 0)
    except MalformedMessage:
        message = None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert memory_of(message) <= limit(Cheap, frame)
    assert peak <= limit(Cheap, frame) + len(frame)  # the decoder works on a copy, which is gone when it returns


def test_wide_characters_are_charged_for() -> None:
    def frame_with(text: str) -> bytes:
        return b"".join(Cheap(strings=[text] * 2_000, items=[Cheap.Item()] * 30_000).encode(0))

    narrow, wide = "x" * 254, "x" * 250 + "😀"
    assert len(narrow.encode()) == len(wide.encode())
    assert Cheap.decode(frame_with(narrow), 0).strings[0] == narrow
    with pytest.raises(MalformedMessage, match="too much memory"):
        Cheap.decode(frame_with(wide), 0)


def test_objects_take_a_bounded_amount_whatever_the_size_of_the_frame() -> None:
    names = ["a-topic-name-of-some-length"] * (16 * MAX_OBJECTS_PER_BYTE // 50)
    frame = b"".join(Cheap(strings=names).encode(0))
    with pytest.raises(MalformedMessage, match="too much memory"):
        Cheap.decode(frame, 0)


HONEST = {
    "metadata of 5,000 topics": (
        MetadataRequest(topics=[MetadataRequest.Topic(name=f"t{i:04}") for i in range(5_000)]),
        8,
    ),
    "deletion of 10,000 topics": (DeleteTopicsRequest(topic_names=[f"t{i}" for i in range(10_000)]), 1),
    "creation of 1,000 topics": (
        CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name=f"t{i}") for i in range(1_000)]),
        7,
    ),
    "fetch of 10,000 partitions": (
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                FetchRequest.Topic(
                    topic=f"t{i}",
                    partitions=[
                        FetchRequest.Partition(partition=p, fetch_offset=1 << 40, partition_max_bytes=1 << 20)
                        for p in range(10)
                    ],
                )
                for i in range(1_000)
            ],
        ),
        12,
    ),
    "offsets of 5,000 topics": (
        ListOffsetsRequest(
            topics=[
                ListOffsetsRequest.Topic(
                    name=f"topic{i}", partitions=[ListOffsetsRequest.Partition(partition_index=0, timestamp=-1)]
                )
                for i in range(5_000)
            ]
        ),
        5,
    ),
    "deletion of records in 5,000 topics": (
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.Topic(
                    name=f"topic{i}", partitions=[DeleteRecordsRequest.Partition(partition_index=300, offset=1 << 40)]
                )
                for i in range(5_000)
            ],
            timeout_ms=1,
        ),
        2,
    ),
    "produce to 1,000 partitions": (
        ProduceRequest(
            acks=-1,
            timeout_ms=1,
            topic_data=[
                ProduceRequest.Topic(
                    name="t",
                    partition_data=[ProduceRequest.Partition(index=p, records=bytes(70)) for p in range(1_000)],
                )
            ],
        ),
        9,
    ),
    "offset commit of 5,000 topics": (
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequest.Topic(
                    name=f"topic{i}",
                    partitions=[
                        OffsetCommitRequest.Partition(
                            partition_index=300, committed_offset=1 << 40, committed_metadata=None
                        )
                    ],
                )
                for i in range(5_000)
            ],
        ),
        9,
    ),
    "offset fetch of 5,000 topics": (
        OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequest.Topic(name=f"topic{i}", partition_indexes=[300]) for i in range(5_000)],
        ),
        7,
    ),
    "join with 3 assignors": (
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name=f"assignor{i}", metadata=bytes(20_000)) for i in range(3)],
        ),
        9,
    ),
}


@pytest.mark.parametrize("what", HONEST)
def test_large_requests_of_honest_clients_are_within_the_limits(what: str, memory_of: Callable[[Any], int]) -> None:
    request, version = HONEST[what]
    frame = b"".join(request.encode(version))
    decoded = type(request).decode(frame, version)
    assert decoded == request
    assert memory_of(decoded) <= limit(type(request), frame)


@for_each("response", [request.response for request in REQUESTS.values()], ids=lambda cls: cls.name)
def test_large_responses_of_honest_brokers_are_within_the_limits(response: type[Message]) -> None:
    for version in range(response.min_version, response.max_version + 1):
        message = grown(response, version, 1_500)
        assert response.decode(b"".join(message.encode(version)), version) == message


def grown(cls: type[Struct], version: int, count: int) -> Any:
    """A struct whose arrays of structs have `count` elements, and one each further inside."""
    values: dict[str, Any] = {}
    for described in cls.__fields__:
        held = described.type.element
        if held is not None and held.struct is not None and described.exists_in(version):
            values[described.name] = [grown(held.struct, version, 1) for _ in range(count)]
        elif described.default is REQUIRED and described.type.struct is not None:
            values[described.name] = grown(described.type.struct, version, 1)
        elif described.default is REQUIRED and held is not None and held.wire == STRING:
            values[described.name] = ["orders"]
        elif described.default is REQUIRED and described.type.wire is not None:
            values[described.name] = ORDINARY.get(described.type.wire.name, 1_000)
    return cls(**values)


ORDINARY: dict[str, Any] = {
    "int8": 100,
    "uuid": bytes(16),
    "string": "host-1",
    "bytes": b"data",
    "records": b"data",
    "boolean": True,
    "array": [1, 2, 3],
}

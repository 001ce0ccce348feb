"""What the generated encoders and decoders do, beyond being those of Kafka (tests/protocol/messages).

They are the functions of `kmini.protocol.decoder_source` and `kmini.protocol.encoder_source`, built on
`kmini.protocol.function_source`; `kmini.protocol.explain` names a value that does not fit.
"""

import pytest

from kmini.protocol.compile import source_of
from kmini.protocol.errors import MalformedMessage
from kmini.protocol.messages import FetchResponse, ProduceRequest
from kmini.protocol.primitives import (
    Array,
    Boolean,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableBytes,
    NullableString,
    String,
    Uint16,
    Uint32,
    Uuid,
)
from kmini.protocol.schema import Message, Struct, field


class Point(Struct):
    x: Int32
    y: Int32 = 0


class Everything(Message, versions="0-2", flexible="1+"):
    boolean: Boolean = False
    int8: Int8 = 0
    int16: Int16 = 0
    uint16: Uint16 = 0
    int32: Int32 = 0
    uint32: Uint32 = 0
    int64: Int64 = 0
    float64: Float64 = 0.0
    uuid: Uuid = bytes(16)
    string: String = ""
    nullable_string: NullableString = None
    bytes_: Bytes = b""
    nullable_bytes: NullableBytes = None
    numbers: Array[Int16] = field(default=[])
    names: NullableArray[String] = None
    maybe_names: Array[NullableString] = field(default=[])
    uuids: Array[Uuid] = field(default=[])
    flags: Array[Boolean] = field(default=[])
    point: Point = field(default=Point(x=1))
    maybe_point: Point | None = field(since=1, default=None)
    points: Array[Point] = field(default=[])
    tagged_point: Point | None = field(since=1, tag=3, default=None)
    tagged_names: Array[String] = field(since=1, tag=1, default=[])
    tagged_text: NullableString = field(since=2, tag=0, default=None)


FULL = Everything(
    boolean=True,
    int8=-128,
    int16=-32_768,
    uint16=65_535,
    int32=-(1 << 31),
    uint32=(1 << 32) - 1,
    int64=-(1 << 63),
    float64=0.5,
    uuid=bytes(range(16)),
    string="naïve",
    nullable_string="",
    bytes_=b"\0\1",
    nullable_bytes=b"",
    numbers=[1, -1],
    names=["a", "ж"],
    maybe_names=["a", None],
    uuids=[bytes(16), bytes(range(16))],
    flags=[True, False],
    point=Point(x=7, y=8),
    maybe_point=Point(x=9),
    points=[Point(x=1, y=2), Point(x=3, y=4)],
    tagged_point=Point(x=5, y=6),
    tagged_names=["t", "u" * 200],
    tagged_text="tag",
)


@pytest.mark.parametrize("message", [Everything(), FULL], ids=["defaults", "full"])
def test_what_is_encoded_is_decoded(message: Everything) -> None:
    encoded = b"".join(message.encode(2))
    assert Everything.decode(encoded, 2) == message
    assert Everything.decode(memoryview(bytearray(encoded)), 2) == message


def test_a_field_that_a_version_does_not_have_is_not_written_and_takes_its_default() -> None:
    decoded = Everything.decode(b"".join(FULL.encode(0)), 0)
    assert (decoded.maybe_point, decoded.tagged_point, decoded.tagged_names, decoded.tagged_text) == (
        None,
        None,
        [],
        None,
    )
    assert decoded.points == FULL.points


def test_tagged_fields_with_their_defaults_are_left_out() -> None:
    assert b"".join(Everything().encode(2))[-1:] == b"\0"
    assert len(b"".join(Everything(tagged_text="t").encode(2))) == len(b"".join(Everything().encode(2))) + 4


def test_tagged_fields_are_written_in_the_order_of_their_tags() -> None:
    encoded = b"".join(Everything(tagged_point=Point(x=0), tagged_names=["n"], tagged_text="t").encode(2))
    assert encoded.endswith(bytes.fromhex("0300 02 027401 03 02026e03 09 000000000000000000"))


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = b"".join(Everything(string="x").encode(2))
    assert encoded[-1] == 0
    extended = encoded[:-1] + bytes.fromhex("0200 02 027463 03 aabbcc")
    assert Everything.decode(extended, 2) == Everything(string="x", tagged_text="t")


def test_records_are_views_of_what_was_decoded_and_writable_if_it_is() -> None:
    request = ProduceRequest(
        acks=1,
        timeout_ms=0,
        topic_data=[
            ProduceRequest.Topic(name="t", partition_data=[ProduceRequest.Partition(index=0, records=b"batch")])
        ],
    )
    frame = bytearray(b"".join(request.encode(9)))
    records = ProduceRequest.decode(memoryview(frame), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[0:5] = b"BATCH"
    assert b"BATCH" in frame
    frozen = ProduceRequest.decode(bytes(frame), 9).topic_data[0].partition_data[0].records
    assert isinstance(frozen, memoryview)
    assert frozen.readonly


def test_large_records_are_passed_on_and_small_ones_joined() -> None:
    large, small = bytes(20_000), bytes(100)
    response = FetchResponse(
        responses=[
            FetchResponse.Topic(
                topic="t",
                partitions=[
                    FetchResponse.Partition(partition_index=i, records=records)
                    for i, records in enumerate([small, large, None, small])
                ],
            )
        ]
    )
    buffers = response.encode(12)
    assert [buffer for buffer in buffers if buffer is large] == [large]
    assert len(buffers) == 3


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"int8": 128}, r"Everything.int8: 128 is no int8"),
        ({"uint16": -1}, r"Everything.uint16: -1 is no uint16"),
        ({"int32": "7"}, r"Everything.int32: '7' is no int32"),
        ({"int64": None}, r"Everything.int64 cannot be None in version 2"),
        ({"uuid": b"short"}, r"Everything.uuid must have 16 bytes, not 5"),
        ({"string": None}, r"Everything.string cannot be None in version 2"),
        ({"string": b"x"}, r"Everything.string must be a str, not bytes"),
        ({"string": "\ud800"}, r"Everything.string cannot be expressed in UTF-8"),
        ({"bytes_": "x"}, r"Everything.bytes_ must be bytes, not str"),
        ({"names": ["a", 3]}, r"Everything.names\[1\] must be a str, not int"),
        ({"names": 3}, r"Everything.names must be a list, not int"),
        ({"numbers": [1, 1 << 20]}, r"Everything.numbers\[1\]: 1048576 is no int16"),
        ({"points": [Point(x=0), Point(x=1 << 31)]}, r"Everything.points\[1\].x: 2147483648 is no int32"),
        ({"points": [3]}, r"Everything.points\[0\] must be a Point, not int"),
        ({"tagged_point": Point(x=0, y=1 << 31)}, r"Everything.tagged_point.y: 2147483648 is no int32"),
    ],
)
def test_a_value_that_does_not_fit_is_named(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Everything(**change).encode(2)  # type: ignore[arg-type]


def test_a_string_longer_than_an_int16_needs_a_flexible_version() -> None:
    message = Everything(string="x" * 40_000)
    assert Everything.decode(b"".join(message.encode(1)), 1).string == message.string
    with pytest.raises(ValueError, match=r"Everything.string has 40000 bytes"):
        message.encode(0)


def test_null_is_refused_in_versions_that_do_not_allow_it() -> None:
    class Sometimes(Message, versions="0-1"):
        name: NullableString = field(nullable_since=1, default=None)

    assert Sometimes().encode(1) == [bytearray(b"\xff\xff")]
    assert Sometimes.decode(b"\xff\xff", 1) == Sometimes()
    with pytest.raises(ValueError, match="name cannot be None in version 0"):
        Sometimes().encode(0)
    with pytest.raises(MalformedMessage, match="name is null"):
        Sometimes.decode(b"\xff\xff", 0)


def test_a_message_can_be_encoded_again_after_it_has_changed() -> None:
    message = Everything()
    first = b"".join(message.encode(2))
    message.string = "changed"
    assert b"".join(message.encode(2)) != first


def test_the_source_of_a_codec_is_python_to_read() -> None:
    source = source_of(ProduceRequest, 9)
    assert "def decode_ProduceRequest_v9(buffer):" in source
    assert "def encode_ProduceRequest_v9(message, out):" in source
    assert "for partition_data_item in partition_data:" in source
    compile(source, "<source>", "exec")

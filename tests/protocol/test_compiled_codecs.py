"""Compiled and interpreted codecs are one: the same value, or the same exception, whatever they are given.

`kmini.protocol.cython_source` and `kmini.protocol.codec_extension` write the compiled ones.
"""

from __future__ import annotations

import enum
import random
import subprocess
import sys
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini.protocol import compiled_codecs, messages
from kmini.protocol.codec_extension import extension_source
from kmini.protocol.compile import COMPILED_MESSAGES, compiled, interpreted_decoder, interpreted_encoder
from kmini.protocol.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from kmini.protocol.schema import Message, Struct
from support.extension_modules import TREE, load_form
from support.for_each import for_each
from support.mutation import EXTREMES, mutated

CODECS = [
    (getattr(messages, name), version)
    for name, first in COMPILED_MESSAGES.items()
    for version in range(first, getattr(messages, name).max_version + 1)
]
each_codec = for_each("cls, version", CODECS)
BUFFERS: list[Callable[[bytes], Any]] = [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))]


@pytest.fixture(autouse=True)
def is_compiled() -> None:
    load_form(compiled_codecs.__name__, "compiled")


@pytest.fixture
def never_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled functions do not ask the interpreted ones."""

    def asked(cls: type[Message], version: int) -> None:
        pytest.fail(f"{cls.__name__} v{version} was left to the interpreted function")

    monkeypatch.setattr(compiled_codecs, "interpreted_decoder", asked)
    monkeypatch.setattr(compiled_codecs, "interpreted_encoder", asked)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call returns, or the class and the words of what it raises."""
    try:
        return call(*arguments)
    except Exception as error:
        return type(error), str(error)


def encoded(cls: type[Message], version: int, message: Any, *, form: str) -> Any:
    """What `Message.encode` makes behind two bytes, by a function of this form, or what it raises."""
    function = compiled(cls)[1][version] if form == "compiled" else interpreted_encoder(cls, version)
    known = cls._encoders.get(version)
    cls._encoders[version] = function
    try:
        parts = outcome(message.encode, version, bytearray(b"##"))
    finally:
        if known is None:
            del cls._encoders[version]
        else:
            cls._encoders[version] = known
    return parts


def assert_same(cls: type[Message], version: int, data: bytes) -> None:
    """Both decoders make the same of bytes."""
    expected = outcome(interpreted_decoder(cls, version), data)
    assert outcome(compiled(cls)[0][version], data) == expected


def test_the_extension_is_made_of_the_present_source() -> None:
    rebuild = "the extension is out of date: run `python -m pip install -e . --no-deps`"
    assert f"SOURCE_CRC = {compiled_codecs.SOURCE_CRC}\n" in extension_source(), rebuild  # type: ignore[attr-defined]


@pytest.mark.sockets
def test_setup_py_compiles_what_the_installed_package_would_write() -> None:
    code = "import sys, setup; sys.stdout.write(setup.codecs_for_cython())"
    written = subprocess.run([sys.executable, "-c", code], cwd=TREE, capture_output=True, text=True, check=True)
    assert written.stdout == extension_source()


@each_codec
@pytest.mark.usefixtures("never_gives_up")
def test_what_is_valid_is_decoded_and_encoded_without_the_interpreted_functions(
    cls: type[Message], version: int, random_message: Callable[..., Any]
) -> None:
    dice = random.Random(f"{cls.__name__} {version}")
    for _ in range(40):
        message = random_message(cls, version, dice)
        parts = interpreted_encoder(cls, version)(message, bytearray(b"##"))
        assert compiled(cls)[1][version](message, bytearray(b"##")) == parts
        data = b"".join(parts)[2:]
        for made_of in BUFFERS:
            decoded = compiled(cls)[0][version](made_of(data))
            assert decoded == message
            assert types_in(decoded) == types_in(interpreted_decoder(cls, version)(made_of(data)))


def types_in(value: Any) -> Any:
    """The types of all that a value holds."""
    if isinstance(value, Struct):
        return type(value), [types_in(getattr(value, field.name)) for field in type(value).__fields__]
    if isinstance(value, list):
        return [types_in(item) for item in value]
    if isinstance(value, memoryview):
        return memoryview, value.readonly, value.format, value.shape, type(value.obj)
    return type(value)


@each_codec
def test_a_message_cut_anywhere_is_refused_with_the_same_words(
    cls: type[Message], version: int, random_message: Callable[..., Any]
) -> None:
    dice = random.Random(f"cut {cls.__name__} {version}")
    data = b"".join(random_message(cls, version, dice).encode(version))
    for cut in range(min(len(data), 600)):
        assert_same(cls, version, data[:cut])


@each_codec
def test_mutated_messages_have_the_same_outcome(
    cls: type[Message], version: int, random_message: Callable[..., Any]
) -> None:
    dice = random.Random(f"mutated {cls.__name__} {version}")
    for _ in range(60):
        data = b"".join(random_message(cls, version, dice).encode(version))
        for _ in range(4):
            assert_same(cls, version, mutated(data, dice))


@each_codec
def test_lengths_counts_and_tags_of_any_size_at_any_place_have_the_same_outcome(
    cls: type[Message], version: int, random_message: Callable[..., Any]
) -> None:
    dice = random.Random(f"extremes {cls.__name__} {version}")
    data = b"".join(random_message(cls, version, dice).encode(version))[:300]
    tag = b"\x63\x02ab"
    for at in range(len(data)):
        for extreme in (*EXTREMES, b"\x01" + tag, b"\x40" + tag * 64, b"\x41" + tag * 65, b"\xfe\xff\xff\xff\x0f"):
            assert_same(cls, version, data[:at] + extreme + data[at + 1 :])
            assert_same(cls, version, data[:at] + extreme + data[at + len(extreme) :])


@each_codec
def test_random_bytes_have_the_same_outcome(cls: type[Message], version: int) -> None:
    dice = random.Random(f"random {cls.__name__} {version}")
    for _ in range(300):
        assert_same(cls, version, dice.randbytes(dice.randrange(80)))


@pytest.mark.parametrize("name", ["x" * 254, "x" * 250 + "😀", "ж" * 127])
def test_what_takes_too_much_memory_is_refused_with_the_same_words(name: str) -> None:
    topic = FetchRequest.Topic(topic=name, partitions=[])
    few = FetchRequest.Topic(topic="t", partitions=[])
    for many in (10, 1_000, 20_000, 60_000):
        request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[topic] * (many // 20) + [few] * many)
        assert_same(FetchRequest, 12, b"".join(request.encode(12)))


def test_bytes_that_are_no_text_have_the_same_outcome() -> None:
    for text in (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\xf0\x9f\x98"):
        for length in range(6):
            start = length.to_bytes(2, "big", signed=True) + text
            assert_same(ProduceRequest, 3, start)
            assert_same(ProduceRequest, 3, start + bytes(20))


class Number(enum.IntEnum):
    SEVEN = 7


class Text(str):
    def encode(self, *_: Any) -> bytes:
        return b"another"


ODD: list[Any] = [
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        127,
        128,
        1 << 15,
        -(1 << 15) - 1,
        1 << 31,
        1 << 63,
        -(1 << 63) - 1,
        1.5,
        Number.SEVEN,
    ),
    *("", "text", "naïve", "\ud800", "x" * 127, "x" * 0x8000, Text("x"), b"", b"bytes", bytes(16), bytearray(16)),
    *(memoryview(b"view"), memoryview(array("i", [1, 2])), memoryview(b"abcdef")[::2], array("b", [1]), object()),
    *(
        [],
        (),
        [None],
        [1],
        [1 << 40],
        ["x"],
        {},
        {1: 2},
        range(2),
        bytes(8_191),
        bytes(8_192),
        memoryview(bytes(9_000)),
    ),
]
"""Values, most of which most fields cannot have."""


def structs_in(value: Any) -> Iterator[Struct]:
    if isinstance(value, Struct):
        yield value
        for field in type(value).__fields__:
            yield from structs_in(getattr(value, field.name))
    elif isinstance(value, list):
        for item in value:
            yield from structs_in(item)


@each_codec
def test_values_of_any_kind_in_any_field_have_the_same_outcome(
    cls: type[Message], version: int, random_message: Callable[..., Any]
) -> None:
    message = random_message(cls, version, random.Random(f"odd {cls.__name__} {version}"))
    for struct in list({type(struct): struct for struct in structs_in(message)}.values()):
        for field in type(struct).__fields__:
            before = getattr(struct, field.name)
            for value in ODD:
                setattr(struct, field.name, value)
                same = encoded(cls, version, message, form="interpreted")
                assert encoded(cls, version, message, form="compiled") == same, (field.name, value)
            delattr(struct, field.name)
            same = encoded(cls, version, message, form="interpreted")
            assert encoded(cls, version, message, form="compiled") == same, field.name
            setattr(struct, field.name, before)


def test_records_are_passed_on_as_they_are_from_the_same_size_on() -> None:
    for records in (bytes(8_191), bytes(8_192), bytearray(9_000), memoryview(bytes(9_000))):
        partition = FetchResponse.Topic.Partition(partition_index=0, records=records)
        response = FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=[partition, partition])])
        parts = compiled(FetchResponse)[1][12](response, bytearray())
        assert [part is records for part in parts] == (
            [False] if len(records) < 8_192 else [False, True, False, True, False]
        )
        assert parts == interpreted_encoder(FetchResponse, 12)(response, bytearray())


def test_a_buffer_that_cannot_grow_is_refused_with_the_same_words() -> None:
    response = ProduceResponse(responses=[])
    for encode in (compiled(ProduceResponse)[1][9], interpreted_encoder(ProduceResponse, 9)):
        out = bytearray(b"##")
        with memoryview(out), pytest.raises(BufferError, match="cannot be re-sized"):
            encode(response, out)
        assert out == b"##"


def test_a_buffer_is_free_again_when_its_message_is_decoded_or_refused() -> None:
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])
    buffer = bytearray(b"".join(request.encode(12)))
    compiled(FetchRequest)[0][12](buffer)
    buffer.pop()  # a BufferError if anything still holds it
    assert outcome(compiled(FetchRequest)[0][12], buffer)[0] is IndexError
    buffer.pop()


@each_codec
def test_nothing_is_left_behind(cls: type[Message], version: int, random_message: Callable[..., Any]) -> None:
    dice = random.Random(f"left {cls.__name__} {version}")
    message = random_message(cls, version, dice)
    data = b"".join(message.encode(version))
    frames = [data, *(data[: dice.randrange(len(data))] for _ in range(3)), *(mutated(data, dice) for _ in range(3))]

    def work() -> None:
        for frame in frames:
            outcome(compiled(cls)[0][version], frame)
        compiled(cls)[1][version](message, bytearray())

    def left() -> int:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            work()
        return tracemalloc.get_traced_memory()[0] - before

    work()
    tracemalloc.start()
    try:
        work()
        # One object each time would be more. Threads of other tests may allocate meanwhile, so it is tried again.
        assert any(left() < 2_400 for _ in range(5))
    finally:
        tracemalloc.stop()


def test_a_struct_that_is_laid_out_in_another_way_is_left_to_the_interpreted_functions() -> None:
    structs = [FetchRequest, *(type("Other", (Struct,), {}) for _ in range(4))]
    assert compiled_codecs.functions_of("FetchRequest", tuple(structs)) == ({}, {})


def test_a_message_of_the_same_name_elsewhere_is_left_to_the_interpreted_functions() -> None:
    namesake = type("FetchRequest", (Message,), {"__module__": __name__})
    assert compiled(namesake) == ({}, {})


def test_the_source_that_runs_without_the_extension_leaves_all_to_the_interpreted_functions() -> None:
    source = load_form(compiled_codecs.__name__, "interpreted")
    assert source.__file__ == str(TREE / "protocol/compiled_codecs.py")
    assert source.functions_of("FetchRequest", (FetchRequest,)) == ({}, {})
    assert source.maker_of(FetchRequest) is None

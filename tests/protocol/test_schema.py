"""What a class definition means. Codecs are tested in test_codecs.py."""

from collections.abc import Callable
from types import BuiltinFunctionType

import pytest

from kmini.protocol import compiled_codecs
from kmini.protocol.primitives import Array, Bytes, Int32, Int64, NullableArray, NullableString, Records, String
from kmini.protocol.schema import Message, Request, Response, Struct, field, interpreted_maker, maker
from support.extension_modules import FORMS, load_form


class Inner(Struct):
    number: Int32


class Sample(Message, versions="1-3", flexible="2+"):
    name: String
    since_two: Int64 = field(since=2, default=-1)
    until_two: NullableString = field(until=2, default=None)
    items: Array[Inner] = field(default=[])
    maybe: NullableArray[Int32] = None
    blob: Bytes = b""


def test_the_constructor_takes_keywords_and_fills_in_defaults() -> None:
    sample = Sample(name="x")
    assert (sample.name, sample.since_two, sample.until_two, sample.items) == ("x", -1, None, [])
    assert (sample.maybe, sample.blob) == (None, b"")


def test_a_field_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="name"):
        Sample()  # type: ignore[call-arg]


def test_a_field_that_is_not_there_cannot_be_given_or_set() -> None:
    with pytest.raises(TypeError, match="colour"):
        Sample(name="x", colour="red")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Sample(name="x").colour = "red"  # type: ignore[attr-defined]


def test_leading_fields_may_be_given_in_order() -> None:
    assert Inner(3) == Inner(number=3)  # type: ignore[call-arg]


def test_every_message_gets_a_list_of_its_own() -> None:
    one, other = Sample(name="x"), Sample(name="x")
    one.items.append(Inner(number=1))
    assert other.items == []


@pytest.fixture(params=FORMS)
def make(request: pytest.FixtureRequest) -> Callable[..., Sample]:
    """The maker of samples, compiled and interpreted."""
    load_form(compiled_codecs.__name__, request.param)
    made: Callable[..., Sample] = maker(Sample) if request.param == "compiled" else interpreted_maker(Sample)
    assert isinstance(made, BuiltinFunctionType) == (request.param == "compiled")
    return made


def test_a_maker_makes_what_the_constructor_makes(make: Callable[..., Sample]) -> None:
    items = [Inner(number=1)]
    assert make("x") == Sample(name="x")
    values = {"name": "x", "since_two": 7, "until_two": "until", "items": items, "maybe": [3], "blob": b"blob"}
    assert make(*values.values()) == make(**values) == Sample(**values)  # type: ignore[arg-type]
    assert make("x", blob=b"blob", since_two=7) == Sample(name="x", blob=b"blob", since_two=7)
    assert make("x", items=items).items is items
    assert make().name is None


def test_every_struct_of_a_maker_gets_a_list_of_its_own(make: Callable[..., Sample]) -> None:
    assert make("x").items is not make("x").items


def test_a_maker_refuses_values_for_no_field(make: Callable[..., Sample]) -> None:
    with pytest.raises(TypeError, match="takes from 0 to 6 positional arguments but 7 were given"):
        make("x", 7, None, [], None, b"", "too many")
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        make("x", colour="red")
    with pytest.raises(TypeError, match="multiple values for argument 'name'"):
        make("x", name="y")


def test_a_maker_of_many_fields_is_as_good() -> None:
    class Wide(Struct):
        f1: Int32 = 1
        f2: Int32 = 2
        f3: Int32 = 3
        f4: Int32 = 4
        f5: Int32 = 5
        f6: Int32 = 6
        f7: Int32 = 7
        f8: Int32 = 8
        f9: Int32 = 9
        f10: Int32 = 10
        f11: Int32 = 11
        f12: Int32 = 12
        f13: Int32 = 13
        f14: Int32 = 14
        f15: Int32 = 15
        f16: Int32 = 16
        f17: Int32 = 17

    assert maker(Wide)(0, f17=0) == Wide(f1=0, f17=0)


def test_messages_are_equal_if_all_their_fields_are() -> None:
    assert Sample(name="x", items=[Inner(number=1)]) == Sample(name="x", items=[Inner(number=1)])
    assert Sample(name="x", items=[Inner(number=1)]) != Sample(name="x", items=[Inner(number=2)])
    assert Sample(name="x") != Inner(number=1)


def test_messages_have_no_hash_because_they_can_change() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Sample(name="x"))


def test_the_repr_shows_fields_and_hides_long_bytes() -> None:
    sample = Sample(name="x", items=[Inner(number=1)], blob=bytes(1_000))
    assert repr(sample) == (
        "Sample(name='x', since_two=-1, until_two=None, items=[Inner(number=1)], maybe=None, blob=<1000 bytes>)"
    )


def test_a_nested_struct_is_named_after_where_it_stands() -> None:
    class Outer(Struct):
        class Partition(Struct):
            index: Int32

        partitions: Array[Partition]

    assert repr(Outer.Partition(index=1)).endswith("Outer.Partition(index=1)")


def test_versions_and_flexibility_are_on_the_class() -> None:
    assert (Sample.min_version, Sample.max_version, Sample.flexible_from) == (1, 3, 2)


def test_a_response_has_the_key_and_versions_of_its_request() -> None:
    class PingRequest(Request, api_key=1_000, versions="0-1"):
        pass

    class PingResponse(Response, to=PingRequest):
        pass

    assert PingRequest.response is PingResponse
    assert PingResponse.request is PingRequest
    assert (PingResponse.api_key, PingResponse.name, PingResponse.max_version) == (1_000, "Ping", 1)
    assert [PingRequest.header_version(1), PingResponse.header_version(1)] == [1, 0]


@pytest.mark.parametrize("version", [0, 4, -1])
def test_other_versions_are_a_value_error(version: int) -> None:
    with pytest.raises(ValueError, match="versions 1 to 3"):
        Sample(name="x").encode(version)
    with pytest.raises(ValueError, match="versions 1 to 3"):
        Sample.decode(b"", version)


def test_a_field_that_can_be_absent_needs_a_default() -> None:
    for options in ({"since": 1}, {"until": 1}, {"tag": 0}):
        with pytest.raises(TypeError, match="needs a default"):
            field(**options)


def test_a_field_cannot_hide_what_every_message_has() -> None:
    with pytest.raises(TypeError, match="would hide"):

        class Bad(Message, versions="0"):
            encode: Int32  # type: ignore[assignment]


def test_fields_are_not_inherited() -> None:
    with pytest.raises(TypeError, match="cannot inherit"):

        class Derived(Inner):
            more: Int32


def test_a_type_that_is_none_of_ours_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="no wire type"):

        class Bad(Struct):
            number: int


def test_records_are_given_as_any_buffer() -> None:
    class Carrier(Message, versions="0"):
        records: Records

    expected = bytes.fromhex("00000003") + b"abc"
    for records in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
        assert b"".join(Carrier(records=records).encode(0)) == expected

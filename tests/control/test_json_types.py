"""Values in JSON by their annotations: read, written, described, and refused with their place."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from kmini.control.json_types import MOST_SHOWN, WrongValue, kind_of, to_json
from kmini.protocol.topics import TopicPartition
from kmini.testkit.contents import Isolation, PartitionOffsets
from kmini.testkit.group_handle import GroupOffsets
from support.for_each import for_each

ORDERS = TopicPartition("orders", 0)


class Point(NamedTuple):
    """A place."""

    x: int
    name: str | None = None


@dataclasses.dataclass
class Box:
    corner: Point
    data: bytes | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


GOOD: dict[str, tuple[Any, Any, Any]] = {
    "a whole number": (int, 7, 7),
    "a negative number": (int, -1, -1),
    "a number": (float, 1.5, 1.5),
    "a whole number as a number": (float, 2, 2),
    "a text": (str, "ä", "ä"),
    "true": (bool, True, True),
    "null": (type(None), None, None),
    "text or null, null": (str | None, None, None),
    "text or null, text": (str | None, "a", "a"),
    "data as text": (bytes, "ä", "ä".encode()),
    "data in base64": (bytes, {"base64": "/w=="}, b"\xff"),
    "no data": (bytes | None, None, None),
    "a choice": (Isolation, "all", "all"),
    "a choice of numbers": (Literal[1, 2], 2, 2),
    "a partition": (TopicPartition, "orders-0", ORDERS),
    "a partition of a topic with dashes": (TopicPartition, "my-orders-12", TopicPartition("my-orders", 12)),
    "a list": (list[int], [1, 2], [1, 2]),
    "a set": (set[int], [1, 2], {1, 2}),
    "a sequence": (Sequence[str], ["a"], ("a",)),
    "a collection": (Collection[str], [], ()),
    "an iterable": (Iterable[str], ["a"], ("a",)),
    "a tuple of any length": (tuple[str, ...], ["a", "b"], ("a", "b")),
    "a pair": (tuple[str, int], ["a", 1], ("a", 1)),
    "an object": (dict[str, int], {"a": 1}, {"a": 1}),
    "an object by number": (dict[int, str], {"-1": "a"}, {-1: "a"}),
    "offsets": (Mapping[tuple[str, int], int], {"orders-0": 7}, {ORDERS: 7}),
    "offsets of a group": (GroupOffsets, {"orders-0": 7}, GroupOffsets({ORDERS: 7})),
    "anything": (Any, {"a": [None]}, {"a": [None]}),
    "a named tuple": (Point, {"x": 1, "name": "a"}, Point(1, "a")),
    "a named tuple by default": (Point, {"x": 1}, Point(1)),
    "a dataclass": (Box, {"corner": {"x": 1}, "data": "a", "tags": ["b"]}, Box(Point(1), b"a", ["b"])),
    "what only Python has beside what JSON has": (int | timedelta, 7, 7),
}
"""An annotation, the JSON, and the value."""


@for_each("name", GOOD)
def test_a_value_is_read_and_fits_its_schema(name: str) -> None:
    annotation, document, value = GOOD[name]
    kind = kind_of(annotation)
    read = kind.read(document)
    assert (read, type(read)) == (value, type(value))
    Draft202012Validator.check_schema(kind.schema())
    Draft202012Validator(kind.schema()).validate(document)


@for_each("name", [name for name in GOOD if "in base64" not in name])
def test_a_value_that_is_written_is_read_as_the_same(name: str) -> None:
    annotation, _, value = GOOD[name]
    written = to_json(value)
    Draft202012Validator(kind_of(annotation).schema()).validate(written)
    assert kind_of(annotation).read(written) == value


BAD: dict[str, tuple[Any, Any, str, str]] = {
    "a text for a number": (int, "7", "", "a whole number"),
    "true for a number": (int, True, "", "a whole number"),
    "1.5 for a whole number": (int, 1.5, "", "a whole number"),
    "true for a float": (float, True, "", "a number"),
    "a number for a text": (str, 7, "", "a text"),
    "1 for true": (bool, 1, "", "true or false"),
    "0 for null": (type(None), 0, "", "null"),
    "null for a number": (int, None, "", "a whole number"),
    "no member of a union": (int | str | None, [], "", "must be"),
    "null for data": (bytes, None, "", "the data of a record"),
    "base64 that is none": (bytes, {"base64": "?"}, "/base64", "base64"),
    "no choice": (Isolation, "none", "", '"committed" or "uncommitted" or "all"'),
    "a partition without a number": (TopicPartition, "orders", "", 'as "orders-0"'),
    "a partition without a topic": (TopicPartition, "-0", "", 'as "orders-0"'),
    "a partition with a foreign digit": (TopicPartition, "orders-²", "", 'as "orders-0"'),
    "a text for an array": (list[str], "ab", "", "an array"),
    "an object for an array": (list[str], {}, "", "an array"),
    "a wrong item": (list[int], [1, "2"], "/1", "a whole number"),
    "a wrong item of a pair": (tuple[str, int], ["a", "b"], "/1", "a whole number"),
    "a pair of three": (tuple[str, int], ["a", 1, 2], "", "an array of 2"),
    "an array for an object": (dict[str, int], [], "", "an object"),
    "a wrong member": (dict[str, int], {"a/b~c": "x"}, "/a~1b~0c", "a whole number"),
    "a wrong key": (dict[int, str], {"x": "a"}, "/x", "a whole number"),
    "a wrong partition as a key": (Mapping[tuple[str, int], int], {"orders": 7}, "/orders", 'as "orders-0"'),
    "an object without a field": (Point, {"name": "a"}, "", "x is missing"),
    "an object with another field": (Point, {"x": 1, "y": 2}, "/y", "there is no y"),
    "no object": (Point, [1, "a"], "", "an object with x, name"),
    "a wrong field of a field": (Box, {"corner": {"x": "1"}}, "/corner/x", "a whole number"),
    "the deepest of a union": (list[int] | list[str] | None, [["a"]], "/0", "must be"),
}
"""An annotation, JSON that is none of it, the place of the fault, and what is said."""


@for_each("name", BAD)
def test_a_wrong_value_is_refused_with_its_place(name: str) -> None:
    annotation, document, pointer, told = BAD[name]
    with pytest.raises(WrongValue) as refused:
        kind_of(annotation).read(document)
    assert refused.value.pointer == pointer
    assert told in refused.value.message
    assert str(refused.value) == refused.value.message


def test_a_long_wrong_value_is_cut() -> None:
    with pytest.raises(WrongValue) as refused:
        kind_of(int).read("x" * 10_000)
    assert len(refused.value.message) < 2 * MOST_SHOWN


@pytest.mark.parametrize("annotation", [object, type, Point | object, list[object], complex])
def test_an_annotation_without_a_form_in_json_is_refused(annotation: Any) -> None:
    with pytest.raises(TypeError):
        kind_of(annotation)


def test_bytes_are_written_as_the_caller_wants() -> None:
    assert to_json(Box(Point(1), b"\xff")) == {
        "corner": {"x": 1, "name": None},
        "data": {"base64": "/w=="},
        "tags": [],
    }
    assert to_json([b"\xff", None], lambda data: "?" if data is None else data.hex()) == ["ff", None]


def test_sets_are_written_in_order_and_partitions_as_one_text() -> None:
    assert to_json({3, 1, 2}) == [1, 2, 3]
    assert to_json({("orders", 1): ORDERS}) == {"orders-1": "orders-0"}
    assert to_json({0: PartitionOffsets(0, 1, 2, 3)})["0"].keys() == PartitionOffsets(0, 1, 2, 3)._asdict().keys()


def test_what_has_no_form_in_json_is_not_written() -> None:
    with pytest.raises(TypeError, match="has no form in JSON"):
        to_json(object())

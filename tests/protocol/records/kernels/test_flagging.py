"""The kernel of the tombstone flag: what it reads off records, what it writes, and that nothing leads it astray."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kmini.protocol.records import load_kernel
from kmini.protocol.records.record import TOMBSTONE_BIT, TOMBSTONE_HEADER
from support.batches import Item, record
from support.for_each import for_each

INTERPRETED = load_kernel.load("flagging", interpreted=True)
NAME = INTERPRETED.NAME
NULL, FLAG, HEADER, DENIED = 1, 2, 4, 8
YES = (NAME, b"")


@pytest.fixture(params=["compiled", "interpreted"])
def flagging(request: pytest.FixtureRequest) -> Any:
    module = load_kernel.load("flagging", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    return module


def block(*items: Item) -> bytes:
    return b"".join(record(item, index) for index, item in enumerate(items))


def some_items(dice: random.Random) -> list[Item]:
    names = [NAME, NAME[:-1] + b"f", NAME + b"s", b"h", b""]
    contents = [None, b"", b"0", b"1", b"false", b"FaLsE", b"falsy", b"true", b"\0", b"\1", b"x" * 70]
    return [
        Item(
            dice.choice([None, b"", b"k", b"k" * 100]),
            dice.choice([None, b"", b"v", b"v" * 9_000]),
            dice.choice([0, -1, 1 << 40, -(1 << 40)]),
            tuple((dice.choice(names), dice.choice(contents)) for _ in range(dice.choice([0, 0, 1, 3, 63, 64]))),
            None,
            dice.choice([0, 0, TOMBSTONE_BIT, 0xDF - 0x100, 0x7F]),
        )
        for _ in range(dice.randrange(1, 6))
    ]


def expected_mark(item: Item) -> int:
    told = [content for name, content in item.headers if name == NAME]
    is_denied = any(content is not None and content.lower() in (b"0", b"false", b"\0") for content in told)
    return (
        NULL * (item.value is None)
        + FLAG * bool(item.attributes & TOMBSTONE_BIT)
        + HEADER * bool(told)
        + DENIED * is_denied
    )


def expected_record(item: Item) -> Item:
    mark = expected_mark(item)
    if not mark & (NULL | FLAG | HEADER):
        return item
    attributes = (item.attributes | TOMBSTONE_BIT) & 0xFF
    attributes -= 0x100 if attributes > 0x7F else 0
    return item._replace(attributes=attributes, headers=item.headers if mark & HEADER else (*item.headers, YES))


def test_there_is_one_name_of_the_header() -> None:
    assert NAME.decode() == TOMBSTONE_HEADER


@for_each(
    ("item", "mark"),
    [
        (Item(), 0),
        (Item(value=b""), 0),
        (Item(value=None), NULL),
        (Item(attributes=TOMBSTONE_BIT), FLAG),
        (Item(attributes=0x5F), 0),
        (Item(headers=(YES,)), HEADER),
        (Item(headers=((NAME, None),)), HEADER),
        (Item(headers=((b"h", b"1"), (NAME, b"x"), (b"h", None))), HEADER),
        (Item(headers=((NAME.upper(), b""),)), 0),
        (Item(headers=((NAME, b"false"),)), HEADER | DENIED),
        (Item(headers=((NAME, b"false"), YES)), HEADER | DENIED),
        (Item(headers=((NAME, b"falsch"),)), HEADER),
        (Item(value=None, attributes=TOMBSTONE_BIT, headers=(YES,)), NULL | FLAG | HEADER),
    ],
)
def test_a_mark_says_what_is_true_of_a_record(flagging: Any, item: Item, mark: int) -> None:
    data = block(item, Item())
    assert flagging.marks_of(data) == (len(data), bytearray((mark, 0)))


@for_each("seed", range(40))
def test_any_records_are_marked_flagged_and_cleared_as_they_should(flagging: Any, seed: int) -> None:
    items = some_items(random.Random(seed))
    data = block(*items)
    end, marks = flagging.marks_of(data)
    assert (end, list(marks)) == (len(data), [expected_mark(item) for item in items])
    assert flagging.flagged(data, marks) == block(*map(expected_record, items))
    assert flagging.cleared(data) == (len(data), block(*(item._replace(attributes=0) for item in items)))


@for_each("seed", range(10))
def test_what_is_flagged_needs_no_change(flagging: Any, seed: int) -> None:
    data = block(*some_items(random.Random(seed)))
    once = flagging.flagged(data, flagging.marks_of(data)[1])
    assert flagging.flagged(once, flagging.marks_of(once)[1]) == once


def test_part_of_a_record_at_the_end_is_left(flagging: Any) -> None:
    whole, cut = block(Item(value=None)), block(Item(), Item())
    for length in range(len(cut) // 2):
        piece = whole + cut[:length]
        end, marks = flagging.marks_of(piece)
        assert (end, list(marks)) == (len(whole), [NULL])
        assert flagging.flagged(piece, marks) == flagging.flagged(whole, marks)
        assert flagging.cleared(piece) == (len(whole), whole)


def test_of_nothing_there_is_nothing(flagging: Any) -> None:
    assert flagging.marks_of(b"") == (0, b"")
    assert flagging.flagged(b"", bytearray()) == b""
    assert flagging.cleared(b"") == (0, b"")


def test_more_marks_than_records_are_an_error(flagging: Any) -> None:
    with pytest.raises(ValueError, match="fewer records"):
        flagging.flagged(block(Item()), bytearray(2))


@for_each("seed", range(30))
def test_damage_is_an_error_or_another_record_and_the_same_to_both_kernels(flagging: Any, seed: int) -> None:
    dice = random.Random(seed)

    def outcome(function: Any, data: bytes) -> object:
        try:
            return function(data)
        except ValueError as error:
            return str(error)

    data = bytearray(block(*some_items(dice)))
    for _ in range(40):
        damaged = bytearray(data)
        for _ in range(dice.choice([1, 1, 2, 8])):
            damaged[dice.randrange(min(len(damaged), 60))] = dice.randrange(256)
        for name in ("marks_of", "cleared"):
            ours = outcome(getattr(flagging, name), bytes(damaged))
            assert ours == outcome(getattr(INTERPRETED, name), bytes(damaged))

"""The scan of a record: whole or cut anywhere (`kmini.protocol.records.kernels.cut_record`) it finds the same.

A record that is refused is refused for the same reason.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kmini.protocol.records import load_kernel
from kmini.protocol.records.layout import REASONS
from kmini.protocol.records.record import Record
from support.for_each import for_each

LIMIT = 10_000


@pytest.fixture(params=["compiled", "interpreted"])
def records(request: pytest.FixtureRequest) -> Any:
    module = load_kernel.load("records", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    return module


def facts(records: Any, block: bytes, count: int, cuts: list[int]) -> tuple[Any, ...]:
    """What a walker finds in a block that is cut at these places."""
    walker = records.RecordWalker(count, 1_000, LIMIT)
    for start, end in zip([0, *cuts], [*cuts, len(block)], strict=True):
        walked = walker.feed(block[start:end])
        if walker.error or walked < end - start:
            break
    if walker.error:
        return ("error", walker.walked, walker.error)
    return (
        walker.walked,
        walker.null_keys,
        walker.is_sequential,
        walker.min_timestamp,
        walker.max_timestamp,
        walker.max_timestamp_delta,
    )


def some_block(records: Any, dice: random.Random) -> tuple[bytes, int]:
    maybe = [None, b"", b"k", b"k" * 200]
    made = [
        Record(
            0,
            1_000 + dice.randrange(1 << 40),
            dice.choice(maybe),
            dice.choice(maybe),
            tuple(("h" * dice.randrange(3), dice.choice(maybe)) for _ in range(dice.choice([0, 0, 1, 3]))),
        )
        for _ in range(dice.randrange(1, 6))
    ]
    return bytes(records.encode_records(made, range(len(made)), 1_000)), len(made)


@for_each("seed", range(20))
def test_wherever_a_block_is_cut_the_facts_are_the_same(records: Any, seed: int) -> None:
    dice = random.Random(seed)
    block, count = some_block(records, dice)
    whole = facts(records, block, count, [])
    assert whole[0] == count
    for _ in range(20):
        cuts = sorted(dice.randrange(len(block) + 1) for _ in range(dice.randrange(1, 5)))
        assert facts(records, block, count, cuts) == whole
    assert facts(records, block, count, list(range(1, len(block)))) == whole


@for_each("seed", range(40))
def test_wherever_a_damaged_block_is_cut_the_reason_is_the_same(records: Any, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        block, count = some_block(records, dice)
        damaged = bytearray(block)
        for _ in range(dice.choice([1, 1, 2])):
            damaged[dice.randrange(min(len(damaged), 40))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
        whole = facts(records, bytes(damaged), count, [])
        if whole[0] == "error":
            assert whole[2] in REASONS
        byte_by_byte = facts(records, bytes(damaged), count, list(range(1, len(damaged))))
        assert byte_by_byte == whole
        cuts = sorted(dice.randrange(len(damaged) + 1) for _ in range(2))
        assert facts(records, bytes(damaged), count, cuts) == whole


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"\x01" + bytes(20), "its length is negative or too short for a record"),
        (b"\xff\xff\xff\xff\xff\x01" + bytes(20), "one of its numbers has too many bytes"),
        (b"\xfe\xff\x7f" + bytes(20), "it is larger than a record may be"),
        (b"\x0c\0\0\0\x40\x01\0", "its key is longer than the record"),
        (b"\x0c\0\0\0\x01\x40\0", "its value is longer than the record"),
        (b"\x0c\0\0\0\x01\x01\x01", "its headers are malformed"),
        (b"\x0e\0\0\0\x01\x01\0z", "its fields do not fill its length exactly"),
        (b"\x0c\0\0\0\x01\x01\x80", "one of its numbers has too many bytes"),
    ],
)
def test_a_record_is_refused_for_its_first_fault(records: Any, block: bytes, reason: str) -> None:
    walker = records.RecordWalker(1, 0, LIMIT)
    walker.feed(block)
    assert REASONS[walker.error] == reason
    whole = facts(records, block, 1, [])
    assert facts(records, block, 1, list(range(1, len(block)))) == whole

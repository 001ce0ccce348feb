"""The kernel of columns: its rows are the records the decoder finds, it writes nowhere else, and damage is an error.

Each kind of column (`kmini.protocol.records.kernels.column_kinds`) is filled.
"""

from __future__ import annotations

import itertools
import random
import struct
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kmini.protocol.errors import InvalidRecord
from kmini.protocol.records import load_kernel
from kmini.protocol.records.batch import HEADER_SIZE, BatchHeader, build_batch, read_header, rewrite_header
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.records.tombstones import FLAG, marks_of
from support.for_each import for_each

SomeRecords = Callable[..., list[Record]]
EVERY = 1 << 62
GUARD = b"\xa5" * 16


@pytest.fixture(params=["compiled", "interpreted"])
def columns(request: pytest.FixtureRequest) -> Any:
    module = load_kernel.load("columns", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    return module


class Room:
    """Memory for every part, each with guards behind it, and what stands in it."""

    def __init__(self, parts: Mapping[str, Any], *, rows: int = 100, headers: int = 200, data: int = 100_000) -> None:
        self.max_rows = rows
        sizes = {}
        for part, (width, *_) in parts.items():
            entries = headers if part in ("name_ends", "content_ends", "content_valid") else rows
            sizes[part] = data if width == 1 else width * (entries + 1) if width else entries + 7 >> 3
        sizes["notes"] = 8 * 11 * rows
        self._whole = {part: bytearray(b"\xff" * size + GUARD) for part, size in sizes.items()}
        self.views = {part: memoryview(whole)[: -len(GUARD)] for part, whole in self._whole.items()}

    def is_kept_within(self) -> bool:
        return all(whole.endswith(GUARD) for whole in self._whole.values())

    def numbers(self, part: str, kind: str, count: int) -> list[int]:
        size = struct.calcsize(kind) * count
        return self.views[part][:size].cast(kind).tolist()

    def bits(self, part: str, count: int) -> list[bool]:
        return [bool(self.views[part][at >> 3] >> (at & 7) & 1) for at in range(count)]

    def binary(self, name: str, count: int) -> list[bytes | None]:
        ends = self.numbers(f"{name}_ends", "i", count + 1)
        assert ends[0] == 0
        assert ends == sorted(ends)
        data = self.views[name]
        valid = self.bits(f"{name}_valid", count)
        return [bytes(data[a:b]) if ok else None for a, b, ok in zip(ends, ends[1:], valid, strict=False)]

    def records(self, kernel: Any) -> list[Record]:
        rows = kernel.rows
        names_ends = self.numbers("name_ends", "i", kernel.headers + 1)
        names = [bytes(self.views["name"][a:b]).decode("utf-8", "replace") for a, b in itertools.pairwise(names_ends)]
        contents = self.binary("content", kernel.headers)
        headers = list(zip(names, contents, strict=True))
        ends = self.numbers("headers_ends", "i", rows + 1)
        assert self.bits("headers_valid", rows) == [a < b for a, b in itertools.pairwise(ends)]
        return [
            Record(offset, timestamp, key, value, tuple(headers[a:b]))
            for offset, timestamp, key, value, a, b in zip(
                self.numbers("offset", "q", rows),
                self.numbers("timestamp", "q", rows),
                self.binary("key", rows),
                self.binary("value", rows),
                ends,
                ends[1:],
                strict=False,
            )
        ]


def note(header: BatchHeader, position: int = 0) -> tuple[int, ...]:
    return (
        position,
        header.size,
        header.base_offset,
        header.attributes,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.partition_leader_epoch,
        header.magic,
    )


def filled(
    columns: Any, data: bytes, room: Room | None = None, *, first: int = 0, end: int = EVERY
) -> tuple[Any, Room]:
    room = room or Room(columns.PARTS)
    kernel = columns.RecordColumns(first, end, 1 << 30)
    kernel.give(room.views, room.max_rows)
    kernel.next_offset = read_header(data).base_offset
    kernel.fill_batches(data, 0, len(data), 0)
    assert room.is_kept_within()
    return kernel, room


def by_pieces(columns: Any, batch: bytes, cuts: list[int]) -> list[Record]:
    """The records of a batch whose block comes in pieces cut at these places; InvalidRecord as the decoder."""
    header = read_header(batch)
    room = Room(columns.PARTS, rows=7, headers=40, data=2000)
    kernel = columns.RecordColumns(-EVERY, EVERY, 1 << 30)
    kernel.give(room.views, room.max_rows)
    kernel.begin(header.record_count, note(header))
    found: list[Record] = []
    rest = b""
    for start, end in zip([0, *cuts], [*cuts, len(batch) - HEADER_SIZE], strict=True):
        rest += batch[HEADER_SIZE + start : HEADER_SIZE + end]
        at = kernel.fill_records(rest, 0)
        while kernel.is_full:
            found += room.records(kernel)
            if not kernel.rows:
                raise AssertionError("no record of these tests needs more room")
            kernel.give(room.views, room.max_rows)
            at = kernel.fill_records(rest, at)
        assert room.is_kept_within()
        if kernel.error:
            raise InvalidRecord("")
        rest = rest[at:]
    if rest or kernel.left:
        raise InvalidRecord("")
    return found + room.records(kernel)


@for_each("seed", range(20))
def test_the_rows_of_plain_batches_are_the_records_that_the_decoder_finds(
    columns: Any, some_records: SomeRecords, seed: int
) -> None:
    dice = random.Random(seed)
    data, expected, base = b"", [], dice.randrange(1 << 40)
    for number in range(dice.randrange(1, 4)):
        batch = build_batch(
            [
                record._replace(offset=base + record.offset)
                for record in some_records(dice.randrange(1, 20), seed=seed + number)
            ],
            base_offset=base,
            log_append_time_ms=dice.choice([None, 1_800_000_000_000]),
        )
        expected += decode_records(batch, 0, read_header(batch))
        base = read_header(batch).next_offset + dice.randrange(3)
        data += batch
    kernel, room = filled(columns, data + EVERY.to_bytes(8, "big"))
    assert room.records(kernel) == expected
    assert kernel.next_offset == expected[-1].offset + 1


def test_what_is_of_the_batch_is_noted_once_and_told_by_its_rows(columns: Any) -> None:
    first = build_batch(
        [Record(7, 1, b"a", b"b"), Record(9, 2, b"c", None)],
        base_offset=7,
        producer_id=1 << 40,
        producer_epoch=-2,
        base_sequence=5,
        transactional=True,
        leader_epoch=3,
        delete_horizon_ms=99,
    )
    second = build_batch([Record(10, 1, b"a", b"b")], base_offset=10)
    kernel, room = filled(columns, first + second)
    assert room.numbers("batch", "i", 3) == [0, 0, 1]
    notes = room.numbers("notes", "q", 11 * room.max_rows)
    assert [tuple(notes[batch :: room.max_rows]) for batch in range(2)] == [
        note(read_header(first)),
        note(read_header(second), len(first)),
    ]
    assert kernel.batches == 2


def test_sizes_and_tombstones_are_those_of_the_records(columns: Any) -> None:
    records = [Record(0, 0, b"k", None), Record(1, 0, b"k", b"v"), Record(2, 0, None, b"v" * 300)]
    batch = bytearray(build_batch(records))
    flag = HEADER_SIZE + 8 + 1  # the attributes of the second record
    assert batch[flag - 1 : flag + 1] == b"\x10\x00"
    batch[flag] = 0x20
    rewrite_header(batch, 0, read_header(batch))
    _kernel, room = filled(columns, bytes(batch))
    assert room.bits("tombstone", 3) == [True, True, False]
    assert [mark & FLAG for mark in marks_of(bytes(batch[HEADER_SIZE:]))[1]] == [0, FLAG, 0]
    assert sum(room.numbers("size", "i", 3)) == len(batch) - HEADER_SIZE


def test_a_control_record_without_a_value_is_no_tombstone(columns: Any) -> None:
    kernel, room = filled(columns, bytes(build_batch([Record(0, 0, b"\0\0\0\0", None)], control=True)))
    assert room.bits("tombstone", kernel.rows) == [False]


@for_each("seed", range(30))
def test_however_a_block_is_cut_its_rows_are_the_same(columns: Any, some_records: SomeRecords, seed: int) -> None:
    dice = random.Random(seed)
    batch = bytes(build_batch(some_records(dice.randrange(1, 30), seed=seed)))
    size = len(batch) - HEADER_SIZE
    cuts = sorted(dice.randrange(size + 1) for _ in range(dice.randrange(6)))
    assert by_pieces(columns, batch, cuts) == decode_records(batch, 0, read_header(batch))


@for_each("turn", range(10))
def test_damage_is_an_error_or_other_records_and_the_same_to_the_decoder(
    columns: Any, some_records: SomeRecords, turn: int
) -> None:
    for seed in range(30 * turn, 30 * turn + 30):
        dice = random.Random(seed)
        check_damaged(columns, bytearray(build_batch(some_records(dice.randrange(1, 6), seed=seed))), dice)


def check_damaged(columns: Any, batch: bytearray, dice: random.Random) -> None:
    """Damage the batch and ask both."""
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(HEADER_SIZE, len(batch))
        change = dice.randrange(4)
        if change == 0:
            batch[at] ^= 1 << dice.randrange(8)
        elif change == 1:
            batch[at] = dice.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif change == 2:
            del batch[at : at + dice.randrange(1, 4)]
        else:
            batch[at:at] = dice.randbytes(dice.randrange(1, 3))
    if len(batch) <= HEADER_SIZE:
        batch += b"\0"
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    header = rewrite_header(batch, 0, read_header(batch))
    try:
        expected: list[Record] | None = decode_records(batch, 0, header)
    except InvalidRecord:
        expected = None
    kernel, room = filled(columns, bytes(batch), first=-EVERY)
    assert kernel.is_bad == (expected is None)
    if expected is not None:
        assert room.records(kernel) == expected
    cuts = sorted(dice.randrange(len(batch) - HEADER_SIZE + 1) for _ in range(2))
    try:
        found: list[Record] | None = by_pieces(columns, bytes(batch), cuts)
    except InvalidRecord:
        found = None
    assert found == expected


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 2, 2**31 - 1])
def test_a_count_that_is_not_that_of_the_records_is_no_plain_batch_or_a_bad_one(columns: Any, count: int) -> None:
    batch = bytearray(build_batch([Record(0, 0, b"k", b"v")]))
    rewrite_header(batch, 0, read_header(batch)._replace(record_count=count))
    kernel, _ = filled(columns, bytes(batch))
    assert kernel.next_offset == 0
    assert kernel.is_bad or kernel.rows == 0


def test_only_records_within_the_offsets_get_rows(columns: Any) -> None:
    batches = [build_batch([Record(10 * n + i, 0, None, b"") for i in range(10)], base_offset=10 * n) for n in range(4)]
    kernel, room = filled(columns, b"".join(batches), first=5, end=23)
    assert room.numbers("offset", "q", kernel.rows) == list(range(5, 23))
    assert kernel.is_at_end


def test_a_batch_that_is_damaged_compressed_old_or_out_of_order_is_left_to_the_caller(columns: Any) -> None:
    good = build_batch([Record(0, 0, b"k", b"v")])
    flipped = bytearray(build_batch([Record(0, 0, b"k", b"v")], base_offset=1))
    flipped[-2] ^= 1
    old = bytearray(good)
    old[16] = 1
    compressed = build_batch([Record(0, 0, b"k", b"v")], base_offset=1, codec=1)
    ahead = build_batch([Record(0, 0, b"k", b"v")], base_offset=21) + build_batch(
        [Record(0, 0, b"k", b"v")], base_offset=1
    )
    others = [flipped, compressed, old, good, good[:40], ahead]
    for other in others:
        kernel = columns.RecordColumns(0, EVERY, 1 << 30)
        room = Room(columns.PARTS)
        kernel.give(room.views, room.max_rows)
        data = bytes(good + other)
        assert kernel.fill_batches(data, 0, len(data), 0) == len(good)
        assert (kernel.rows, kernel.is_full, kernel.is_bad, kernel.is_at_end) == (1, False, False, False)


def test_hidden_are_control_records_and_what_lies_within_an_aborted_transaction_of_its_producer(columns: Any) -> None:
    def batch(offset: int, producer_id: int, *, control: bool = False, transactional: bool = True) -> bytearray:
        return build_batch(
            [Record(offset, 0, b"\0\0\0\0", b"")],
            base_offset=offset,
            producer_id=producer_id,
            transactional=transactional,
            control=control,
        )

    data = b"".join(
        [
            batch(0, 1),
            batch(1, 2),
            batch(2, 1, control=True),
            batch(3, 1),
            batch(4, 1, transactional=False),
            batch(5, 2),
            batch(6, 2, control=True),
            batch(7, 1, control=True),
            batch(8, 3),
        ]
    )
    kernel = columns.RecordColumns(0, EVERY, 1 << 30)
    room = Room(columns.PARTS)
    kernel.give(room.views, room.max_rows)
    kernel.hide(True, array("q", [1, 2]), array("q", [3, 1]), array("q", [7, 6]))
    assert kernel.fill_batches(data, 0, len(data), 0) == len(data)
    assert room.numbers("offset", "q", kernel.rows) == [0, 4, 8]
    assert kernel.is_hidden(0x10, 2, 5)
    assert not kernel.is_hidden(0x10, 2, 7)


@pytest.mark.parametrize(("rows", "headers", "size"), [(7, 300, 9000), (80, 12, 9000), (80, 300, 1400)])
def test_a_full_room_ends_within_a_batch_and_a_new_one_goes_on_there(
    columns: Any, some_records: SomeRecords, rows: int, headers: int, size: int
) -> None:
    batches = []
    for number in range(8):
        records = [record._replace(offset=10 * number + record.offset) for record in some_records(10, seed=number)]
        batches.append(bytes(build_batch(records, base_offset=10 * number)))
    data = b"".join(batches)
    expected = [record for batch in batches for record in decode_records(batch, 0, read_header(batch))]
    kernel = columns.RecordColumns(0, EVERY, 1 << 30)
    room = Room(columns.PARTS, rows=rows, headers=headers, data=size)
    found: list[Record] = []
    position = 0
    for _ in range(100):
        kernel.give(room.views, room.max_rows)
        position = kernel.fill_batches(data, position, len(data), 0)
        assert room.is_kept_within()
        found += room.records(kernel)
        if not kernel.is_full:
            break
    assert position == len(data)
    assert found == expected


@pytest.mark.parametrize(
    "record",
    [
        Record(0, 0, b"k" * 500, b""),
        Record(0, 0, b"", b"v" * 500),
        Record(0, 0, b"", b"", (("n" * 500, b"c" * 400),) * 3),
    ],
)
def test_the_room_that_a_large_record_needs_is_told(columns: Any, record: Record) -> None:
    batch = bytes(build_batch([record]))
    kernel = columns.RecordColumns(0, EVERY, 1 << 30)
    small = Room(columns.PARTS, rows=4, headers=2, data=100)
    kernel.give(small.views, small.max_rows)
    assert kernel.fill_batches(batch, 0, len(batch), 0) == 0
    assert (kernel.is_full, kernel.rows) == (True, 0)
    assert small.is_kept_within()
    needed = kernel.needed()
    most = max(needed[part] for part in ("key", "value", "name", "content"))
    large = Room(columns.PARTS, rows=4, headers=max(2, needed["headers"]), data=most)
    kernel.give(large.views, large.max_rows)
    assert kernel.fill_batches(batch, 0, len(batch), 0) == len(batch)
    assert large.records(kernel) == [record]


def test_a_room_that_is_too_small_for_its_rows_is_refused(columns: Any) -> None:
    kernel = columns.RecordColumns(0, EVERY, 1 << 30)
    for part in ("offset", "tombstone", "key_ends", "notes", "content_valid", "name_ends"):
        room = Room(columns.PARTS, rows=64)
        views = dict(room.views)
        views[part] = views[part][: -len(views[part]) // 2]
        with pytest.raises(ValueError, match="too few"):
            kernel.give(views, 128 if part in ("content_valid", "name_ends") else 64)


def test_parts_that_belong_together_are_asked_for_together(columns: Any) -> None:
    kernel = columns.RecordColumns(0, EVERY, 1 << 30)
    room = Room(columns.PARTS)
    for part in ("key", "value_ends", "name", "notes"):
        with pytest.raises(ValueError, match="go together"):
            kernel.give({part: room.views[part]}, 10)


def test_what_is_not_asked_for_is_not_written(columns: Any) -> None:
    kernel = columns.RecordColumns(0, EVERY, 1 << 30)
    room = Room(columns.PARTS)
    kernel.give({"offset": room.views["offset"]}, 10)
    batch = bytes(build_batch([Record(0, 0, b"k", b"v", (("h", b""),))]))
    assert kernel.fill_batches(batch, 0, len(batch), 0) == len(batch)
    assert kernel.rows == 1
    assert kernel.used()["key"] == kernel.used()["value"] == kernel.headers == 0

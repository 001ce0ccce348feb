"""The layout stands once: its offsets are those of the header's fields, and compiled kernels have the same numbers."""

from __future__ import annotations

import ast
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from kmini.protocol.records import layout
from kmini.protocol.records.layout import BatchHeader, decrement_sequence, increment_sequence
from support.extension_modules import TREE, load_form, setup_py

RECORDS = Path(layout.__file__).parent
KERNELS = ["records", "sieve", "flagging", "columns", "lines"]
REBUILD = "the extension is out of date: run `python -m pip install -e . --no-deps`"

FIELDS_AT = {
    "batch_length": layout.LENGTH_AT,
    "partition_leader_epoch": layout.LEADER_EPOCH_AT,
    "magic": layout.MAGIC_AT,
    "crc": layout.CRC_AT,
    "attributes": layout.ATTRIBUTES_AT - 1,
    "last_offset_delta": layout.LAST_OFFSET_DELTA_AT,
    "base_timestamp": layout.BASE_TIMESTAMP_AT,
    "max_timestamp": layout.MAX_TIMESTAMP_AT,
    "producer_id": layout.PRODUCER_ID_AT,
    "producer_epoch": layout.PRODUCER_EPOCH_AT,
    "base_sequence": layout.BASE_SEQUENCE_AT,
    "record_count": layout.RECORD_COUNT_AT,
}


@pytest.fixture(params=KERNELS)
def compiled(request: pytest.FixtureRequest) -> Any:
    return load_form(f"kmini.protocol.records.kernels.{request.param}", "compiled")


@pytest.mark.parametrize(("field", "at"), FIELDS_AT.items())
def test_an_offset_is_that_of_its_field_in_the_header(field: str, at: int) -> None:
    before = BatchHeader._fields.index(field)
    codes = layout.HEADER_FORMAT[1 : before + 1]
    assert struct.calcsize(">" + codes) == at


def test_the_header_has_as_many_bytes_as_its_fields() -> None:
    assert struct.calcsize(layout.HEADER_FORMAT) == layout.HEADER_SIZE
    assert len(layout.HEADER_FORMAT) - 1 == len(BatchHeader._fields)


def test_the_table_of_the_docstring_has_every_offset() -> None:
    rows = re.findall(r"^\| +(\d+) \| +(\d+) \|", layout.__doc__ or "", re.MULTILINE)
    starts = [int(at) for at, _ in rows]
    assert starts == [0, *(at for at in FIELDS_AT.values())]
    assert [int(at) + int(size) for at, size in rows] == [*starts[1:], layout.HEADER_SIZE]


def test_every_reason_has_a_sentence() -> None:
    codes = [
        value
        for name, value in vars(layout).items()
        if name.startswith("BAD_") or (name.startswith("TOO_") and isinstance(value, int))
    ]
    assert sorted(codes) == sorted(layout.REASONS) == list(range(1, len(codes) + 1))


def test_a_compiled_kernel_has_the_numbers_of_the_layout(compiled: Any) -> None:
    numbers = {name: getattr(layout, name) for name in setup_py().layout_numbers(TREE)}
    assert numbers.keys() >= {"HEADER_SIZE", "CONTROL", "BAD_CHECKSUM", "SMALLEST_RECORD"}
    assert numbers == compiled.LAYOUT, REBUILD


def test_every_kernel_is_compiled_by_setup_py() -> None:
    folder = "kmini.protocol.records.kernels."
    assert [name.removeprefix(folder) for name in setup_py().COMPILED if name.startswith(folder)] == KERNELS


def test_no_kernel_has_an_offset_of_its_own() -> None:
    """A number in a subscript or behind a position is one of the layout's names."""
    for path in (RECORDS / "kernels").glob("*.py"):
        if path.stem in ("numbers", "siphash", "sieve", "lines"):
            continue  # they read bytes of numbers and words, rows and notes, one by one
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
                in_layout = isinstance(node.left, ast.Name) and node.left.id == "position"
                assert not in_layout, f"{path.name}:{node.lineno}"


@pytest.mark.parametrize(("sequence", "count", "later"), [(0, 5, 5), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2)])
def test_sequences_begin_again_behind_the_largest(sequence: int, count: int, later: int) -> None:
    assert increment_sequence(sequence, count) == later
    assert decrement_sequence(later, count) == sequence

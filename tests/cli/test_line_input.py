"""Lines of files and pipes as they arrive, whole and in order."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from kmini.cli import line_input
from kmini.cli.line_input import lines_of, size_of


async def test_a_file_gives_whole_lines_whatever_the_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(b"%d\n" % number for number in range(500)) + b"the last"
    path = tmp_path / "lines"
    path.write_bytes(text)
    for read_bytes in (1, 7, 1 << 16):
        monkeypatch.setattr(line_input, "READ_BYTES", read_bytes)
        with path.open("rb") as source:
            pieces = [piece async for piece in lines_of(source)]
        assert all(piece.endswith(b"\n") for piece in pieces)
        assert b"".join(pieces) == text + b"\n"


async def test_lines_of_a_pipe_come_while_it_is_open() -> None:
    receiving, sending = os.pipe()
    with os.fdopen(receiving, "rb") as source, os.fdopen(sending, "wb", buffering=0) as target:
        lines = lines_of(source)
        target.write(b"one\ntw")
        assert await anext(lines) == b"one\n"
        target.write(b"o\n")
        assert await anext(lines) == b"two\n"
        target.close()
        assert [piece async for piece in lines] == []


async def test_a_source_without_a_descriptor_is_read_too() -> None:
    assert [piece async for piece in lines_of(io.BytesIO(b"a\nb"))] == [b"a\n", b"b\n"]
    assert [piece async for piece in lines_of(io.BytesIO())] == []


def test_only_a_file_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"12345")
    with path.open("rb") as source:
        assert size_of(source) == 5
    receiving, sending = os.pipe()
    os.close(sending)
    with open(receiving, "rb") as source:
        assert size_of(source) is None
    assert size_of(io.BytesIO(b"12345")) is None

"""What a dump shows of bytes and of files that it may not write."""

from __future__ import annotations

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from support.dumps import batch, lines, write

LOG = "orders-0/00000000000000000000.log"


def test_bytes_that_are_no_text_are_hexadecimal_and_long_ones_are_cut(filesystem) -> None:
    record = Record(0, 0, b"\xff\x00", b"x" * 500, (("h", b"1"), ("n", None)))
    write(filesystem, LOG, bytes(build_batch([record])))
    line = lines(filesystem, LOG, records=True)[2]
    assert "key=0xff00 " in line
    assert f'value="{"x" * 200}"… (500 bytes) headers: h="1" n=null' in line


def test_a_file_that_must_not_be_written_is_read_all_the_same(filesystem, monkeypatch) -> None:
    write(filesystem, LOG, batch(0, 5))

    def refuse(self: object, position: int, length: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(filesystem.open(LOG)), "read_at", refuse)
    assert "offsets=0..4" in lines(filesystem, LOG)[1]

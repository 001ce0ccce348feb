"""Files of exchanges: written, read again, and read up to the damage."""

from __future__ import annotations

import io
from itertools import islice

import pytest

from kmini.trace.observer import TracedExchange
from kmini.trace.trace_file import DamagedTrace, TraceWriter, read_exchanges
from support.exchanges import exchange
from support.for_each import for_each

EXCHANGES = [exchange("Produce"), exchange("Fetch", None), exchange("EndTxn", "größe", errors=("INVALID_TXN_STATE",))]


def written(exchanges: list[TracedExchange]) -> str:
    file = io.StringIO()
    writer = TraceWriter(file, "127.0.0.1:9092")
    for one in exchanges:
        writer.write(one)
    writer.flush()
    return file.getvalue()


def test_what_was_written_is_read_again() -> None:
    assert [*read_exchanges(io.StringIO(written(EXCHANGES)))] == EXCHANGES


@for_each("cut", range(1, 200, 7))
def test_a_truncated_file_is_read_up_to_the_damage(cut: int) -> None:
    reading = read_exchanges(io.StringIO(written(EXCHANGES)[:-cut]))
    assert [*islice(reading, 2)] == EXCHANGES[:2]
    with pytest.raises(DamagedTrace, match=r"line 4 is damaged .*; the 2 exchanges before it are whole"):
        next(reading)


def test_damage_in_the_middle_ends_the_reading() -> None:
    lines = written(EXCHANGES).splitlines(keepends=True)
    lines[2] = "\0\0\0\0\n"
    reading = read_exchanges(io.StringIO("".join(lines)))
    assert next(reading) == EXCHANGES[0]
    with pytest.raises(DamagedTrace, match="line 3 is damaged"):
        next(reading)


@pytest.mark.parametrize("text", ["", "hello\n", "[]\n", '{"a": 1}\n'], ids=["empty", "text", "list", "object"])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(DamagedTrace, match="it is no file that kmini trace --save has written"):
        next(read_exchanges(io.StringIO(text)))


def test_a_file_of_a_later_format_is_refused() -> None:
    with pytest.raises(DamagedTrace, match="it has format 2, this kmini reads format 1"):
        next(read_exchanges(io.StringIO('{"kmini trace": 2}\n')))

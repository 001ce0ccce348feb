"""The records of a batch in pieces: the same pieces each time, however large they become."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import InvalidRecord
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record
from kmini.storage.cleaner.block import Block

LIMIT = 1 << 20
LARGE = [Record(number, 1_000, b"%d" % number, bytes(range(256)) * 100) for number in range(250)]
"""6 MB of records: more than a block keeps decompressed."""


def block_of(records: list[Record], codec: Codec, record_limit: int = LIMIT) -> Block:
    batch = build_batch(records, codec=codec)
    return Block(bytes(batch), read_header(batch), record_limit)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_a_small_block_is_one_piece(codec: Codec) -> None:
    plain = bytes(build_batch(LARGE[:2]))[61:]
    block = block_of(LARGE[:2], codec)
    for _ in range(2):
        pieces = []
        for piece in block.pieces():
            pieces.append(bytes(piece))
            block.taken = len(piece)
        assert pieces == [plain]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_what_is_left_of_a_piece_begins_the_next_one(codec: Codec) -> None:
    plain = bytes(build_batch(LARGE))[61:]
    block = block_of(LARGE, codec)
    for _ in range(2):
        whole, count = b"", 0
        for piece in block.pieces():
            data = bytes(piece)
            count += 1
            left = 0 if len(whole) + len(data) == len(plain) else min(7, len(data) - 1)
            block.taken = len(data) - left
            whole += data[: block.taken]
        assert whole == plain
        assert count > 1


def consume(block: Block, left: int = 0) -> None:
    """Take each piece but for its last bytes."""
    for piece in block.pieces():
        block.taken = len(piece) - left


def test_a_block_that_ends_within_a_record_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="offset 0 ends within a record"):
        consume(block_of(LARGE[:1], Codec.NONE), left=1)


def test_a_block_beyond_the_limit_is_refused() -> None:
    block = block_of(LARGE, Codec.GZIP, record_limit=1_000)
    with pytest.raises(InvalidRecord):
        consume(block)

"""Step from batch to batch through a segment whose offsets may be damaged too."""

from __future__ import annotations

import struct

from ...storage.inspect.dump_log import Found, Readable, look, walk

_MAX_AHEAD = (1 << 31) - 1
"""Largest distance of an offset from the segment's base offset that the segment's indexes can store."""
_OFFSET = struct.Struct(">q")


def next_batch(source: Readable, position: int, next_offset: int, *, verify: bool = True) -> Found:
    """Find the batch, or the damaged stretch, at a position before the end of the file. `next_offset` is the lowest
    possible base offset; without `verify` the checksum is not checked."""
    found = next(walk(source, next_offset, position=position, verify=verify))
    if found.header is not None and not found.problem and found.header.base_offset > next_offset:
        return found._replace(problem=_offset_problem(source, found, next_offset, verify))
    return found


def _offset_problem(source: Readable, found: Found, next_offset: int, verify: bool) -> str:
    """The reason why a batch cannot have its offset, which is not the next one; empty if it can. No checksum covers the
    offset.

    If the next batch has a lower, fitting offset, this batch is wrong and not all the following ones.
    """
    header, end = found.header, found.position + found.size
    assert header is not None
    if header.last_offset - next_offset > _MAX_AHEAD:
        return f"offset {header.last_offset} is too far ahead of {next_offset}"
    following = source.read(end, _OFFSET.size)
    if len(following) == _OFFSET.size and next_offset <= _OFFSET.unpack(following)[0] <= header.last_offset:
        after = look(source, end, next_offset, verify=verify)
        if after.header is not None and not after.problem:
            return f"offset {header.base_offset} comes before a batch from offset {after.header.base_offset}"
    return ""

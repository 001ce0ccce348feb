"""From batch to batch through a segment, where an offset may be damaged too."""

from __future__ import annotations

import struct

from ...storage.inspect.dump_log import Found, Readable, look, walk

_MAX_AHEAD = (1 << 31) - 1
"""What a segment's indexes can tell of offsets."""
_OFFSET = struct.Struct(">q")


def next_batch(source: Readable, position: int, next_offset: int, *, verify: bool = True) -> Found:
    """What stands at a position before the end of the file: a batch, or a stretch that is none. `next_offset` is the
    lowest that the batch may begin with; without `verify` its checksum is not looked at."""
    found = next(walk(source, next_offset, position=position, verify=verify))
    if found.header is not None and not found.problem and found.header.base_offset > next_offset:
        return found._replace(problem=_what_is_odd(source, found, next_offset, verify))
    return found


def _what_is_odd(source: Readable, found: Found, next_offset: int, verify: bool) -> str:
    """Why a batch cannot have the offset that it has, which is not the next: no checksum covers that. Empty if it may.

    Where the batch behind it has a lower one, which fits, this one is wrong and not all that follow.
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

"""What consumers tell each other through the coordinator, as far as it listens: the topics that a member wants."""

from __future__ import annotations

import struct

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> set[str]:
    """The topics of a member's metadata: a version, and the names; what versions after 0 added stands behind them.

    Raises ValueError if it is something else; nobody has to keep to this.
    """
    try:
        (count,) = _INT32.unpack_from(metadata, _INT16.size)
        position = _INT16.size + _INT32.size
        if not 0 <= count <= (len(metadata) - position) // _INT16.size:
            raise ValueError(f"{count} topics do not fit")
        topics = set()
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, position)
            end = position + _INT16.size + length
            if length < 0 or end > len(metadata):
                raise ValueError("the name of a topic does not fit")
            topics.add(metadata[position + _INT16.size : end].decode())
            position = end
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    return topics

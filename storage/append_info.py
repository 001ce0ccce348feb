"""What an append answers."""

from __future__ import annotations

from typing import NamedTuple


class AppendInfo(NamedTuple):
    """The offsets of appended records. A duplicate has those of the first append."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic uses LogAppendTime. A duplicate has the timestamp of the batch, as in Kafka."""
    is_duplicate: bool = False

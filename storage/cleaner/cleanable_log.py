"""What a pass is given: a log as it was captured, what it may take, and who watches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ...protocol.records.record import DEFAULT_LIMIT
from ..filesystem import FileSystem
from ..indexes.transaction_index import AbortedTransaction
from ..log_config import LogConfig
from ..segment import Segment
from ..segments import aborted_transactions


class ProducerTail(NamedTuple):
    """What of an active producer must not be forgotten."""

    last_data_offset: int | None
    """The last offset of its last batch with data; None if it has only ever ended transactions here."""
    epoch: int


class CleanableLog(NamedTuple):
    """What a pass must know of a log, captured where the log lives."""

    filesystem: FileSystem
    directory: str
    config: LogConfig
    segments: Sequence[Segment]
    """Those that may be cleaned: sealed, decided, old enough. From the first of the log on."""
    later_segments: Sequence[Segment]
    """The others: markers in them may say that transactions were aborted whose data is in the cleanable ones."""
    first_dirty_offset: int
    end_offset: int
    """The base offset of the first of the later segments. At least `first_dirty_offset`."""
    producers: Mapping[int, ProducerTail]
    """The active ones, by producer id."""
    tombstone_bit: int = 0
    """Attributes by which a record is a tombstone whatever its value (KIP-87)."""

    @property
    def dirty_segments(self) -> list[Segment]:
        """Those of the cleanable ones in which something is dirty."""
        return [segment for segment in self.segments if segment.next_offset > self.first_dirty_offset]

    def aborted_transactions(self, segments: Sequence[Segment]) -> list[AbortedTransaction]:
        """The aborted transactions that have records in these segments, which reach up to the end of the cleanable
        ones. Their markers may be in later segments."""
        if not segments:
            return []
        return aborted_transactions((*segments, *self.later_segments), segments[0].base_offset, self.end_offset)


class Limits(NamedTuple):
    """What a pass may take."""

    map_bytes: int = 134_217_728
    """`log.cleaner.dedupe.buffer.size` by thread."""
    load_factor: float = 0.9
    buffer_bytes: int = 262_144
    """Read, and written, at a time: half of `log.cleaner.io.buffer.size` by thread."""
    record_bytes: int = DEFAULT_LIMIT
    """`max.decompressed.message.bytes`."""


class CleaningAborted(Exception):
    """Whoever watches the pass has said stop. Nothing is left behind but the groups that were swapped in."""


class Watch(Protocol):
    def on_bytes(self, count: int) -> None:
        """The pass has read or written so many bytes. May sleep; raises CleaningAborted to end the pass."""

"""Which records of a topic a call is about: `partition`, `key`, `where`, `since` and `isolation`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kmini.protocol.errors import InvalidArgument
from kmini.storage.log import PartitionLog
from kmini.testkit.contents import Isolation, PartitionOffsets, Record

Predicate = Callable[[Record], bool]
"""Says whether a record is meant. It runs on the broker's thread, so it cannot call the broker."""


SHOWN = 60
"""Most bytes of a value in the note to an error that a predicate raises."""


class Mark(NamedTuple):
    """A moment in the life of a topic, made by `topic(...).mark()`: later calls can ask for what came since.

    A record came when readers could first see it: the records of a transaction come when it is committed.

    >>> mark = orders.mark()
    >>> _ = orders.produce(b"placed")
    >>> orders.records(since=mark)[0].text()
    'placed'
    """

    topic: str
    topic_id: bytes | None
    """None if the topic did not exist. A topic that was deleted and made anew has another id: all its records came
    since."""
    offsets: dict[int, PartitionOffsets]
    """The offsets at that moment, by partition."""


class RecordSelection(NamedTuple):
    """The records that a call is about. None means all."""

    partition: int | None = None
    key: bytes | None = None
    where: Predicate | None = None
    since: int | Mark | None = None
    isolation: Isolation = "committed"

    @property
    def is_everything(self) -> bool:
        """Whether no record of the topic is left out, but for those that `isolation` hides."""
        return self[:4] == (None, None, None, None)

    def takes(self, record: Record) -> bool:
        """Whether a record of these partitions, not earlier than `start`, is meant."""
        if self.key is not None and record.key != self.key:
            return False
        try:
            return self.where is None or bool(self.where(record))
        except Exception as error:
            if sys.version_info >= (3, 11):
                value = record.value[:SHOWN] if record.value is not None else None
                place = f"offset {record.offset} of {record.topic}-{record.partition}"
                error.add_note(f"for the record at {place}: {value!r}")
            raise

    @classmethod
    def of(
        cls,
        topic: str,
        partition: int | None,
        key: bytes | None,
        where: Iterable[Predicate | None],
        since: int | Mark | None,
        isolation: Isolation,
    ) -> RecordSelection:
        """The selection that a call about `topic` asks for: records that every predicate of `where` takes. Raises
        ValueError for the mark of another topic."""
        if isinstance(since, Mark) and since.topic != topic:
            raise InvalidArgument(f"since is a mark of {since.topic}, and this is {topic}")
        predicates = [one for one in where if one is not None]
        both = (lambda record: all(one(record) for one in predicates)) if len(predicates) > 1 else None
        return cls(partition, key, both or next(iter(predicates), None), since, isolation)

    def start(self, partition: int, topic_id: bytes | None) -> int:
        """The first offset of a partition that is meant."""
        if self.since is None or isinstance(self.since, int):
            return self.since or 0
        marked = self.since.offsets.get(partition)
        if marked is None or self.since.topic_id != topic_id:
            return 0
        return marked.last_stable_offset if self.isolation == "committed" else marked.high_watermark

    def limit(self, log: PartitionLog) -> int:
        """The offset up to which records of a partition are visible."""
        return log.last_stable_offset if self.isolation == "committed" else log.high_watermark

    def __str__(self) -> str:
        """The selection as the end of a phrase about records: " with key b'42' in partition 0"."""
        return "".join(
            [
                f" with key {self.key!r}" if self.key is not None else "",
                f" in partition {self.partition}" if self.partition is not None else "",
                f" since offset {self.since}" if isinstance(self.since, int) else "",
                " since the mark" if isinstance(self.since, Mark) else "",
                " that the predicate takes" if self.where is not None else "",
            ]
        )

"""Waiting for records of a topic, and the sentence that says what was there instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kmini.broker.scheduler import Turn
from kmini.protocol.similar_names import similar_names
from kmini.protocol.topics import TopicPartition, is_internal
from kmini.storage.log import PartitionLog
from kmini.testkit.contents import Record, hidden, shown, shown_batches
from kmini.testkit.phrases import counted
from kmini.testkit.record_selection import RecordSelection
from kmini.testkit.waiting import NotInTime

if TYPE_CHECKING:
    from kmini.testkit.operations import Operations

SHOWN = 10
"""Most records in an error message."""

SHOWN_CHARACTERS = 60
"""Most characters of a key or of a value in an error message."""

LISTED_CHARACTERS = 320
"""Characters after which a list of records ends: what is said behind two lists still has room in an error message."""

KEPT_BEYOND = 1_000
"""Records beyond the number that a wait is for after which it stops reading: enough to see that too many came."""

CATCH_UP_MS = 1_000
"""Least milliseconds that a wait with a time-out has to read what is there already."""

LOOKED_AT = 10_000
"""Offsets at the end of each partition in which the sentence about a wait in vain looks for other records."""


class RecordsMissing(NotInTime):
    """The records that a test waited for did not arrive in time. It is an assertion that failed, too."""


class Reading:
    """Reads the selected records of a topic as they arrive, each once, until there are enough."""

    def __init__(
        self,
        operations: Operations,
        topic: str,
        selection: RecordSelection,
        wanted: int,
        *,
        beyond: int = KEPT_BEYOND,
        kept: int | None = None,
    ) -> None:
        """Enough are the `wanted` ones and `beyond` more. `kept` of each partition are kept, by default so many, and
        further ones are counted."""
        self._operations = operations
        self.topic = topic
        self.selection = selection
        self._wanted = wanted
        self._enough = wanted + beyond
        self._kept = self._enough if kept is None else kept
        self._read: dict[TopicPartition, _Read] = {}

    def logs(self) -> list[PartitionLog]:
        """The logs that are read: of the partitions that exist and have leaders."""
        logs = self._operations.logs(self.topic)
        wanted = self.selection.partition
        return [log for log in logs if wanted in (None, log.topic_partition.partition)]

    @property
    def count(self) -> int:
        """How many of the selected records have been read."""
        return sum(each.count for each in self._present())

    def records(self) -> list[Record]:
        """The records that were read and kept, in the order of partition and offset."""
        return [record for each in self._present() for record in each.records]

    def _present(self) -> list[_Read]:
        seen = ((log, self._read.get(log.topic_partition)) for log in self.logs())
        return [each for log, each in seen if each is not None and each.log is log]

    def _steps(self) -> Iterator[None]:
        """Read what has arrived, a batch at a step, until there are enough records."""
        topic_id = self._operations.topic_id(self.topic)
        count = self.count
        for log in self.logs():
            each = self._read.get(log.topic_partition)
            if each is None or each.log is not log:  # another leader's log, or a topic made anew
                each = _Read(log, self.selection.start(log.topic_partition.partition, topic_id))
                self._read[log.topic_partition] = each
            limit = self.selection.limit(log)
            if limit <= each.offset:
                continue
            for offset, records in shown_batches(log, self.selection.isolation, since=each.offset):
                if count >= self._enough:
                    return
                taken = [record for record in records if self.selection.takes(record)]
                each.records += taken[: max(self._kept - len(each.records), 0)]
                each.count += len(taken)
                each.offset = offset
                count += len(taken)
                yield
            each.offset = max(limit, each.offset)

    def is_reached(self) -> bool:
        """Read what has arrived, and return whether enough records are there."""
        for _ in self._steps():
            pass
        return self.count >= self._wanted

    async def catch_up(self, timeout_ms: int) -> bool:
        """Read what is there already, with turns for other tasks of the loop; return False if that takes longer than
        `timeout_ms` of liveness time, or `CATCH_UP_MS`. A time-out of 0 is a look at all that is there."""
        clock, turn, steps = self._operations.clock, Turn(), self._steps()
        deadline_ms = clock.liveness_ms() + max(timeout_ms, CATCH_UP_MS)
        while next(steps, self) is not self:
            if turn.is_over:
                if timeout_ms and clock.liveness_ms() >= deadline_ms:
                    return False
                await turn.next()
                steps = self._steps()  # the logs may be others now
        return True

    def keys(self) -> list[TopicPartition | str]:
        """The keys of purgatories whose change may bring records, or other partitions."""
        return [self.topic, *(log.topic_partition for log in self.logs())]

    async def arrive(self, timeout_ms: int) -> None:
        """Wait until the wanted records have been read. Raises RecordsMissing."""
        operations = self._operations
        deadline_ms = operations.clock.liveness_ms() + timeout_ms
        is_read = await self.catch_up(timeout_ms)
        left_ms = max(deadline_ms - operations.clock.liveness_ms(), 0)
        if not (is_read and await operations._wait_until(self, left_ms)):
            wanted = counted(self._wanted, "record")
            raise RecordsMissing(missing_records(operations, self, wanted, timeout_ms, is_read=is_read))


@dataclass
class _Read:
    """What was read of a log."""

    log: PartitionLog
    offset: int
    """The offset up to which it is read."""
    count: int = 0
    """How many records were taken."""
    records: list[Record] = field(default_factory=list)
    """The first ones of them."""


# --- the sentence about what was there


def missing_records(
    operations: Operations, reading: Reading, wanted: str, timeout_ms: int, *, is_read: bool = True
) -> str:
    """Say what a topic holds instead of the `wanted` records ("3 records"), and what is close to them. `is_read` says
    whether all that was there has been read."""
    topic, selection = reading.topic, reading.selection
    if operations.topic_id(topic) is None:
        told = f"{operations.no_such_topic(topic)} (after {timeout_ms} ms)"
        return "; ".join([told, *_similar_topic(operations, topic)])
    found = reading.records()
    logs = reading.logs()
    ends = {log: selection.limit(log) for log in operations.logs(topic)}
    visible = (record for log, end in ends.items() for record in shown(log, selection.isolation, since=end - LOOKED_AT))
    parts = present_records(topic, selection, found, visible, wanted, timeout_ms, held=reading.count)
    parts += hidden(logs, selection.isolation, operations.transactional_id_of, selection.takes, last=LOOKED_AT)
    if not is_read:
        parts.append("not all of its records could be read in this time")
    if any(end - log.log_start_offset > LOOKED_AT for log, end in ends.items()) and len(parts) > 1:
        parts.append(f"of other records, those of the last {LOOKED_AT} offsets of each partition count")
    if len(parts) == 1 and not found:
        parts += _similar_topic(operations, topic)
    return "; ".join(parts)


def present_records(
    topic: str,
    selection: RecordSelection,
    found: list[Record],
    visible: Iterable[Record],
    wanted: str,
    timeout_ms: int,
    *,
    held: int | None = None,
) -> list[str]:
    """Say how many of the `wanted` records a topic holds, and, of the `visible` records, which ones were not selected:
    those with the most similar keys first. `held` is the number of those of which `found` has the first ones. Returns
    the phrases."""
    count = len(found) if held is None else held
    told = f"{topic} holds {count} of {wanted}{selection} after {timeout_ms} ms: {listed(found)}"
    if selection.is_everything:
        return [told]
    taken = {(record.partition, record.offset) for record in found}
    others = [record for record in visible if (record.partition, record.offset) not in taken]
    if not others:
        return [told]
    key = selection.key
    if key is not None:
        others.sort(key=lambda record: -_similarity(key, record.key))
    return [told, f"{counted(len(others), 'other')}: {listed(others)}"]


def listed(records: Iterable[Record]) -> str:
    """The first ten records in an error message, or those that there is room for: "[b'42': b'placed', b'no key']"."""
    records = [*records]
    texts: list[str] = []
    for record in records[:SHOWN]:
        if sum(map(len, texts)) > LISTED_CHARACTERS:
            break
        texts.append(_brief(record))
    return f"[{', '.join(texts)}{', ...' if len(records) > len(texts) else ''}]"


def _brief(record: Record) -> str:
    value = _shortened(record.value)
    return value if record.key is None else f"{_shortened(record.key)}: {value}"


def _shortened(data: bytes | None) -> str:
    text = repr(data if data is None else data[: SHOWN_CHARACTERS + 1])
    if data is None or len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[: SHOWN_CHARACTERS - 10]}...' ({len(data)} bytes)"


def _similarity(key: bytes, other: bytes | None) -> float:
    from difflib import SequenceMatcher  # start-up time counts

    return SequenceMatcher(None, key, other or b"").ratio()


def _similar_topic(operations: Operations, topic: str) -> list[str]:
    """A phrase about the topic with the most similar name among those that hold records."""
    counts: dict[str, list[Record]] = {}
    names = [name for name in operations.topic_names() if name != topic and not is_internal(name)]
    for name in similar_names(topic, names, 3):
        counts[name] = [
            record
            for log in operations.logs(name)
            for record in shown(log, "uncommitted", since=log.high_watermark - LOOKED_AT)
        ]
    for name, records in counts.items():
        if records:
            return [f"{name} holds {counted(len(records), 'record')}: {listed(records)}"]
    return []

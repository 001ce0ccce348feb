"""Waiting for records of a topic, and the sentence that says what was there instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kmini.contents import Record, hidden, shown
from kmini.phrases import counted
from kmini.protocol.topics import TopicPartition, is_internal
from kmini.selection import Selection
from kmini.storage.log import PartitionLog
from kmini.waiting import NotInTime

if TYPE_CHECKING:
    from kmini.shared_operations import SharedOperations

SHOWN = 10
"""Most records in an error message."""

SHOWN_CHARACTERS = 60
"""Most characters of a key or of a value in an error message."""

LISTED_CHARACTERS = 320
"""Characters after which a list of records ends: what is said behind two lists still has room in an error message."""

Enough = Callable[[list[Record]], bool]
"""Says whether the records that have arrived end a wait."""


class RecordsMissing(NotInTime):
    """The records that a test waited for did not arrive in time. It is an assertion that failed, too."""


class Reading:
    """Reads the selected records of a topic as they arrive, each once."""

    def __init__(self, operations: SharedOperations, topic: str, selection: Selection, enough: Enough) -> None:
        self._operations = operations
        self.topic = topic
        self.selection = selection
        self._enough = enough
        self._read: dict[TopicPartition, tuple[PartitionLog, int, list[Record]]] = {}
        """By partition: its log, the offset up to which it is read, and the records that it had."""

    def logs(self) -> list[PartitionLog]:
        """The logs that are read: of the partitions that exist and have leaders."""
        logs = self._operations.logs(self.topic)
        wanted = self.selection.partition
        return [log for log in logs if wanted in (None, log.topic_partition.partition)]

    def records(self) -> list[Record]:
        """The records that have arrived, in the order of partition and offset."""
        topic_id = self._operations.topic_id(self.topic)
        found: list[Record] = []
        for log in self.logs():
            seen = self._read.get(log.topic_partition)
            if seen is None or seen[0] is not log:  # another leader's log, or a topic made anew
                seen = (log, self.selection.start(log.topic_partition.partition, topic_id), [])
            _, since, records = seen
            limit = self.selection.limit(log)
            if limit > since:
                more = shown(log, self.selection.isolation, since=since)
                records += [record for record in more if self.selection.takes(record)]
            self._read[log.topic_partition] = (log, max(limit, since), records)
            found += records
        return found

    def keys(self) -> list[TopicPartition | str]:
        """The keys of purgatories whose change may bring records, or other partitions."""
        return [self.topic, *(log.topic_partition for log in self.logs())]

    def is_reached(self) -> bool:
        """Whether enough records have arrived."""
        return self._enough(self.records())


# --- the sentence about what was there


def missing_records(operations: SharedOperations, reading: Reading, wanted: str, timeout_ms: int) -> str:
    """Say what a topic holds instead of the `wanted` records ("3 records"), and what is close to them."""
    topic, selection = reading.topic, reading.selection
    if operations.topic_id(topic) is None:
        told = f"{operations.no_such_topic(topic)} (after {timeout_ms} ms)"
        return "; ".join([told, *_similar_topic(operations, topic)])
    found = reading.records()
    logs = reading.logs()
    visible = (record for log in operations.logs(topic) for record in shown(log, selection.isolation))
    parts = present_records(topic, selection, found, visible, wanted, timeout_ms)
    parts += hidden(logs, selection.isolation, operations.transactional_id_of, selection.takes)
    if len(parts) == 1 and not found:
        parts += _similar_topic(operations, topic)
    return "; ".join(parts)


def present_records(
    topic: str, selection: Selection, found: list[Record], visible: Iterable[Record], wanted: str, timeout_ms: int
) -> list[str]:
    """Say how many of the `wanted` records a topic holds, and, of the `visible` records, which ones were not selected:
    those with the most similar keys first. Returns the phrases."""
    told = f"{topic} holds {len(found)} of {wanted}{selection} after {timeout_ms} ms: {listed(found)}"
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


def _similar_topic(operations: SharedOperations, topic: str) -> list[str]:
    """A phrase about the topic with the most similar name among those that hold records."""
    from difflib import get_close_matches  # start-up time counts

    counts: dict[str, list[Record]] = {}
    names = [name for name in operations.topic_names() if name != topic and not is_internal(name)]
    for name in get_close_matches(topic, names, n=3):
        counts[name] = [record for log in operations.logs(name) for record in shown(log, "uncommitted")]
    for name, records in counts.items():
        if records:
            return [f"{name} holds {counted(len(records), 'record')}: {listed(records)}"]
    return []

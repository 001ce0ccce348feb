"""Which records a call is about (testkit/record_selection.py)."""

from __future__ import annotations

import pytest

from kmini import Broker, Mark, PartitionOffsets, Record
from kmini.testkit.record_selection import RecordSelection


def test_a_selection_of_nothing_in_particular_takes_everything() -> None:
    everything = RecordSelection()
    assert everything.is_everything
    assert str(everything) == ""
    assert everything.takes(Record(0, 0, None, None))
    assert RecordSelection(isolation="all").is_everything


@pytest.mark.parametrize(
    "selection",
    [
        RecordSelection(partition=0),
        RecordSelection(key=b"k"),
        RecordSelection(where=lambda record: True),
        RecordSelection(since=0),
    ],
)
def test_any_restriction_makes_it_a_selection_of_some(selection: RecordSelection) -> None:
    assert not selection.is_everything
    assert str(selection).startswith(" ")


def test_a_record_is_taken_by_its_key_and_by_what_the_predicate_returns() -> None:
    record = Record(0, 0, b"k", b"v")
    assert RecordSelection(key=b"k").takes(record)
    assert not RecordSelection(key=b"K").takes(record)
    assert not RecordSelection(key=b"").takes(Record(0, 0, None, b"v"))
    assert RecordSelection(where=lambda record: record.value).takes(record) is True  # type: ignore[arg-type, return-value]
    assert not RecordSelection(key=b"k", where=lambda record: False).takes(record)


def test_a_mark_begins_where_readers_at_that_isolation_had_come() -> None:
    with Broker(topics=["orders"]) as broker:
        topic_id = broker._operations.topic_id("orders")
        mark = Mark("orders", topic_id, {0: PartitionOffsets(0, 9, 10, 7)})
        assert RecordSelection(since=mark).start(0, topic_id) == 7
        assert RecordSelection(since=mark, isolation="uncommitted").start(0, topic_id) == 9
        assert RecordSelection(since=mark, isolation="all").start(0, topic_id) == 9
        assert RecordSelection(since=mark).start(0, b"another topic of this name") == 0
        assert RecordSelection(since=mark._replace(offsets={})).start(0, topic_id) == 0
        assert RecordSelection(since=3).start(0, topic_id) == 3
        assert RecordSelection().start(0, topic_id) == 0

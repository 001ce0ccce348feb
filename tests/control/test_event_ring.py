"""The ring of events, and the readers that each stream has."""

from __future__ import annotations

import pytest

from kmini.control import event_ring
from kmini.control.event_ring import EventRing, Reader, event_text


def told(reader: Reader, most: int = 100) -> list[str]:
    """The names of the next events."""
    lines = reader.read(most).splitlines()
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


def test_an_event_is_one_line_of_json_whatever_its_names_have() -> None:
    text = event_text("topic-created", {"topic": "a\n\ndata: b\r\u2028\ud800"})
    assert text == 'event: topic-created\ndata: {"topic":"a\\n\\ndata: b\\r\\u2028\\ud800"}\n\n'


def test_a_reader_gets_the_events_of_its_types_in_their_order() -> None:
    ring = EventRing()
    reader = Reader(ring, ["topics", "clock"], [], None)
    for kind in ("topics", "requests", "clock", "server", "topics"):
        ring.add(kind, f"{kind}-event", {})
    assert told(reader, 3) == ["topics-event", "clock-event", "server-event"]
    assert told(reader) == ["topics-event"]
    assert told(reader) == []


def test_numbers_rise_by_one_and_those_of_the_next_ring_are_above() -> None:
    ring = EventRing()
    first = ring.next_number
    for _ in range(3):
        ring.add("clock", "clock-moved", {})
    assert [event.number for event in ring.after(0, ["clock"], 10)] == [first, first + 1, first + 2]
    assert EventRing().next_number >= first


def test_lost_events_are_counted_by_type_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_ring, "MOST_EVENTS", 2)
    ring = EventRing()
    reader = Reader(ring, ["clock", "topics"], [], None)
    for kind in ("clock", "topics", "requests", "clock", "clock", "clock", "requests", "requests"):
        ring.add(kind, f"{kind}-event", {})
    text = reader.read(100)
    assert text.startswith('event: dropped\ndata: {"lost":2,"types":["clock"]}\n\nid: ')
    assert text.count("event: ") == 4
    ring.add("topics", "topics-event", {})
    assert told(reader) == ["topics-event"]


def test_a_reader_that_is_behind_reads_what_its_other_types_have_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_ring, "MOST_EVENTS", 2)
    ring = EventRing()
    reader = Reader(ring, ["clock", "topics"], [], None)
    ring.add("topics", "topics-event", {})
    for _ in range(3):
        ring.add("clock", "clock-event", {})
    assert told(reader, 1) == ["dropped", "topics-event"]
    ring.add("clock", "clock-event", {})
    assert told(reader, 1) == ["dropped", "clock-event"]
    assert told(reader) == ["clock-event"]


def test_the_number_of_the_lost_is_null_where_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_ring, "MOST_EVENTS", 2)
    monkeypatch.setattr(event_ring, "MOST_KNOWN", 10)
    ring = EventRing()
    first = ring.next_number
    for _ in range(20):
        ring.add("clock", "clock-event", {})
    for last in (first, 17, ring.next_number):
        reader = Reader(ring, ["clock"], [], last)
        assert reader.read(100).startswith('event: dropped\ndata: {"lost":null,"types":["clock"]}\n\nid: ')
        assert told(reader) == []


def test_a_reader_passes_over_events_of_other_topics() -> None:
    ring = EventRing()
    reader = Reader(ring, ["topics"], ["a"], None)
    ring.add("topics", "of-b", {}, ["b"])
    ring.add("topics", "of-both", {}, ["a", "b"])
    ring.add("topics", "of-none", {})
    assert told(reader) == ["of-both", "of-none"]
    ring.add("topics", "of-b", {}, ["b"])
    assert told(reader) == []
    assert reader.id_line == f"id: {ring.last_number}\n"

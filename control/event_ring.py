"""The last events that a control server has told of, in the format of WHATWG's event streams.

An event has a number, which is its id: numbers rise by one, and those of a later server are above those of an earlier
one, so an id that a client brings is never mistaken for another event. Each type has a ring of its own: a flood of
requests pushes no group out.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

SERVER = "server"
"""The type of the events that every stream gets, whichever types it asks for: resets."""

TYPES = ("requests", "records", "topics", "groups", "transactions", "clock", "faults", "brokers", "clients")
"""The types that a stream can ask for."""

MOST_EVENTS = 10_000
"""Events of each type that are kept."""
MOST_KNOWN = 1_000_000
"""Events whose type is known still, though they are not kept: a byte each."""

_CODE_OF = {kind: code for code, kind in enumerate((*TYPES, SERVER))}


class Event(NamedTuple):
    """An event that is kept."""

    number: int
    topics: frozenset[str]
    """The topics that it is about; empty for an event about none."""
    text: str
    """As a stream has it, without its id."""


def event_text(name: str, data: Mapping[str, Any]) -> str:
    """An event without an id. JSON escapes line ends, so no name can end the event and begin another."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


class EventRing:
    """The last events of each type."""

    def __init__(self) -> None:
        self._rings: dict[str, deque[Event]] = {kind: deque() for kind in _CODE_OF}
        self._evicted = dict.fromkeys(_CODE_OF, 0)
        """The number of the last event of each type that is not kept any more."""
        self._codes = bytearray()
        """The type of each event since `_first`."""
        self._first = self.next_number = time.time_ns() // 1_000_000 * 1_000
        """A server tells of fewer than a thousand events a millisecond, so the next server begins above them."""

    @property
    def last_number(self) -> int:
        """The number of the last event."""
        return self.next_number - 1

    def add(self, kind: str, name: str, data: Mapping[str, Any], topics: Collection[str] = ()) -> None:
        """Keep a new event of a type; drop the oldest one above MOST_EVENTS."""
        ring = self._rings[kind]
        while len(ring) >= MOST_EVENTS:
            self._evicted[kind] = ring.popleft().number
        ring.append(Event(self.next_number, frozenset(topics), event_text(name, data)))
        self._codes.append(_CODE_OF[kind])
        self.next_number += 1
        if len(self._codes) > MOST_KNOWN:
            gone = MOST_KNOWN // 2
            del self._codes[:gone]
            self._first += gone

    def after(self, number: int, kinds: Collection[str], most: int) -> list[Event]:
        """The first kept events of these types that are later than an event, in their order; `most` of them."""
        found: list[Event] = []
        for kind in kinds:
            found += takewhile(lambda event: event.number > number, reversed(self._rings[kind]))
        found.sort()
        return found[:most]

    def lost(self, kind: str, number: int) -> int | None:
        """How many events of a type that are later than an event are kept no more. None if that is not known: the event
        is too old."""
        evicted = self._evicted[kind]
        if evicted <= number:
            return 0
        if number + 1 < self._first:
            return None
        return self._codes.count(_CODE_OF[kind], number + 1 - self._first, evicted + 1 - self._first)

    def is_known(self, number: int) -> bool:
        """Whether an event of this number may have been told by this server, and what came after it is known."""
        return self._first - 1 <= number < self.next_number


class Reader:
    """Reads the ring on behalf of one stream."""

    def __init__(self, ring: EventRing, kinds: Collection[str], topics: Collection[str], last: int | None) -> None:
        """`kinds` are the types of events; `topics` None or those that they must be about; `last` the number of the
        event after which the stream goes on, None for the last one."""
        self._ring = ring
        self._kinds = (*kinds, SERVER)
        self._topics = frozenset(topics)
        is_known = last is None or ring.is_known(last)
        self._is_unknown = not is_known
        self._last = ring.last_number if last is None else last if is_known else 0
        self._told_lost = dict.fromkeys(self._kinds, self._last)
        """The last lost event of each type that the stream was told of."""

    @property
    def id_line(self) -> str:
        """The id of the last event that was read, or passed over: it sets the client's Last-Event-ID."""
        return f"id: {self._last}\n"

    def read(self, most: int) -> str:
        """The next events, as a stream has them; empty if there are none yet. `most` events are read at once."""
        parts = [*self._losses()]
        events = self._ring.after(self._last, self._kinds, most)
        for event in events:
            if not self._topics or not event.topics or not self._topics.isdisjoint(event.topics):
                parts.append(f"id: {event.number}\n{event.text}")
        if events:
            self._last = events[-1].number
        else:
            self._last = max(self._last, self._ring.last_number)
        return "".join(parts)

    def _losses(self) -> Iterator[str]:
        """What the stream is told of events that it can have no more."""
        if self._is_unknown:  # the id is of an earlier server, or too old
            self._is_unknown = False
            self._told_lost = {kind: self._ring._evicted[kind] for kind in self._kinds}
            yield event_text("dropped", {"lost": None, "types": [*self._kinds[:-1]]})
            return
        for kind in self._kinds:
            since = max(self._last, self._told_lost[kind])
            lost = self._ring.lost(kind, since)
            if lost != 0:
                self._told_lost[kind] = self._ring._evicted[kind]
                yield event_text("dropped", {"lost": lost, "types": [kind]})

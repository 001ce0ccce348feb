"""The events of answered requests: what the journal has of them, in short.

The journal is read and not watched, because its watchers are called with every request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from kmini.broker.journal.entries import JournalEntry, JournalReader

if TYPE_CHECKING:
    from kmini.broker.journal.request_journal import Entry, RequestJournal
    from kmini.broker.scheduler import Turn

MOST_PARTITIONS = 100
"""Partitions that the event of a request names; it tells the number of the others."""

Tell = Callable[[str, str, Mapping[str, Any], Collection[str]], None]
"""Takes the type of an event, its name, its data, and the names of the topics that it is about."""


class RequestEvents:
    """Reads the journal from one look to the next."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._journal: RequestJournal | None = None
        self._next_number = 0
        """The number of the first request that was not read."""
        self._in_service: dict[int, Entry] = {}
        """Requests that were read and of whose answer no event tells yet, by number."""

    def use(self, journal: RequestJournal | None) -> None:
        """Read this journal: from now on if it is another one than before."""
        if journal is not None and journal is not self._journal:
            self._journal, self._in_service = journal, {}
            self._next_number = journal.next_number

    def skip(self) -> None:
        """Pass over what has arrived while no stream asked for requests. An event says how many there were: a stream
        that goes on after an earlier event would have been told of them."""
        self._in_service.clear()
        if self._journal is not None:
            self._go_on_at(self._journal.next_number)

    async def look(self, moves: Collection[tuple[float, int]], turn: Turn) -> None:
        """Tell of the requests that were answered since the last look. `moves` are those of the clock."""
        for entry, reader in self._unseen(moves):
            if turn.is_over:
                await turn.next()
            self._see(entry, reader)

    def look_at_once(self, moves: Collection[tuple[float, int]]) -> None:
        """Do the same in one turn, and read those in service: the journal is about to forget how."""
        for entry, reader in self._unseen(moves):
            self._see(entry, reader)
            reader.decoded(entry)

    def _unseen(self, moves: Collection[tuple[float, int]]) -> list[tuple[Entry, JournalReader]]:
        """The requests to look at: those that were in service, and new ones, which become that."""
        journal = self._journal
        if journal is None:
            return []
        entries, in_service = journal.entries, self._in_service
        oldest: int = entries[0].number if entries else journal.next_number
        if self._next_number < oldest:
            self._go_on_at(oldest)
        for number in [number for number, entry in in_service.items() if number < oldest and not entry.ended_s]:
            del in_service[number]  # its client has left before the answer, long ago
        in_service.update((entry.number, entry) for entry in islice(entries, self._next_number - oldest, None))
        self._next_number = journal.next_number
        reader = JournalReader(journal, moves)
        return [(entry, reader) for entry in in_service.values()]

    def _see(self, entry: Entry, reader: JournalReader) -> None:
        if entry.ended_s and self._in_service.pop(entry.number, None) is not None:
            decoded = reader.decoded(entry)
            self._tell("requests", "request", _data(decoded), decoded.topics)

    def _go_on_at(self, number: int) -> None:
        """Pass over the requests before this one, and say how many they are."""
        lost, self._next_number = number - self._next_number, number
        if lost > 0:
            self._tell("requests", "dropped", {"lost": lost, "types": ["requests"]}, ())


def _data(entry: JournalEntry) -> dict[str, Any]:
    topics: dict[str, dict[str, int | None]] = {}
    for one in entry.partitions[:MOST_PARTITIONS]:
        of_topic = topics.setdefault(one.topic, {})
        if one.partition is not None:
            of_topic[str(one.partition)] = one.records
    return {
        "number": entry.number,
        "time_ms": entry.time_ms,
        "log_time_ms": entry.log_time_ms,
        "broker": entry.broker,
        "client_id": entry.client_id,
        "connection": entry.connection,
        "api": entry.api,
        "version": entry.version,
        "topics": topics,
        "more_partitions": max(len(entry.partitions) - MOST_PARTITIONS, 0),
        "groups": entry.groups,
        "transactional_ids": entry.transactional_ids,
        "errors": entry.errors,
        "closed": entry.closed,
        "rules": entry.faults,
        "ms": None if entry.ms is None else round(entry.ms, 3),
        "registry": None if entry.registry is None else entry.registry._asdict(),
    }

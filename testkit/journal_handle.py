"""What the broker was asked: `broker.requests`.

mark = broker.requests.mark()
place_order("42")
broker.requests.assert_some("Produce", topic="orders", since=mark)
broker.requests.assert_none("Fetch", topic="orders", since=mark)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

from kmini.broker.journal.entries import JournalEntry, JournalReader
from kmini.broker.journal.entry_selection import NO_ERROR, EntrySelection, Predicate
from kmini.broker.journal.registry_requests import REGISTRY
from kmini.broker.journal.request_journal import RequestJournal
from kmini.protocol.api_keys import API_NAMES
from kmini.protocol.errors import ExpectationFailed, InvalidArgument, InvalidState, error_names
from kmini.protocol.similar_names import similar_names
from kmini.testkit.handle import Awaiting, Blocking, Handle, method, waits_for_clients
from kmini.testkit.operations import Operations
from kmini.testkit.waiting import NotInTime

if TYPE_CHECKING:
    from typing_extensions import Unpack

MOST_SHOWN = 5
"""Requests that a message shows."""


class What(TypedDict, total=False):
    """What is asked of requests, by keyword."""

    topic: str
    """A topic that the request names, or reads in its fetch session."""
    partition: int
    group: str
    transactional_id: str
    client_id: str
    """A client id, or a pattern of several, as "app-*"."""
    error: str
    """Kafka's name of an error in the answer, or an error code of the schema registry, as "40901"; "NONE" for answers
    without an error."""
    subject: str
    """The subject of a request to the schema registry."""
    where: Predicate
    """A function of a `JournalEntry`; what it returns counts as true or false."""
    since: int | JournalEntry
    """A mark of `mark()`, or an entry: what arrived after it counts."""


class RequestsLost(ExpectationFailed):
    """The journal has lost requests that the question is about, so it cannot answer."""


class RequestOperations:
    """The requests that the broker, or any broker of the cluster, was asked since its start, in the order of their
    arrival; those of other brokers of the cluster are not among them.

    `api` is Kafka's name, as "Produce", or "registry" for requests to the schema registry beside the brokers; the
    keywords of `What` narrow it down, and all that are given must hold. Every method raises RuntimeError where no
    journal is written, and TypeError and ValueError for wrong arguments.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    @property
    def _journal(self) -> RequestJournal:
        journal = self._operations.any_broker().services.journal
        if journal is None:
            raise InvalidState("no journal of requests is written: start the broker with journal=True")
        return journal

    def _entries(self, selection: EntrySelection) -> Iterable[JournalEntry]:
        """The requests that may be meant, in the order of their arrival."""
        journal = self._journal
        reader = JournalReader(journal, self._operations.clock.moves)
        for entry in [*journal.entries]:
            if selection.may_mean(entry.number, entry.source.api):
                yield reader.decoded(entry)

    def _apis(self, since: int) -> Iterable[str]:
        """The API of each request from this number on."""
        return (entry.source.api for entry in self._journal.entries if entry.number >= since)

    def _extent(self) -> tuple[int, int, int]:
        """The number of the first request, how many of the first ones are lost, and how many the journal keeps."""
        journal = self._journal
        return journal.first_number, journal.lost, len(journal.entries)

    async def all(self, api: str | None = None, **what: Unpack[What]) -> list[JournalEntry]:
        """The requests of the kind, with those that are not answered yet. `lost` says how many older ones there
        were."""
        selection = _selection(api, what)
        return selection.chosen(self._entries(selection))

    async def count(self, api: str | None = None, **what: Unpack[What]) -> int:
        """How many requests of the kind came. Raises RequestsLost if the journal has lost some of the span."""
        selection = _selection(api, what)
        self._check_kept(selection)
        return len(selection.chosen(self._entries(selection)))

    @waits_for_clients
    async def wait_for(
        self, api: str | None = None, *, number: int = 1, timeout_ms: int = 10_000, **what: Unpack[What]
    ) -> list[JournalEntry]:
        """Wait until a `number` of requests of the kind have come, those before the call included; return all.

        Raises RequestTimedOut, which is an AssertionError as well and says what came instead. On the thread of a
        running event loop, where a client could not send meanwhile, it does not wait and raises RuntimeError if there
        are fewer.
        """
        selection = _selection(api, what)
        clock, journal = self._operations.clock, self._journal
        deadline_ms = clock.liveness_ms() + timeout_ms
        arrival = asyncio.Event()
        journal.watchers.add(arrival.set)
        try:
            while len(found := selection.chosen(self._entries(selection))) < number:
                left_ms = deadline_ms - clock.liveness_ms()
                if left_ms <= 0:
                    raise NotInTime(self._missing(selection, found, number, f" after {timeout_ms} ms"))
                arrival.clear()
                timer = clock.call_later(left_ms, arrival.set, liveness=True)
                try:
                    await arrival.wait()
                finally:
                    timer.cancel()
        finally:
            journal.watchers.discard(arrival.set)
        return found

    async def assert_some(self, api: str | None = None, *, number: int = 1, **what: Unpack[What]) -> list[JournalEntry]:
        """Return the requests of the kind. Raises AssertionError, which says what came instead, if there are fewer than
        a `number`, and RequestsLost if they may be among those that the journal has lost."""
        selection = _selection(api, what)
        found = selection.chosen(self._entries(selection))
        if len(found) < number:
            self._check_kept(selection)
            raise ExpectationFailed(self._missing(selection, found, number))
        return found

    async def assert_none(self, api: str | None = None, **what: Unpack[What]) -> None:
        """Raises AssertionError, which shows the first requests of the kind, if one came, and RequestsLost if one may
        be among those that the journal has lost."""
        selection = _selection(api, what)
        found = selection.chosen(self._entries(selection))
        if found:
            more = f"\n... and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
            shown = "".join(f"\n{entry.number}: {entry}" for entry in found[:MOST_SHOWN])
            raise ExpectationFailed(f"expected no {selection}, and {len(found)} came:{shown}{more}")
        self._check_kept(selection)

    async def mark(self) -> int:
        """A mark for `since`: the requests that arrive from now on."""
        return self._journal.next_number

    async def lost(self) -> int:
        """How many of the oldest requests the journal has dropped, because there were more than it keeps."""
        return self._journal.lost

    def _missing(self, selection: EntrySelection, found: list[JournalEntry], number: int, when: str = "") -> str:
        wanted = f"{number} of them" if number > 1 else "one"
        nearest = selection.nearest(self._entries(selection), self._apis(selection.since))
        return f"{len(found) or 'no'} {selection}{when}, and {wanted} was expected: {nearest}"

    def _check_kept(self, selection: EntrySelection) -> None:
        first_number, lost, kept = self._extent()
        if lost := selection.lost(first_number, lost):
            raise RequestsLost(
                f"{lost} requests of the time in question are lost: the journal keeps the last {kept}. "
                "Ask about a shorter time, with since=broker.requests.mark()"
            )


def _selection(api: str | None, what: What) -> EntrySelection:
    """Raises ValueError for an API or an error that Kafka does not have."""
    if api is not None:
        _check_known("api", api, [*API_NAMES.values(), REGISTRY])
    error = what.get("error")
    if error is not None and error != NO_ERROR and not error.isdecimal():
        _check_known("error", error, [NO_ERROR, *error_names()])
    since = what.get("since", 0)
    return EntrySelection(
        api,
        topic=what.get("topic"),
        partition=what.get("partition"),
        group=what.get("group"),
        transactional_id=what.get("transactional_id"),
        client_id=what.get("client_id"),
        error=error,
        subject=what.get("subject"),
        where=what.get("where"),
        since=since.number + 1 if isinstance(since, JournalEntry) else since,
    )


def _check_known(argument: str, name: str, names: Iterable[str]) -> None:
    known = [*names]
    if name not in known:
        near = similar_names(name, known, 3)
        raise InvalidArgument(
            f"{argument}={name!r}: Kafka has none of this name" + (f"; near: {', '.join(near)}" if near else "")
        )


class _RequestsHandle(Handle[RequestOperations]):
    """The methods of `Requests` and `AsyncRequests`."""

    _called = "requests."

    def __init__(self, host: Handle[Operations]) -> None:
        super().__init__(host._thread, lambda: host._operations.part(RequestOperations))

    all = method(RequestOperations.all)
    count = method(RequestOperations.count)
    wait_for = method(RequestOperations.wait_for)
    assert_some = method(RequestOperations.assert_some)
    assert_none = method(RequestOperations.assert_none)
    mark = method(RequestOperations.mark)
    lost = method(RequestOperations.lost)


class Requests(_RequestsHandle, Blocking[RequestOperations]):
    """The requests that a broker or a cluster was asked, as its journal has them (`journal=True`)."""


class AsyncRequests(_RequestsHandle, Awaiting[RequestOperations]):
    """The requests that a broker or a cluster was asked; see Requests."""

"""Requests of a journal chosen by what they are about, and what came nearest where there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from .entries import JournalEntry

NO_ERROR = "NONE"
"""As the error of a request: its answer has none."""

NEAR_MISSES_OF = 1_000
"""The last requests among which a message seeks the nearest."""

SHOWN_APIS = 6
"""APIs that a message names where no request of the right one came."""

Predicate = Callable[[JournalEntry], object]


class _Criterion(NamedTuple):
    """One thing that is asked of a request."""

    name: str
    wanted: str
    holds: Callable[[JournalEntry], bool]
    found: Callable[[JournalEntry], str]
    """What a request has in its place."""


class EntrySelection:
    """Which requests are meant: those for which everything that is given holds."""

    def __init__(
        self,
        api: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        error: str | None = None,
        subject: str | None = None,
        where: Predicate | None = None,
        since: int = 0,
    ) -> None:
        """`client_id` is a pattern, as "app-*"; `error` NONE stands for answers without one; `since` is the number of
        the first request that counts."""
        self.api = api
        self.since = since
        self._client_id = client_id
        self._criteria = [
            criterion
            for given, criterion in (
                (topic, _named("topic", topic, lambda one: one.topics)),
                (partition, _of_partition(topic, partition)),
                (group, _named("group", group, lambda one: one.groups)),
                (transactional_id, _named("transactional_id", transactional_id, lambda one: one.transactional_ids)),
                (client_id, _of_client(client_id)),
                (error, _of_error(error)),
                (subject, _named("subject", subject, _subjects)),
                (where, _of_predicate(where)),
            )
            if given is not None
        ]

    def __str__(self) -> str:
        return " ".join(
            [f"{self.api} request" if self.api else "request"]
            + [f"{one.name}={one.wanted}" for one in self._criteria]
            + ([f"since={self.since}"] if self.since else [])
        )

    def chosen(self, entries: Iterable[JournalEntry]) -> list[JournalEntry]:
        """The requests of these that are meant."""
        return [entry for entry in entries if self.means(entry)]

    def means(self, entry: JournalEntry) -> bool:
        """Whether this request is meant."""
        return self.may_mean(entry.number, entry.api) and all(one.holds(entry) for one in self._criteria)

    def may_mean(self, number: int, api: str) -> bool:
        """Whether a request of this number and API may be meant; if not, it need not be decoded."""
        return number >= self.since and self.api in (None, api)

    def lost(self, first_number: int, lost: int) -> int:
        """How many of the requests that might be meant a journal has lost, which has lost the first ones."""
        return max(first_number + lost - max(self.since, first_number), 0)

    def nearest(self, entries: Iterable[JournalEntry], apis: Iterable[str]) -> str:
        """What came instead, in a sentence: how many requests of the API, and what the nearest ones have that is not
        what is meant. `entries` are those that may be meant, `apis` has the API of each request since the mark."""
        candidates = [*entries][-NEAR_MISSES_OF:]
        if not candidates:
            return self._of_other_apis(apis)
        misses: Counter[tuple[str, ...]] = Counter()
        for entry in candidates:
            failed = (one for one in self._criteria if not one.holds(entry))
            misses[tuple(f"{one.name} was {one.found(entry)}, not {one.wanted}" for one in failed)] += 1
        fewest = min(map(len, misses))
        nearest, times = max(((miss, times) for miss, times in misses.items() if len(miss) == fewest), key=_times)
        came = f"{_count(len(candidates), self.api)} came"
        if not nearest:
            return came
        which = "its" if len(candidates) == 1 else f"nearest, {times} of them:"
        return f"{came}; {which} {' and '.join(nearest)}"

    def _of_other_apis(self, apis: Iterable[str]) -> str:
        came = Counter(apis)
        if not came:
            return "no request came"
        listed = ", ".join(f"{api} {times}" for api, times in came.most_common(SHOWN_APIS))
        more = ", ..." if len(came) > SHOWN_APIS else ""
        return f"no {self.api} came; these did: {listed}{more}"


def _times(miss: tuple[tuple[str, ...], int]) -> int:
    return miss[1]


def _count(number: int, api: str | None) -> str:
    return f"{number} {api + ' ' if api else ''}request{'' if number == 1 else 's'}"


def _quoted(texts: tuple[str, ...]) -> str:
    return ", ".join(map(repr, texts[:3])) + (", ..." if len(texts) > 3 else "") if texts else "none"


def _named(name: str, wanted: str | None, of: Callable[[JournalEntry], tuple[str, ...]]) -> _Criterion:
    return _Criterion(name, repr(wanted), lambda entry: wanted in of(entry), lambda entry: _quoted(of(entry)))


def _subjects(entry: JournalEntry) -> tuple[str, ...]:
    call = entry.registry
    return () if call is None or call.subject is None else (call.subject,)


def _of_partition(topic: str | None, wanted: int | None) -> _Criterion:
    def numbers(entry: JournalEntry) -> list[int]:
        return [
            one.partition
            for one in entry.partitions
            if one.partition is not None and (topic is None or one.topic == topic)
        ]

    def found(entry: JournalEntry) -> str:
        return ", ".join(map(str, numbers(entry)[:5])) or "none"

    return _Criterion("partition", str(wanted), lambda entry: wanted in numbers(entry), found)


def _of_client(wanted: str | None) -> _Criterion:
    return _Criterion(
        "client_id",
        repr(wanted),
        lambda entry: entry.client_id is not None and fnmatchcase(entry.client_id, wanted or ""),
        lambda entry: repr(entry.client_id),
    )


def _of_error(wanted: str | None) -> _Criterion:
    def holds(entry: JournalEntry) -> bool:
        if wanted == NO_ERROR:
            return not entry.errors and entry.closed is None and not entry.is_in_service
        return wanted in entry.errors

    def found(entry: JournalEntry) -> str:
        return ", ".join(entry.errors) or (NO_ERROR if entry.ms is not None else "not known yet")

    return _Criterion("error", str(wanted), holds, found)


def _of_predicate(where: Predicate | None) -> _Criterion:
    def holds(entry: JournalEntry) -> bool:
        assert where is not None
        return bool(where(entry))

    return _Criterion("where", "what it asks for", holds, str)

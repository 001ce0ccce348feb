"""Requests chosen by what they are about, and the nearest ones where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.api.key_fields import KeyFields, KeyPartition
from kmini.broker.journal.entries import JournalEntry, JournalReader
from kmini.broker.journal.entry_selection import EntrySelection
from kmini.broker.journal.request_journal import Answer, Entry, RequestJournal, Source
from kmini.protocol.api_keys import API_NAMES


class FromSomewhere:
    """A connection, as a source needs it."""

    peer = ("127.0.0.1", 50_000)
    principal = "User:ANONYMOUS"


KEYS = {name: key for key, name in API_NAMES.items()}


def journal_of(*requests: tuple[str, str, KeyFields, tuple[int, ...]]) -> RequestJournal:
    """A journal of answered requests: API, client id, key fields and error codes."""
    journal = RequestJournal()
    connection: Any = FromSomewhere()
    for api, client_id, fields, codes in requests:
        source = Source(1, connection, KEYS[api], 1, client_id)
        entry = Entry()
        entry.source, entry.asked, entry.answered = source, fields, Answer(10, codes)
        entry.started_s = entry.ended_s = journal.began_s
        journal.add(entry)
    return journal


def entries_of(journal: RequestJournal) -> list[JournalEntry]:
    return [*map(JournalReader(journal).decoded, journal.entries)]


def of(topic: str, *numbers: int) -> KeyFields:
    return KeyFields(tuple(KeyPartition(topic, number) for number in numbers or (0,)))


NOT_LEADER = 6
JOURNAL = journal_of(
    ("Metadata", "app-1", KeyFields((KeyPartition("orders"),)), ()),
    *[("Produce", "app-1", of("order"), ())] * 3,
    ("Produce", "app-2", of("orders", 0, 1), (NOT_LEADER,)),
    ("Fetch", "reader", of("orders", 1), ()),
    ("OffsetCommit", "reader", of("orders")._replace(groups=("billing",)), ()),
    ("EndTxn", "app-1", KeyFields(transactional_ids=("tx-1",)), ()),
)
OF_TWO_TOPICS = journal_of(("Produce", "app-1", KeyFields((*of("a", 0).partitions, *of("b", 1).partitions)), ()))


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        (EntrySelection(), [1, 2, 3, 4, 5, 6, 7, 8]),
        (EntrySelection("Produce"), [2, 3, 4, 5]),
        (EntrySelection(topic="orders"), [1, 5, 6, 7]),
        (EntrySelection("Produce", topic="orders", partition=1), [5]),
        (EntrySelection("Produce", topic="orders", partition=2), []),
        (EntrySelection(partition=1), [5, 6]),
        (EntrySelection(group="billing"), [7]),
        (EntrySelection(transactional_id="tx-1"), [8]),
        (EntrySelection(client_id="app-*"), [1, 2, 3, 4, 5, 8]),
        (EntrySelection(client_id="app-2"), [5]),
        (EntrySelection(error="NOT_LEADER_OR_FOLLOWER"), [5]),
        (EntrySelection("Produce", error="NONE"), [2, 3, 4]),
        (EntrySelection(where=lambda entry: entry.number % 4 == 0), [4, 8]),
        (EntrySelection("Produce", since=4), [4, 5]),
    ],
    ids=str,
)
def test_everything_that_is_given_holds_for_what_is_chosen(selection: EntrySelection, numbers: list[int]) -> None:
    assert [entry.number for entry in selection.chosen(entries_of(JOURNAL))] == numbers


@pytest.mark.parametrize(("topic", "partition", "count"), [("a", 0, 1), ("b", 1, 1), ("a", 1, 0), ("b", 0, 0)])
def test_a_request_about_two_topics_is_about_the_partitions_of_each_alone(
    topic: str, partition: int, count: int
) -> None:
    selection = EntrySelection("Produce", topic=topic, partition=partition)
    assert len(selection.chosen(entries_of(OF_TWO_TOPICS))) == count


@pytest.mark.parametrize(
    ("selection", "sentence"),
    [
        (
            EntrySelection("Produce", topic="ordres", client_id="app-1"),
            "4 Produce requests came; nearest, 3 of them: topic was 'order', not 'ordres'",
        ),
        (EntrySelection("Fetch", topic="order"), "1 Fetch request came; its topic was 'orders', not 'order'"),
        (
            EntrySelection("Produce", topic="orders", partition=7),
            "4 Produce requests came; nearest, 1 of them: partition was 0, 1, not 7",
        ),
        (
            EntrySelection("OffsetCommit", group="biling", error="NONE"),
            "1 OffsetCommit request came; its group was 'billing', not 'biling'",
        ),
        (
            EntrySelection("EndTxn", transactional_id="tx-2", error="INVALID_TXN_STATE"),
            "1 EndTxn request came; its transactional_id was 'tx-1', not 'tx-2' "
            "and error was NONE, not INVALID_TXN_STATE",
        ),
        (
            EntrySelection("JoinGroup"),
            "no JoinGroup came; these did: Produce 4, Metadata 1, Fetch 1, OffsetCommit 1, EndTxn 1",
        ),
        (EntrySelection("JoinGroup", since=9), "no request came"),
        (EntrySelection("EndTxn"), "1 EndTxn request came"),
    ],
    ids=str,
)
def test_the_nearest_requests_are_named_with_what_they_have_instead(selection: EntrySelection, sentence: str) -> None:
    entries = [entry for entry in entries_of(JOURNAL) if entry.number >= selection.since]
    possible = [entry for entry in entries if selection.may_mean(entry.number, entry.api)]
    assert selection.nearest(possible, [entry.api for entry in entries]) == sentence


@pytest.mark.sockets
@pytest.mark.parametrize(("since", "lost"), [(0, 5), (1, 5), (3, 3), (5, 1), (6, 0), (9, 0)])
def test_of_a_span_the_lost_requests_are_counted(since: int, lost: int) -> None:
    journal = journal_of(*[("Fetch", "reader", of("orders"), ())] * 8)
    for _ in range(5):
        journal.entries.popleft()
    assert EntrySelection(since=since).lost(journal.first_number, journal.lost) == lost


def test_what_was_cleared_is_not_lost() -> None:
    journal = journal_of(*[("Fetch", "reader", of("orders"), ())] * 8)
    journal.clear()
    assert EntrySelection().lost(journal.first_number, journal.lost) == 0

"""Requests to the schema registry are entries of the journal among Kafka's."""

from __future__ import annotations

from kmini.broker.journal.entries import JournalReader
from kmini.broker.journal.entry_selection import EntrySelection
from kmini.broker.journal.registry_requests import (
    MOST_OF_TEXT,
    NO_BROKER,
    RegistryAnswer,
    RegistryCall,
    RegistryQuestion,
    RegistrySource,
    begin,
    end,
)
from kmini.broker.journal.request_journal import RequestJournal

SOURCE = RegistrySource("curl/8", "127.0.0.1:5000", "User:alice")
ASKED = RegistryQuestion("POST", "/subjects/a%2Fb/versions", "a/b")
REFUSED = RegistryAnswer(409, 40901, "incompatible", 30)


def test_an_entry_says_that_it_is_of_the_registry_and_what_was_asked() -> None:
    journal = RequestJournal()
    written = begin(journal, SOURCE, ASKED, 20)
    reader = JournalReader(journal)
    asked = reader.decoded(written)
    assert (asked.number, asked.broker, asked.api, asked.version) == (1, NO_BROKER, "registry", 0)
    assert (asked.client_id, asked.connection, asked.principal) == ("curl/8", "127.0.0.1:5000", "User:alice")
    assert asked.is_in_service
    assert asked.registry == RegistryCall("POST", "/subjects/a%2Fb/versions", "a/b", 0, "")
    assert str(asked) == "registry POST /subjects/a%2Fb/versions curl/8 not answered yet"
    end(journal, written, REFUSED)
    answered = reader.decoded(written)
    assert (answered.errors, answered.bytes_in, answered.bytes_out) == (("40901",), 20, 30)
    assert answered.registry == RegistryCall("POST", "/subjects/a%2Fb/versions", "a/b", 409, "incompatible")
    assert answered.ms is not None
    assert answered.outcome == f"40901 {answered.ms:.1f} ms"
    assert answered.topics == answered.groups == ()


def test_an_entry_without_an_answer_says_why() -> None:
    journal = RequestJournal()
    written = begin(journal, SOURCE, ASKED, 0)
    end(journal, written, "the client has gone")
    entry = JournalReader(journal).decoded(written)
    assert (entry.closed, entry.errors, entry.is_in_service) == ("the client has gone", (), False)


def test_watchers_are_told_of_the_request_and_of_its_answer() -> None:
    journal, told = RequestJournal(), []
    journal.watchers.add(lambda: told.append(len(journal.entries)))
    end(journal, begin(journal, SOURCE, ASKED, 0), REFUSED)
    assert told == [1, 1]


def test_long_texts_are_cut() -> None:
    journal = RequestJournal()
    long = "x" * 100_000
    written = begin(journal, RegistrySource(long, "", ""), RegistryQuestion("GET", long, None), 0)
    end(journal, written, RegistryAnswer(404, 404, long, 0))
    entry = JournalReader(journal).decoded(written)
    assert entry.registry is not None
    assert [len(text or "") for text in (entry.client_id, entry.registry.path, entry.registry.message)] == [
        MOST_OF_TEXT
    ] * 3


def test_requests_are_chosen_by_subject_and_error() -> None:
    journal = RequestJournal()
    end(journal, begin(journal, SOURCE, ASKED, 0), REFUSED)
    end(journal, begin(journal, SOURCE, ASKED._replace(subject="c"), 0), RegistryAnswer(200, 0, "", 2))
    entries = [*map(JournalReader(journal).decoded, journal.entries)]
    for wanted, numbers in (
        ({}, [1, 2]),
        ({"subject": "a/b"}, [1]),
        ({"error": "NONE"}, [2]),
        ({"error": "40901"}, [1]),
        ({"client_id": "curl/*"}, [1, 2]),
        ({"topic": "a/b"}, []),
    ):
        chosen = EntrySelection("registry", **wanted).chosen(entries)
        assert [entry.number for entry in chosen] == numbers, wanted
    assert EntrySelection("registry", subject="d").nearest(entries, ["registry"] * 2) == (
        "2 registry requests came; nearest, 1 of them: subject was 'a/b', not 'd'"
    )

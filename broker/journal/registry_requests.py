"""Requests to the schema registry in the journal, among Kafka's, in the order of their arrival.

They are no Kafka requests: their entries say so by the name "registry" in place of an API, have no version, and tell in
`JournalEntry.registry` what was asked. The registry (`kmini.registry`) writes them; nothing of it is needed here.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from .request_journal import Entry, RequestJournal

REGISTRY = "registry"
"""In place of an API: the schema registry."""

NO_BROKER = -1
"""In place of the number of a broker: the registry stands in front of all of them."""

MOST_OF_TEXT = 500
"""Characters that are kept of a path, a User-Agent and the message of an error."""


class RegistryCall(NamedTuple):
    """What a request to the schema registry asked, and how it was answered."""

    method: str
    """As "POST"."""
    path: str
    """With its query, as the client has sent it."""
    subject: str | None
    """The subject that the path names, decoded."""
    status: int
    """Of HTTP; 0 while there is no answer."""
    message: str
    """What the answer says is wrong; empty without an error."""


class RegistryQuestion(NamedTuple):
    """What an entry of the journal keeps of a request."""

    method: str
    path: str
    subject: str | None


class RegistryAnswer(NamedTuple):
    """What it keeps of an answer."""

    status: int
    error_code: int
    """The registry's, as 40901; 0 without an error."""
    message: str
    size_bytes: int


class RegistrySource:
    """Where a request comes from, as `request_journal.Source` has it for Kafka's."""

    node = NO_BROKER
    api = REGISTRY
    version = 0

    def __init__(self, client_id: str | None, peer: str, principal: str) -> None:
        """`client_id` is the User-Agent."""
        self.client_id = None if client_id is None else client_id[:MOST_OF_TEXT]
        self.peer = peer
        self.principal = principal


def begin(journal: RequestJournal, source: RegistrySource, question: RegistryQuestion, bytes_in: int) -> Entry:
    """Write a request that is about to be served."""
    entry: Entry = Entry.__new__(Entry)
    entry.source = source
    entry.correlation_id = 0
    entry.started_s = time.perf_counter()
    entry.bytes_in = bytes_in
    entry.asked = question._replace(path=question.path[:MOST_OF_TEXT])
    journal.add(entry)
    journal.wake()
    return entry


def end(journal: RequestJournal, entry: Entry, answer: RegistryAnswer | str) -> None:
    """Write how a request was answered; a text says why it was not."""
    entry.ended_s = time.perf_counter()
    entry.answered = answer if isinstance(answer, str) else answer._replace(message=answer.message[:MOST_OF_TEXT])
    journal.wake()


def call_of(entry: Entry) -> RegistryCall | None:
    """What a request to the registry asked; None for one of Kafka's."""
    asked, answered = entry.asked, entry.answered
    if not isinstance(asked, RegistryQuestion):
        return None
    status, message = (answered.status, answered.message) if isinstance(answered, RegistryAnswer) else (0, "")
    return RegistryCall(asked.method, asked.path, asked.subject, status, message)

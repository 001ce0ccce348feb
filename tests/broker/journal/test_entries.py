"""How an entry of the journal is decoded and shown."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.api.key_fields import KeyFields, KeyPartition, Names
from kmini.broker.journal.entries import JournalReader
from kmini.broker.journal.request_journal import Answer, Entry, RequestJournal, Source
from kmini.protocol import messages as m
from kmini.protocol.framing import response_frame
from kmini.protocol.schema import Request


class FromSomewhere:
    """A connection, as a source needs it."""

    peer = ("127.0.0.1", 50_000)
    principal = "User:ANONYMOUS"


CONNECTION: Any = FromSomewhere()


@pytest.fixture
def journal() -> RequestJournal:
    journal = RequestJournal()
    journal.names[1] = Names({b"orders' own uuid": "orders"}.get, lambda _: ())
    return journal


def entry_of(
    journal: RequestJournal, request: Request, version: int, answered: Any, client_id: str | None = "app"
) -> Entry:
    source = Source(1, CONNECTION, request.api_key, version, client_id)
    entry = Entry()
    entry.source, entry.answered, entry.correlation_id = source, answered, 3
    entry.started_s = journal.began_s + 1
    entry.ended_s = entry.started_s + 0.0004
    entry.asked = b"".join(bytes(part) for part in request.encode(version))
    entry.bytes_in = len(entry.asked)
    return entry


def heartbeat() -> m.HeartbeatRequest:
    return m.HeartbeatRequest(group_id="billing", generation_id=3, member_id="m-1")


def test_an_entry_is_decoded_once(journal: RequestJournal) -> None:
    answer = response_frame(3, m.HeartbeatResponse(error_code=27), 4)[0]
    entry = entry_of(journal, heartbeat(), 4, answer)
    reader = JournalReader(journal)
    first = reader.decoded(entry)
    assert isinstance(entry.asked, KeyFields)
    assert isinstance(entry.answered, Answer)
    assert reader.decoded(entry) == first
    assert (first.groups, first.errors, first.bytes_out) == (("billing",), ("REBALANCE_IN_PROGRESS",), len(answer))
    assert first.time_ms == round((journal.began_wall_s + 1) * 1000)


@pytest.mark.parametrize(
    ("answered", "shown"),
    [
        (Answer(10, ()), "Heartbeat v4 app group=billing ok 0.4 ms"),
        (Answer(10, (27, 16)), "Heartbeat v4 app group=billing REBALANCE_IN_PROGRESS NOT_COORDINATOR 0.4 ms"),
        ("not served", "Heartbeat v4 app group=billing closed: not served"),
        (bytearray(b"\0\0\0\x05\0\0\0\x03\xff"), "Heartbeat v4 app group=billing ok 0.4 ms"),
    ],
)
def test_an_entry_is_a_line(journal: RequestJournal, answered: Any, shown: str) -> None:
    assert str(JournalReader(journal).decoded(entry_of(journal, heartbeat(), 4, answered))) == shown


def test_a_line_has_the_first_partitions_and_what_a_client_sent_is_escaped(journal: RequestJournal) -> None:
    Topic = m.MetadataRequest.Topic
    names = ["orders\nProduce", *"bcdefg"]
    entry = entry_of(journal, m.MetadataRequest(topics=[Topic(name=name) for name in names]), 9, Answer(1, ()), None)
    assert str(JournalReader(journal).decoded(entry)) == r"Metadata v9 - orders\x0aProduce b c d e +2 ok 0.4 ms"


def test_partitions_are_shown_with_offsets_and_records(journal: RequestJournal) -> None:
    entry = entry_of(journal, heartbeat(), 4, Answer(1, ()))
    entry.asked = KeyFields((KeyPartition("orders", 0, 5), KeyPartition("orders", 1, records=3)))
    assert "orders-0@5 orders-1:3" in str(JournalReader(journal).decoded(entry))


def test_the_log_time_of_an_entry_is_that_of_the_last_move_before_it(journal: RequestJournal) -> None:
    moves = [(0.0, 0), (journal.began_s + 0.5, 60_000), (journal.began_s + 5, 90_000)]
    decoded = JournalReader(journal, moves).decoded(entry_of(journal, heartbeat(), 4, None))
    assert decoded.log_time_ms - decoded.time_ms == 60_000

"""An exchange as a line of text, and as JSON that is read again. `test_observer.py` tests that no secret
comes here."""

from __future__ import annotations

import json

import pytest

from kmini.broker.api.key_fields import KeyPartition, Producer
from kmini.broker.journal.entries import JournalEntry
from kmini.trace.lines import exchange_of, json_line, shown_bytes, text_line
from kmini.trace.observer import TracedExchange

PRODUCE = TracedExchange(
    0.03125,
    2,
    JournalEntry(
        7, 1, "Produce", 9, "order-svc", "127.0.0.1:40112", "", 5, 1_700_000_000_000, 1_700_000_000_000, 1.04,
        (KeyPartition("orders", 1, None, 3),), (), (), ("tx-1",), (Producer(4001, 0),), 412, 60, (), None, ("late",),
    ),
    None,
)  # fmt: skip


def test_text_says_when_which_connection_what_and_what_became_of_it() -> None:
    line = "+0.031 #2 Produce v9 order-svc orders-1:3 transactional_id=tx-1 -> ok 1.0 ms fault=late, 412 B in, 60 B out"
    assert text_line(PRODUCE) == line


def test_an_answer_that_was_not_decoded_is_not_called_ok() -> None:
    unread = PRODUCE._replace(note="not decoded: kmini does not know this API")
    assert "-> answered 1.0 ms" in text_line(unread)
    assert text_line(unread).endswith("(not decoded: kmini does not know this API)")


def test_a_hostile_client_id_stays_on_its_line() -> None:
    hostile = PRODUCE._replace(entry=PRODUCE.entry._replace(client_id="a\n\x1b[31mb"))
    assert text_line(hostile).isprintable()
    assert "\n" not in json_line(hostile)
    assert "\x1b" not in json_line(hostile)


def test_json_has_header_and_payload_as_kroxylicious_logs_them() -> None:
    shown = json.loads(json_line(PRODUCE))
    assert shown["header"] == {
        "type": "Produce",
        "apiKey": 0,
        "apiVersion": 9,
        "correlationId": 5,
        "clientId": "order-svc",
    }
    assert shown["payload"]["partitions"] == [{"topic": "orders", "partition": 1, "records": 3}]
    assert shown["answer"] == {"errors": [], "ms": 1.04, "bytes": 60, "closed": None}


def test_a_json_line_is_read_again_as_the_same_exchange() -> None:
    assert exchange_of(json_line(PRODUCE)) == PRODUCE
    unknown = PRODUCE._replace(entry=PRODUCE.entry._replace(api="api-1000", client_id=None))
    assert exchange_of(json_line(unknown)) == unknown


@pytest.mark.parametrize(
    "line", ["", "{}", "[1]", '{"header": 1}', "{"], ids=["empty", "no-fields", "list", "kind", "cut"]
)
def test_a_line_that_is_no_exchange_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        exchange_of(line)


def test_bytes_have_the_unit_that_people_read() -> None:
    assert [shown_bytes(count) for count in (0, 1023, 1536, 5 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]

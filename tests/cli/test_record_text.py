"""Records as text: values, keys, headers and times on a line, or a JSON object for each."""

from __future__ import annotations

import json

from kmini.cli.record_text import Printing, text_of
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition

AT = TopicPartition("orders", 1)
RECORDS = [
    Record(0, 0, b"k", b"v", (("h", b"x"), ("n", None))),
    Record(1, 1_000, None, "é\n".encode(), ()),
    Record(2, 2_000, b"\xff", None, ()),
]


def printing(**changes: object) -> Printing:
    plain = Printing(False, None, b"null", False, False, False)
    return plain._replace(**changes)  # type: ignore[arg-type]


def test_values_are_lines_of_their_bytes() -> None:
    assert text_of(AT, RECORDS[:1], printing()) == b"v\n"
    assert text_of(AT, RECORDS, printing(null_marker=b"-")) == b"v\n\xc3\xa9\n\n-\n"


def test_times_headers_and_keys_stand_before_the_value() -> None:
    everything = printing(key_separator=b":", with_timestamps=True, with_headers=True)
    first, second, _ = text_of(AT, [RECORDS[0], RECORDS[2]], everything).split(b"\n")
    assert first == b"1970-01-01T00:00:00.000Z\th=x,n=null\tk:v"
    assert second == b"1970-01-01T00:00:02.000Z\t\t\xff:null"


def test_on_a_terminal_control_characters_are_escaped() -> None:
    assert text_of(AT, RECORDS[1:2], printing(escaped=True)) == "é\\n\n".encode()
    assert text_of(AT, RECORDS[2:], printing(escaped=True, key_separator=b"=")) == b"\\xff=null\n"


def test_as_json_each_record_is_an_object_on_a_line() -> None:
    lines = text_of(AT, RECORDS, printing(as_json=True)).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "topic": "orders",
            "partition": 1,
            "offset": 0,
            "timestamp": 0,
            "key": "k",
            "value": "v",
            "headers": [["h", "x"], ["n", None]],
        },
        {"topic": "orders", "partition": 1, "offset": 1, "timestamp": 1000, "key": None, "value": "é\n", "headers": []},
        {
            "topic": "orders",
            "partition": 1,
            "offset": 2,
            "timestamp": 2000,
            "key": {"base64": "/w=="},
            "value": None,
            "headers": [],
        },
    ]

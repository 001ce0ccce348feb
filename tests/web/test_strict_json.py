"""JSON texts, as RFC 8259 has them and no wider."""

from __future__ import annotations

import json

import pytest

from kmini.web.strict_json import NotJson, read_json, write_json


@pytest.mark.parametrize("text", ["null", "-1.5e3", '"\\ud83d\\ude00"', '{"a": [true, {}]}', '"\\\\ud800"'])
def test_json_is_read(text: str) -> None:
    assert read_json(text) == read_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "Expecting value"),
        (b"{'a': 1}", "double quotes"),
        (b"[1,]", "Expecting value|trailing comma"),
        (b"NaN", "NaN is no number"),
        (b"[Infinity]", "Infinity is no number"),
        (b"-Infinity", "-Infinity is no number"),
        (b"1e999", "too large a number"),
        (b'"\xff"', "the byte at 1 is no UTF-8"),
        (b'"\xed\xa0\x80"', "no UTF-8"),
        ("1".encode("utf-32"), "no UTF-8"),
        (b"\xef\xbb\xbf1", "BOM"),
        (rb'"\ud800"', "surrogate"),
        (rb'{"\uDFFF": 1}', "surrogate"),
        (b"[" * 100_000, "too deeply"),
        (b"1" * 5_000, "digits"),
    ],
)
def test_what_other_readers_do_not_take_is_refused(text: bytes, told: str) -> None:
    with pytest.raises(NotJson, match=told):
        read_json(text)


def test_a_text_is_written_in_utf_8() -> None:
    assert write_json({"a": "ä"}) == '{"a": "ä"}'.encode()


def test_half_of_a_surrogate_pair_is_written_as_its_escape() -> None:
    assert write_json(["\ud800", "ä"]) == b'["\\ud800", "\\u00e4"]'

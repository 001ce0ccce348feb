"""Keys and values of records as a query wants them; what cannot be written so is text, or base64."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.control.json_text import write_json
from kmini.control.record_decoding import DECODERS


@pytest.mark.parametrize(
    ("name", "data", "written"),
    [
        ("text", b"placed", "placed"),
        ("text", "ä".encode(), "ä"),
        ("text", b"", ""),
        ("text", b"\xff", {"base64": "/w=="}),
        ("json", b'{"id": 1}', {"id": 1}),
        ("json", b"42", 42),
        ("json", b"null", None),
        ("json", b"placed", "placed"),
        ("json", b"", ""),
        ("json", b"\xff", {"base64": "/w=="}),
        ("json", b"NaN", "NaN"),
        ("json", b"1e999", "1e999"),
        ("json", rb'"\ud800"', '"\\ud800"'),
        ("json", "1".encode("utf-16"), {"base64": "//4xAA=="}),
        ("hex", b"\x00\xff", "00ff"),
        ("hex", b"", ""),
        ("base64", b"\x00\xff", "AP8="),
    ],
)
def test_data_are_written_as_the_query_wants(name: str, data: bytes, written: Any) -> None:
    assert DECODERS[name](data) == written
    assert write_json(written)


@pytest.mark.parametrize("name", DECODERS)
def test_a_null_is_null_in_every_form(name: str) -> None:
    assert DECODERS[name](None) is None


def test_deep_json_is_a_text() -> None:
    deep = b"[" * 100_000
    assert DECODERS["json"](deep) == deep.decode()

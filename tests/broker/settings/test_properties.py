"""Properties files are read as Java reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmini.broker.settings.properties import parse_properties, property_text


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1", {"a": "1"}),
        ("  a = 1 ", {"a": "1 "}),
        ("a:1\nb 2\nc\t=\t3", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n  ! b=2\n\nc=#3", {"c": "#3"}),
        ("a=1\\\n   ,2\\\n,3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("key\\ with\\:odd\\=signs = x", {"key with:odd=signs": "x"}),
        ("a=\\u0041\\t\\n\\q", {"a": "A\t\nq"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("= b", {"": "b"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a = x\fy", {"a": "x\fy"}),
    ],
)
def test_properties_files_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_broken_escape_is_named_with_its_line() -> None:
    with pytest.raises(ValueError, match="line 3: "):
        parse_properties("a=1\n# b\nc=\\\n\\u12")


@pytest.mark.sockets
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except ValueError:
        assert "\\u" in text


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_escaped_properties_come_back(properties: dict[str, str]) -> None:
    def escape(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    lines = [f"{escape(name)} = {escape(value)}" for name, value in properties.items()]
    assert parse_properties("\n".join(lines)) == properties


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (7, "7"), ("a b", "a b")])
def test_a_value_is_written_as_kafka_writes_it(value: str | int | bool, text: str) -> None:
    assert property_text(value) == text

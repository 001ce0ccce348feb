"""Bootstrap servers as text."""

from __future__ import annotations

import pytest

from kmini.client import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_addresses_are_host_and_port_separated_by_commas(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize("text", ["", " , ", "host:", "host:port", ":9092", "host:0", "host:65536", "host:-1", "9092"])
def test_anything_else_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="host:port was expected"):
        parse_addresses(text)


def test_an_address_reads_as_it_is_written() -> None:
    assert str(Address("127.0.0.1", 9092)) == "127.0.0.1:9092"
    assert str(Address("::1", 9092)) == "[::1]:9092"

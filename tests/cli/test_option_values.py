"""Arguments that several commands parse: the value, or a sentence with the expected form."""

from __future__ import annotations

import click
import pytest

from kmini.cli.option_values import (
    parse_changes,
    parse_partitions,
    parse_setting,
    parse_time,
    parse_topics,
    read_properties,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01z", 1_000),
        ("1970-01-01T01:00:00.250+01:00", 250),
        ("1969-12-31T00:00:00Z", 0),
    ],
)
def test_a_time_is_milliseconds_since_1970(text: str, milliseconds: int) -> None:
    assert parse_time("--before", text) == milliseconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "12:00"])
def test_a_text_that_is_no_time_is_told_with_the_option(text: str) -> None:
    with pytest.raises(click.UsageError, match=f"^--before {text}: a time like .* was expected"):
        parse_time("--before", text)


def test_a_setting_is_key_and_value() -> None:
    assert parse_setting("-c", " retention.ms = 5 ") == ("retention.ms", "5")
    assert parse_setting("-c", "a=b=c") == ("a", "b=c")
    assert parse_setting("-c", "a=") == ("a", "")
    for text in ("a", "=b", " =b"):
        with pytest.raises(click.UsageError, match="KEY=VALUE was expected"):
            parse_setting("-c", text)


def test_changes_are_values_and_deletions_and_name_each_key_once() -> None:
    assert parse_changes(("a=1",), ("b",)) == {"a": "1", "b": None}
    for settings, deletions in ((("a=1", "a=2"), ()), (("a=1",), ("a",))):
        with pytest.raises(click.UsageError, match="a is named twice"):
            parse_changes(settings, deletions)


def test_partitions_are_numbers_after_a_topic() -> None:
    assert parse_partitions("orders") == ("orders", None)
    assert parse_partitions("orders:1,0,1") == ("orders", [1, 0])
    for text in ("", ":1", "orders:", "orders:a", "orders:-1", "orders:1,,2", "orders:99999999999", "orders:²"):
        with pytest.raises(click.UsageError, match="as in orders:0,1"):
            parse_partitions(text)


def test_a_topic_that_is_named_twice_has_the_partitions_of_both() -> None:
    assert parse_topics(["a:1", "b:0", "a:2,1"]) == {"a": [1, 2], "b": [0]}
    assert parse_topics(["a:1", "a"]) == {"a": None}
    assert parse_topics(["a", "a:1"]) == {"a": None}


def test_a_properties_file_is_read_or_named(tmp_path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("a = 1\n# no\nb=\\u0041\n")
    assert read_properties(str(path)) == {"a": "1", "b": "A"}
    path.write_text("a=\\u12\n")
    with pytest.raises(click.UsageError, match="is no properties file: line 1"):
        read_properties(str(path))
    with pytest.raises(click.UsageError, match=r"cannot read .*nowhere: No such file or directory"):
        read_properties(str(tmp_path / "nowhere"))

"""Settings tables: types, rules, messages, and objects that do not change."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import InvalidConfig
from kmini.storage.config_key import split_list
from kmini.storage.log_config import LogConfig


def test_a_hostile_value_is_shortened_and_escaped_in_the_message() -> None:
    with pytest.raises(InvalidConfig) as raised:
        LogConfig.parse({"retention.ms": "1\n2" + "x" * 100_000})
    assert len(raised.value.message) < 200
    assert raised.value.message.isprintable()


def test_a_set_keeps_its_order_and_each_item_once() -> None:
    line = LogConfig.KEYS["cleanup.policy"]
    assert line.text(line.parse(" delete , compact,delete")) == "delete,compact"


def test_settings_cannot_be_changed_in_place() -> None:
    config = LogConfig()
    with pytest.raises(AttributeError, match=r"use replace\(retention_ms=\.\.\.\)"):
        config.retention_ms = 5
    assert config.replace(retention_ms=5).retention_ms == 5
    assert config == LogConfig()


def test_a_setting_that_is_not_in_the_table_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="LogConfig has no setting retention"):
        LogConfig(retention=5)


@pytest.mark.parametrize(("text", "items"), [("", ()), ("a", ("a",)), (" a , b ", ("a", "b")), ("a,", ("a", ""))])
def test_lists_are_separated_by_commas(text: str, items: tuple[str, ...]) -> None:
    assert split_list(text.strip()) == items

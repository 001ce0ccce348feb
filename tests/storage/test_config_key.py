"""Settings tables: types, rules, messages, and objects that do not change."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import InvalidConfig
from kmini.storage.config_key import INT, STRING, Settings, at_least, key, one_of_any_case, split_list
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


def test_a_table_that_extends_another_one_has_the_keys_of_both_and_its_own_first() -> None:
    class Base(Settings):
        base_size: int = key(INT, 1, at_least(1), "The size.")

    class Table(Base):
        own_name: str = key(STRING, "x", one_of_any_case("x", "y"), "The name.")

    assert [*Table.KEYS] == ["own.name", "base.size"]
    assert [*Base.KEYS] == ["base.size"]
    table = Table(own_name="Y").replace(base_size=2)
    assert (table.own_name, table.base_size) == ("Y", 2)
    with pytest.raises(ValueError, match=r"own\.name=z: must be one of x, y, in any case"):
        Table.KEYS["own.name"].parse("z")

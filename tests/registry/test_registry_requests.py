"""What requests say, checked."""

from __future__ import annotations

import pytest

from kmini.registry.registry_errors import RegistryError
from kmini.registry.registry_requests import config_of, flag, id_of, page, prefix_of, subject_of, version_of


def test_versions_are_numbers_or_latest() -> None:
    assert [version_of(text) for text in ("1", "2147483647", "latest", "-1")] == [1, 2147483647, -1, -1]


def test_ids_are_numbers_that_fit() -> None:
    assert [id_of(text) for text in ("0", "7", "2147483648", "-1", "٧", "")] == [0, 7, None, None, None, None]


@pytest.mark.parametrize(
    ("text", "said"), [("true", True), ("True", True), ("false", False), ("1", False), ("", False)]
)
def test_a_flag_is_said_by_true_in_any_case(text: str, said: bool) -> None:
    assert flag({"deleted": text}, "deleted") is said
    assert flag({}, "deleted") is False


def test_a_page_is_a_part_of_a_list() -> None:
    assert [*range(9)][page({"offset": "2", "limit": "3"})] == [2, 3, 4]
    assert [*range(9)][page({"offset": "-2", "limit": "-1"})] == [*range(9)]
    assert [*range(9)][page({"limit": "0"})] == []


def test_the_default_context_is_left_out_of_a_name() -> None:
    assert (subject_of(":.:s"), subject_of("a:b"), prefix_of(":*:s"), prefix_of(None)) == ("s", "a:b", "s", "")


def test_settings_are_read_by_the_names_of_the_topic() -> None:
    given = {
        "compatibility": "full",
        "normalize": True,
        "alias": "t",
        "defaultMetadata": {"properties": {"a": "1"}, "new": 1},
        "overrideRuleSet": {"domainRules": []},
        "compatibilityLevel": "ignored",
        "new": 1,
    }
    assert config_of(given) == {
        "compatibilityLevel": "FULL",
        "normalize": True,
        "alias": "t",
        "defaultMetadata": {"properties": {"a": "1"}},
        "overrideRuleSet": None,
    }


@pytest.mark.parametrize(
    "wrong",
    [{"normalize": "yes"}, {"alias": 1}, {"defaultMetadata": []}, {"overrideRuleSet": 1}, {"validateFields": 1}],
)
def test_a_setting_of_another_type_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(RegistryError) as told:
        config_of(wrong)
    assert told.value.code == 400

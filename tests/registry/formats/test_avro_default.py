"""Defaults of fields: which values a type takes, and how long the check of them may be."""

from __future__ import annotations

import pytest

from kmini.registry.formats.schema_format import InvalidSchema
from support.avro_schemas import field, read, record


def test_a_default_may_be_a_value_of_any_branch() -> None:
    assert read(record(field("id", ["null", "int"], default=3), field("f", "double", default=1)))


def test_a_default_that_many_records_may_take_at_each_level_is_refused() -> None:
    branches = ["null", "A", "B"]
    inner = {**record(field("next", branches)), "name": "B"}
    outer = {**record(field("next", ["null", "A", inner])), "name": "A"}
    default: object = 5
    for _ in range(18):
        default = {"next": default}
    with pytest.raises(InvalidSchema, match="steps"):
        read(record(field("a", outer), field("b", branches, default=default)))

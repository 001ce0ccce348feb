"""The content of a schema: its UUID, its metadata and its rules."""

from __future__ import annotations

import hashlib
import json
import uuid

import pytest

from kmini.registry.schema_content import (
    Reference,
    SchemaContent,
    has_version,
    merged_metadata,
    merged_rule_set,
    metadata_text,
    rule_set_text,
    with_version,
)


def test_the_uuid_is_the_md5_of_text_references_and_metadata() -> None:
    content = SchemaContent("AVRO", '"string"')
    assert content.guid == str(uuid.UUID(bytes=hashlib.md5(b'"string"').digest()))
    refers = SchemaContent("AVRO", "x", (Reference("n", "s", 258),))
    told = b"xns" + bytes([0, 0, 1, 2])
    assert refers.guid == str(uuid.UUID(bytes=hashlib.md5(told).digest()))


def test_the_uuid_covers_metadata_and_rules_in_the_registrys_order() -> None:
    metadata = {"properties": {"type": "1", "a": "2"}, "tags": {"t": ["y", "x"]}, "sensitive": ["a"]}
    rule = {"name": "n", "tags": ["q", "p"], "params": {"k": "v", "j": "u"}, "kind": "CONDITION", "disabled": True}
    whole = SchemaContent(
        "AVRO",
        "x",
        (),
        metadata_text(metadata),
        rule_set_text({"domainRules": [rule], "migrationRules": [{"doc": "d"}]}),
    )
    told = b"x" + b"\1txya2type1a" + b"\1d" + b"nCONDITIONpqjukv\1"
    assert whole.guid == str(uuid.UUID(bytes=hashlib.md5(told).digest()))


def test_metadata_are_one_text_whatever_their_order() -> None:
    one = metadata_text({"sensitive": ["b", "a", "a"], "properties": {"b": 1, "a": "x"}, "new": 1, "tags": {}})
    other = metadata_text({"properties": {"a": "x", "b": "1"}, "sensitive": ["a", "b"]})
    assert one == other == '{"properties":{"a":"x","b":"1"},"sensitive":["a","b"]}'
    assert metadata_text(None) == metadata_text({}) == metadata_text({"tags": None}) == ""


@pytest.mark.parametrize("wrong", ["x", 1, [], {"tags": 1}, {"tags": {"a": [1]}}, {"sensitive": "a"}])
def test_metadata_of_another_shape_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="metadata"):
        metadata_text(wrong)


def test_rules_are_in_the_registrys_order_without_what_is_unknown_or_empty() -> None:
    rule = {"expr": "true", "name": "n", "new": 1, "kind": "CONDITION", "doc": None, "params": {}}
    assert rule_set_text({"domainRules": [rule], "migrationRules": []}) == (
        '{"domainRules":[{"name":"n","kind":"CONDITION","expr":"true","disabled":false}]}'
    )


def test_a_newer_rule_takes_the_place_of_an_older_one_of_its_name() -> None:
    older = rule_set_text({"domainRules": [{"name": "a", "expr": "1"}, {"name": "b", "expr": "1"}]})
    newer = rule_set_text({"domainRules": [{"name": "b", "expr": "2"}], "migrationRules": [{"name": "c"}]})
    merged = json.loads(merged_rule_set(older, newer))
    assert [(rule["name"], rule["expr"]) for rule in merged["domainRules"]] == [("a", "1"), ("b", "2")]
    assert [rule["name"] for rule in merged["migrationRules"]] == ["c"]
    assert (merged_rule_set("", newer), merged_rule_set(older, "")) == (newer, older)


def test_newer_metadata_win() -> None:
    older = metadata_text({"properties": {"a": "1", "b": "1"}, "sensitive": ["a"]})
    newer = metadata_text({"properties": {"b": "2"}, "tags": {"t": ["x"]}})
    assert json.loads(merged_metadata(older, newer)) == {
        "tags": {"t": ["x"]},
        "properties": {"a": "1", "b": "2"},
        "sensitive": ["a"],
    }


def test_metadata_may_say_the_version() -> None:
    assert not has_version("")
    assert has_version(with_version(metadata_text({"properties": {"a": "1"}}), 3))

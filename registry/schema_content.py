"""What makes a schema a schema of its own: its type, its text, what it refers to, its metadata and its rules.

Two registrations with equal content get one id. Metadata and rules are kept as JSON texts, in Confluent's order of
properties, so that contents can be compared and hashed.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

AVRO = "AVRO"
"""The type of a schema that names none."""
PROTOBUF = "PROTOBUF"

METADATA = ("tags", "properties", "sensitive")
RULES = ("migrationRules", "domainRules", "encodingRules")
RULE = (
    "name", "doc", "kind", "mode", "type", "tags", "params", "expr", "onSuccess", "onFailure", "disabled",
)  # fmt: skip
"""Properties in the order in which Confluent's registry writes them."""

MARK = "\1"
"""Stands in a hash before metadata and before rules, and for a rule that is disabled."""

VERSION_PROPERTY = "confluent:version"
"""The property of metadata that a registration with an explicit version sets."""


class Reference(NamedTuple):
    """A reference from one schema to a version of another."""

    name: str
    """What the schema calls the other one."""
    subject: str
    version: int
    """-1 for the latest one, in a request only."""

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class SchemaContent(NamedTuple):
    """The content of a schema. Equal contents have one id, in all subjects."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    """A JSON text, or nothing."""
    rule_set: str = ""
    """A JSON text, or nothing."""

    @property
    def guid(self) -> str:
        """The UUID by which Confluent's registry also knows a schema: the MD5 of its content, without the type."""
        digest = hashlib.md5(self.text.encode(errors="surrogatepass"), usedforsecurity=False)
        for name, subject, version in self.references:
            digest.update(name.encode() + subject.encode() + (version & 0xFFFFFFFF).to_bytes(4, "big"))
        texts: list[str] = []
        if self.metadata:
            texts += MARK, *_hashed_members(json.loads(self.metadata), METADATA)
        if self.rule_set:
            texts += MARK, *_hashed_rules(json.loads(self.rule_set))
        digest.update("".join(texts).encode(errors="surrogatepass"))
        return str(uuid.UUID(bytes=digest.digest()))

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the metadata."""
        found: dict[str, str] = json.loads(self.metadata).get("properties", {}) if self.metadata else {}
        return found

    @property
    def rule_types(self) -> set[str]:
        """The types of the rules."""
        sets = json.loads(self.rule_set) if self.rule_set else {}
        return {str(rule.get("type")) for rules in sets.values() for rule in rules}

    def as_json(self) -> dict[str, Any]:
        """The properties of the schema in Confluent's order; those without a value are left out."""
        document: dict[str, Any] = {}
        if self.type != AVRO:
            document["schemaType"] = self.type
        if self.references:
            document["references"] = [reference.as_json() for reference in self.references]
        if self.metadata:
            document["metadata"] = json.loads(self.metadata)
        if self.rule_set:
            document["ruleSet"] = json.loads(self.rule_set)
        document["schema"] = self.text
        return document


def read_references(value: Any) -> tuple[Reference, ...]:
    """The references of a JSON document. Raises ValueError, which says what was expected."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError("references must be a list")
    found = []
    for one in value:
        name, subject, version = (
            (one.get("name"), one.get("subject"), one.get("version")) if isinstance(one, dict) else (None, None, None)
        )
        is_number = isinstance(version, int) and not isinstance(version, bool) and -1 <= version < 2**31
        if not (isinstance(name, str) and isinstance(subject, str) and is_number):
            raise ValueError("a reference must have a name, a subject and the number of a version")
        assert isinstance(version, int)
        found.append(Reference(name, subject, version))
    return tuple(found)


def metadata_text(value: Any) -> str:
    """The JSON text of metadata, empty for None; members that the registry does not know are left out. Raises
    ValueError."""
    if value is None:
        return ""
    if not isinstance(value, Mapping):
        raise ValueError("metadata must be an object")
    found: dict[str, Any] = {}
    for name in METADATA:
        given = value.get(name)
        if given is None:
            continue
        if name == "sensitive":
            found[name] = sorted(set(_strings(given, "metadata.sensitive")))
            continue
        if not isinstance(given, Mapping):
            raise ValueError(f"metadata.{name} must be an object")
        found[name] = {
            key: sorted(set(_strings(given[key], f"metadata.tags.{key}"))) if name == "tags" else _plain(given[key])
            for key in sorted(given)
        }
    return compact({name: part for name, part in found.items() if part})


def rule_set_text(value: Any) -> str:
    """The JSON text of a set of rules, empty for None; members that the registry does not know are left out. Raises
    ValueError."""
    if value is None:
        return ""
    if not isinstance(value, Mapping):
        raise ValueError("ruleSet must be an object")
    found: dict[str, Any] = {}
    for name in RULES:
        rules = value.get(name)
        if rules is None:
            continue
        if not (isinstance(rules, list) and all(isinstance(rule, Mapping) for rule in rules)):
            raise ValueError(f"ruleSet.{name} must be a list of objects")
        found[name] = [_rule(rule) for rule in rules]
    return compact({name: rules for name, rules in found.items() if rules})


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: rule.get(name) for name in RULE}
    known["disabled"] = bool(known["disabled"])
    if isinstance(known["tags"], list):
        known["tags"] = sorted(set(_strings(known["tags"], "the tags of a rule")))
    if isinstance(known["params"], Mapping):
        known["params"] = dict(sorted(known["params"].items()))
    return {name: value for name, value in known.items() if value not in (None, "", [], {})}


def merged_metadata(older: str, newer: str) -> str:
    """Metadata with what either has; the newer one wins."""
    one, other = (json.loads(text) if text else {} for text in (older, newer))
    if not (one and other):
        return newer or older
    merged: dict[str, Any] = {name: {**one.get(name, {}), **other.get(name, {})} for name in ("tags", "properties")}
    merged["sensitive"] = [*one.get("sensitive", ()), *other.get("sensitive", ())]
    return metadata_text(merged)


def merged_rule_set(older: str, newer: str) -> str:
    """Rules of either set; a newer rule takes the place of an older one of its name."""
    one, other = (json.loads(text) if text else {} for text in (older, newer))
    if not (one and other):
        return newer or older
    return rule_set_text(
        {
            name: [*{rule.get("name"): rule for rule in (*one.get(name, ()), *other.get(name, ()))}.values()]
            for name in RULES
        }
    )


def with_version(metadata: str, version: int) -> str:
    """Metadata that say which version the schema became."""
    return merged_metadata(metadata, compact({"properties": {VERSION_PROPERTY: str(version)}}))


def has_version(metadata: str) -> bool:
    """Whether metadata say which version the schema became."""
    return VERSION_PROPERTY in SchemaContent(AVRO, "", metadata=metadata).properties


def compact(document: Any) -> str:
    """A JSON text without spaces, in the order of the document; empty for an empty object."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) if document else ""


def _strings(value: Any, name: str) -> list[str]:
    if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        raise ValueError(f"{name} must be a list of texts")
    return value


def _plain(value: Any) -> str:
    """A value of a property, as a text."""
    if not isinstance(value, str | int | float | bool):
        raise ValueError("a property of metadata must be a text")
    return value if isinstance(value, str) else json.dumps(value)


def _hashed(value: Any) -> Iterator[str]:
    """The texts in a value, in their order, with the names of the members of objects."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield name
            yield from _hashed(one)
    elif isinstance(value, list):
        for one in value:
            yield from _hashed(one)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def _hashed_members(document: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    """The texts in some members of an object, without the names of these."""
    for name in names:
        yield from _hashed(document.get(name, []))


def _hashed_rules(rule_set: Mapping[str, Any]) -> Iterator[str]:
    """The texts in a set of rules; a rule that is disabled has a mark of its own."""
    for name in RULES:
        for rule in rule_set.get(name, ()):
            yield from _hashed_members(rule, RULE[:-1])
            if rule["disabled"]:
                yield MARK

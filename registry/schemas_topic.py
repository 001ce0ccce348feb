"""The records of the topic `_schemas`: keys and values, exactly as Confluent's registry writes them.

A key is JSON in a fixed order of properties, because compaction compares its bytes. A reader goes by meaning: Karapace
once wrote another order. Formats of Confluent's registry 7.4, recorded by others, are in the test.

    {"keytype":"SCHEMA","subject":S,"version":V,"magic":1}    a version of a subject; null deletes it for good
    {"keytype":"DELETE_SUBJECT","subject":S,"magic":0}        {"subject":S,"version":V}: versions to V are soft-deleted
    {"keytype":"CONFIG","subject":S,"magic":0}                the compatibility of a subject, or of all if S is null
    {"keytype":"MODE","subject":S,"magic":0}                  the mode of a subject, or of all if S is null
    {"keytype":"CLEAR_SUBJECT","subject":S,"magic":0}         {"subject":S}: soft-deleted versions are forgotten
    {"keytype":"NOOP","magic":0}                              nothing
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kmini.registry.schema_content import (
    AVRO,
    SchemaContent,
    metadata_text,
    read_references,
    rule_set_text,
)
from kmini.web.strict_json import write_json

TOPIC = "_schemas"
"""The name of the topic, which is Confluent's default."""

MAX_NUMBER = 2**31 - 1
"""The largest version and the largest id."""

WITHOUT_MEANING = ("NOOP", "CONTEXT", "ASSOC")
"""Key types that this registry reads over."""


class SchemaVersion(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    content: SchemaContent
    is_deleted: bool = False
    """Whether it was soft-deleted."""


class VersionStored(NamedTuple):
    """A version was registered, soft-deleted, or, with `stored` None, deleted for good."""

    subject: str
    version: int
    stored: SchemaVersion | None


class SubjectDeleted(NamedTuple):
    """All versions of a subject up to one are soft-deleted."""

    subject: str
    version: int


class ConfigSet(NamedTuple):
    """The settings of a subject; of all of them if that is None."""

    subject: str | None
    config: Mapping[str, Any] | None
    """By the registry's names, such as "compatibilityLevel"; None if they were deleted."""


class ModeSet(NamedTuple):
    """The mode of a subject; of all of them if that is None."""

    subject: str | None
    mode: str | None
    """None if it was deleted."""


class SubjectCleared(NamedTuple):
    """Soft-deleted versions of a subject are forgotten; of all of them if that is None."""

    subject: str | None


Change = VersionStored | SubjectDeleted | ConfigSet | ModeSet | SubjectCleared
"""What a record of the topic says."""


class NotOurs(ValueError):
    """A record that is none of a registry's. The message says why."""


def written(change: Change) -> tuple[bytes, bytes | None]:
    """The key and the value of the record that says it."""
    if isinstance(change, VersionStored):
        key = {"keytype": "SCHEMA", "subject": change.subject, "version": change.version, "magic": 1}
        return _bytes(key), None if change.stored is None else _bytes(_version_value(change.stored))
    kind, value = _other(change)
    return _bytes({"keytype": kind, "subject": change.subject, "magic": 0}), None if value is None else _bytes(value)


def _version_value(stored: SchemaVersion) -> dict[str, Any]:
    return {
        "subject": stored.subject,
        "version": stored.version,
        "id": stored.id,
        **stored.content.as_json(),
        "deleted": stored.is_deleted,
    }


def _other(change: Change) -> tuple[str, dict[str, Any] | None]:
    """The key type and the value of a change that is about no single version."""
    about = {} if change.subject is None else {"subject": change.subject}
    if isinstance(change, SubjectDeleted):
        return "DELETE_SUBJECT", {**about, "version": change.version}
    if isinstance(change, ConfigSet):
        return "CONFIG", None if change.config is None else {**about, **change.config}
    if isinstance(change, ModeSet):
        return "MODE", None if change.mode is None else {**about, "mode": change.mode}
    return "CLEAR_SUBJECT", about


def read(key: bytes | None, value: bytes | None) -> Change | None:
    """What a record says; None where it says nothing, such as a NOOP. Raises NotOurs."""
    about = _object(key, "key")
    kind = about.get("keytype")
    if kind in WITHOUT_MEANING:
        return None
    subject = about.get("subject")
    if subject is not None and not isinstance(subject, str):
        raise NotOurs("the subject of the key is no text")
    told = _object(value, "value") if value else None  # Karapace deletes with an empty value, too
    if kind == "CONFIG":
        return ConfigSet(subject, None if told is None else _config(told))
    if kind == "MODE":
        return ModeSet(subject, None if told is None else _text(told, "mode"))
    if kind == "CLEAR_SUBJECT":
        return None if told is None else SubjectCleared(subject)
    if kind not in ("SCHEMA", "DELETE_SUBJECT"):
        raise NotOurs(f"its keytype is {str(kind)[:40]!r}")
    if subject is None:
        raise NotOurs("the key has no subject")
    if kind == "DELETE_SUBJECT":
        return None if told is None else SubjectDeleted(subject, _number(told, "version", 0))
    version = _number(about, "version", 1)
    return VersionStored(subject, version, None if told is None else _version(subject, version, told))


def _version(subject: str, version: int, told: Mapping[str, Any]) -> SchemaVersion:
    kind = told.get("schemaType") or AVRO
    if not isinstance(kind, str):
        raise NotOurs("its schemaType is no text")
    try:
        content = SchemaContent(
            kind,
            _text(told, "schema"),
            read_references(told.get("references")),
            metadata_text(told.get("metadata")),
            rule_set_text(told.get("ruleSet")),
        )
    except ValueError as error:
        raise NotOurs(str(error)) from None
    return SchemaVersion(subject, version, _number(told, "id", 0), content, told.get("deleted") is True)


def _config(told: Mapping[str, Any]) -> dict[str, Any]:
    level = told.get("compatibilityLevel")
    if level is not None and not isinstance(level, str):
        raise NotOurs("its compatibilityLevel is no text")
    return {name: value for name, value in told.items() if name != "subject" and value is not None}


def _object(data: bytes | None, what: str) -> Mapping[str, Any]:
    if not data:
        raise NotOurs(f"it has no {what}")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise NotOurs(f"its {what} is no JSON") from None
    if not isinstance(found, dict):
        raise NotOurs(f"its {what} is no JSON object")
    return found


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str):
        raise NotOurs(f"its {name} is no text")
    return value


def _number(told: Mapping[str, Any], name: str, least: int) -> int:
    value = told.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_NUMBER:
        raise NotOurs(f"its {name} is no whole number from {least} on")
    return value


def _bytes(document: Mapping[str, Any]) -> bytes:
    return write_json(document, is_compact=True)

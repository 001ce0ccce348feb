"""What requests say: subjects, versions, flags of the query, schemas and settings of a body, all of it checked.

Fields of a body that this registry does not know are taken and left out, as new clients send new ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kmini.registry.compatibility import LEVELS
from kmini.registry.registered import LEVEL, MODES
from kmini.registry.registration import NO_ID, NO_VERSION, GivenSchema
from kmini.registry.registry import CONFIG_NAMES, LATEST
from kmini.registry.registry_errors import (
    INVALID_LEVEL,
    INVALID_MODE,
    INVALID_SUBJECT,
    INVALID_VERSION,
    NO_BODY,
    NO_CONTEXTS,
    UNREADABLE,
)
from kmini.registry.schema_content import AVRO, metadata_text, read_references, rule_set_text
from kmini.registry.schemas_topic import MAX_NUMBER
from kmini.web.strict_json import NotJson, read_json

DEFAULT_CONTEXT = ":.:"
"""What the name of a subject may begin with: the only context that there is."""

RESERVED = ("__GLOBAL", "__EMPTY")
"""Names by which Confluent's registry calls what is no subject."""

CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")

LEVEL_OF_REQUEST = "compatibility"
"""What a request calls the level."""

TEXTS = ("alias", "compatibilityGroup")
FLAGS = ("normalize", "validateFields")


def subject_of(text: str) -> str:
    """The subject that a path or a reference names. Raises RegistryError."""
    name = text.removeprefix(DEFAULT_CONTEXT)
    if name.startswith((":.", ":*:")):
        raise NO_CONTEXTS(subject=text)
    if CONTROL_CHARACTERS.search(name) or name in RESERVED:
        raise INVALID_SUBJECT(subject=text)
    return name


def prefix_of(text: str | None) -> str:
    """The prefix of subjects that a query asks for; empty for all. Raises RegistryError."""
    return "" if text is None else subject_of(text.removeprefix(":*:"))


def version_of(text: str) -> int:
    """The number of a version, -1 for the latest. Raises RegistryError."""
    if text in ("latest", "-1"):
        return LATEST
    number = _number(text)
    if number is None or number < 1:
        raise INVALID_VERSION(version=text)
    return number


def id_of(text: str) -> int | None:
    """The id of a schema; None for what can be none."""
    return _number(text)


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    number = int(text)
    return number if number <= MAX_NUMBER else None


def flag(query: Mapping[str, str], name: str) -> bool:
    """Whether a query says `name=true`."""
    return query.get(name, "").lower() == "true"


def page(query: Mapping[str, str]) -> slice:
    """The part of a list that `offset` and `limit` ask for; a negative limit is none. Raises RegistryError."""
    offset, limit = (_whole(query, name, default) for name, default in (("offset", 0), ("limit", -1)))
    begin = max(offset, 0)
    return slice(begin, begin + limit if limit >= 0 else None)


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not re.fullmatch(r"-?[0-9]{1,10}", text, re.ASCII):
        raise UNREADABLE(details=f"{name}={text[:40]}: a whole number was expected")
    return int(text)


def document_of(body: bytes) -> dict[str, Any]:
    """The JSON object of a body. Raises RegistryError."""
    if not body.strip():
        raise NO_BODY()
    try:
        document = read_json(body)
    except NotJson as error:
        raise UNREADABLE(details=f"the body is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise NO_BODY()
    return document


def schema_of(document: Mapping[str, Any]) -> GivenSchema:
    """The schema of a body. Raises RegistryError."""
    text, kind = document.get("schema"), document.get("schemaType")
    if not (text is None or isinstance(text, str)):
        raise UNREADABLE(details="schema: a text was expected; a schema in JSON is given as the text of that JSON")
    if not (kind is None or isinstance(kind, str)):
        raise UNREADABLE(details="schemaType: a text was expected")
    try:
        references = [
            reference._replace(subject=subject_of(reference.subject))
            for reference in read_references(document.get("references"))
        ]
        metadata, rule_set = metadata_text(document.get("metadata")), rule_set_text(document.get("ruleSet"))
    except ValueError as error:
        raise UNREADABLE(details=error) from None
    return GivenSchema(
        text or "",
        kind or AVRO,
        tuple(references),
        metadata,
        rule_set,
        _whole_of(document, "id", NO_ID),
        _whole_of(document, "version", NO_VERSION),
    )


def _whole_of(document: Mapping[str, Any], name: str, default: int) -> int:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= MAX_NUMBER:
        raise UNREADABLE(details=f"{name}: a whole number from -1 to {MAX_NUMBER} was expected")
    return value


def config_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a body changes, by their names in `_schemas`; None removes one. Raises RegistryError."""
    changed = {name: document[name] for name in CONFIG_NAMES if name in document and name != LEVEL}
    if LEVEL_OF_REQUEST in document:
        level = document[LEVEL_OF_REQUEST]
        if not (level is None or isinstance(level, str)) or (level and level.upper() not in LEVELS):
            raise INVALID_LEVEL()
        changed[LEVEL] = level.upper() if level else None
    for names, kind, expected in ((TEXTS, str, "a text"), (FLAGS, bool, "true or false")):
        for name in names:
            if not isinstance(changed.get(name), kind | None):
                raise UNREADABLE(details=f"{name}: {expected} was expected")
    try:
        for name in changed:
            if name.endswith("Metadata"):
                changed[name] = _object(metadata_text(changed[name]))
            elif name.endswith("RuleSet"):
                changed[name] = _object(rule_set_text(changed[name]))
    except ValueError as error:
        raise UNREADABLE(details=error) from None
    return changed


def _object(text: str) -> Any:
    return read_json(text) if text else None


def mode_of(document: Mapping[str, Any]) -> str:
    """The mode that a body sets. Raises RegistryError."""
    mode = document.get("mode")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise INVALID_MODE()
    return mode.upper()

"""Registering a schema, looking one up, and checking its compatibility.

One registration at a time reads the state, decides and appends; so two of the same schema give one id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kmini.registry.compatibility import LEVELS, NONE, incompatibilities
from kmini.registry.formats.schema_format import InvalidSchema, Schema
from kmini.registry.registered import IMPORT, LEVEL, READONLY, READONLY_OVERRIDE, READWRITE, Registered
from kmini.registry.registry_errors import (
    EMPTY_SCHEMA,
    ID_IS_TAKEN,
    INCOMPATIBLE,
    INVALID_SCHEMA,
    NOT_IMPORT,
    NOT_READ_WRITE,
    NOT_THE_NEXT_VERSION,
    READ_ONLY,
    STORE_FAILED,
)
from kmini.registry.schema_content import (
    AVRO,
    Reference,
    SchemaContent,
    has_version,
    merged_metadata,
    merged_rule_set,
    metadata_text,
    rule_set_text,
    with_version,
)
from kmini.registry.schema_log import SchemaLog
from kmini.registry.schema_reading import SchemaReader, latest_resolved
from kmini.registry.schemas_topic import Change, SchemaVersion, VersionStored

NO_ID = -1
NO_VERSION = 0
ADDED = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
"""The settings that add to what is registered."""

MOST_TRIES = 10
"""Times that a registration decides anew because another program has written to the topic meanwhile."""

RESOLVED = "resolved"
"""The spelling of an Avro schema that has in it what it refers to."""


class GivenSchema(NamedTuple):
    """A schema as a request gives it."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""
    id: int = NO_ID
    """The id that it shall have; only in mode IMPORT."""
    version: int = NO_VERSION
    """The version that it shall become; -1 for the next one, said explicitly."""


class Candidate(NamedTuple):
    """A schema that was read, with its content as it would be stored."""

    schema: Schema
    content: SchemaContent


class Registration:
    """Registers and looks up schemas."""

    def __init__(self, log: SchemaLog, reader: SchemaReader, writing: asyncio.Lock) -> None:
        """`writing` is held by what changes the registry."""
        self._log = log
        self._reader = reader
        self._writing = writing

    async def register(self, subject: str, given: GivenSchema, *, normalize: bool = False) -> SchemaVersion:
        """Register a schema under a subject, and return its version; the one that it has, if it is registered. Raises
        RegistryError."""
        state = await self._log.state()
        if given.version == NO_VERSION and not any(state.config_in_force(subject).get(name) for name in ADDED):
            known = await self._find(state, subject, given, normalize=normalize, deleted=False)
            if known is not None and given.id in (NO_ID, known.id):
                return known
        async with self._writing:
            for _ in range(MOST_TRIES):
                state = await self._log.state()
                position = self._log.position
                stored = await self._decided(state, subject, given, normalize=normalize)
                await self._log.state()
                if self._log.position == position:
                    if state.version(subject, stored.version) != stored:
                        await self._log.append(_changes(state, stored))
                    return stored
        raise STORE_FAILED(done="written", details="other programs write to it without a pause")

    async def look_up(
        self, subject: str, given: GivenSchema, *, normalize: bool = False, deleted: bool = False
    ) -> SchemaVersion | None:
        """The version of a subject that has a schema; with `deleted` also a soft-deleted one. Raises RegistryError."""
        return await self._find(await self._log.state(), subject, given, normalize=normalize, deleted=deleted)

    async def incompatibilities(
        self, subject: str, given: GivenSchema, versions: Sequence[SchemaVersion] | None, *, normalize: bool = False
    ) -> list[str]:
        """What makes a schema incompatible with versions of a subject, by default with those that its level counts.
        Raises RegistryError."""
        state = await self._log.state()
        if not given.text.strip():
            raise EMPTY_SCHEMA()
        candidate = await self._read(state, subject, given, normalize=normalize)
        earlier = state.versions(subject) if versions is None else versions
        return await self._incompatibilities(state, subject, candidate, earlier)

    # --- registering

    async def _decided(self, state: Registered, subject: str, given: GivenSchema, *, normalize: bool) -> SchemaVersion:
        """The version that a schema becomes, or is. Other turns of the loop may come in between. Raises
        RegistryError."""
        mode = _checked_mode(state, subject, given)
        next_version = state.next_version(subject)
        if mode != IMPORT:
            given = _populated(given, state.latest(subject), state.config_in_force(subject), next_version)
        if not given.text.strip():
            raise EMPTY_SCHEMA()
        candidate = await self._read(state, subject, given, normalize=normalize)
        schema_id = given.id
        same = state.with_content(candidate.content)
        if same and given.id in (NO_ID, same[0].id):
            schema_id = same[0].id
            here = [version for version in same if version.subject == subject and not version.is_deleted]
            if given.version == NO_VERSION and here:
                return here[-1]
        if mode != IMPORT:
            problems = await self._incompatibilities(state, subject, candidate, state.versions(subject))
            if problems:
                raise INCOMPATIBLE(subject=subject, details=", ".join(problems))
        if given.version > 0 and given.version != next_version and mode != IMPORT:
            raise NOT_THE_NEXT_VERSION(latest=next_version - 1)
        if any(one.content != candidate.content for one in state.with_id(schema_id)):
            raise ID_IS_TAKEN(id=schema_id)
        return SchemaVersion(
            subject,
            given.version if given.version > 0 else next_version,
            state.next_id() if schema_id == NO_ID else schema_id,
            candidate.content,
        )

    async def _incompatibilities(
        self, state: Registered, subject: str, candidate: Candidate, earlier: Sequence[SchemaVersion]
    ) -> list[str]:
        config = state.config_in_force(subject)
        group = config.get("compatibilityGroup")
        if group:
            value = candidate.content.properties.get(group)
            earlier = [one for one in earlier if one.content.properties.get(group) == value]
        level = str(config[LEVEL]).upper()
        read = partial(self._reader.read, registered=state)
        kind = candidate.content.type
        return await incompatibilities(level if level in LEVELS else NONE, kind, candidate.schema, earlier, read)

    # --- looking up

    async def _find(
        self, state: Registered, subject: str, given: GivenSchema, *, normalize: bool, deleted: bool
    ) -> SchemaVersion | None:
        """The version with a schema; or, where the request has no metadata or rules, with those of the latest one."""
        if not given.text.strip():
            return None
        candidate = await self._read(state, subject, given, normalize=normalize)
        found = await self._with_content(state, subject, candidate, deleted=deleted)
        if found is not None:
            return found
        populated = _with_metadata(given, state.latest(subject), state.config_in_force(subject))
        if populated == given:
            return None
        content = candidate.content._replace(metadata=populated.metadata, rule_set=populated.rule_set)
        return await self._with_content(state, subject, Candidate(candidate.schema, content), deleted=deleted)

    async def _with_content(
        self, state: Registered, subject: str, candidate: Candidate, *, deleted: bool
    ) -> SchemaVersion | None:
        """The last version with a content; or one that is the same with what it refers to written into it."""
        same = [
            one
            for one in state.with_content(candidate.content)
            if one.subject == subject and (deleted or not one.is_deleted)
        ]
        if same:
            return same[-1]
        if candidate.content.references or candidate.content.type != AVRO:
            return None
        for version in reversed(state.versions(subject, deleted=deleted)):
            if version.content.references and version.content.type == candidate.content.type:
                schema = await self._reader.read(version.content, state)
                if schema.formatted(RESOLVED) == candidate.schema.text:
                    return version
        return None

    async def _read(self, state: Registered, subject: str, given: GivenSchema, *, normalize: bool) -> Candidate:
        """A schema of a request, normalized if the request or the settings of the subject ask for that. Raises
        RegistryError."""
        try:
            references = latest_resolved(given.references, state)
        except InvalidSchema as error:
            raise INVALID_SCHEMA(type=given.type, details=error) from error
        content = SchemaContent(given.type, given.text, references, given.metadata, given.rule_set)
        schema = await self._reader.read(content, state)
        if normalize or state.config_in_force(subject).get("normalize") is True:
            schema = schema.normalized()
        return Candidate(schema, content._replace(text=schema.text))


def _checked_mode(state: Registered, subject: str, given: GivenSchema) -> str:
    """The mode of a subject, in which the registration is allowed. Raises RegistryError."""
    mode = state.mode_in_force(subject)
    if mode in (READONLY, READONLY_OVERRIDE):
        raise READ_ONLY(subject=subject)
    if given.id != NO_ID and mode != IMPORT:
        raise NOT_IMPORT(subject=subject)
    if given.id == NO_ID and mode != READWRITE:
        raise NOT_READ_WRITE(subject=subject)
    return mode


def _changes(state: Registered, stored: SchemaVersion) -> list[Change]:
    """The records of a new version. Soft-deleted versions of the subject with its id make room for it."""
    replaced = [
        VersionStored(one.subject, one.version, None)
        for one in state.versions(stored.subject, deleted=True)
        if one.is_deleted and one.id == stored.id and one.version < stored.version
    ]
    return [*replaced, VersionStored(stored.subject, stored.version, stored)]


def _populated(
    given: GivenSchema, latest: SchemaVersion | None, config: Mapping[str, Any], next_version: int
) -> GivenSchema:
    """What is registered for a request: a request without a text takes that of the latest version."""
    if not given.text.strip() and latest is not None:
        content = latest.content
        given = given._replace(text=content.text, type=content.type, references=content.references)
    given = _with_metadata(given, latest, config)
    if given.version != NO_VERSION or has_version(given.metadata):
        given = given._replace(metadata=with_version(given.metadata, next_version))
    return given


def _with_metadata(given: GivenSchema, latest: SchemaVersion | None, config: Mapping[str, Any]) -> GivenSchema:
    """A request with the metadata and rules of the latest version where it has none of its own, and with the defaults
    and overrides of the settings."""
    metadata = given.metadata or (latest.content.metadata if latest else "")
    rule_set = given.rule_set or (latest.content.rule_set if latest else "")
    for name in ("default", "override"):
        of_config = metadata_text(config.get(f"{name}Metadata")), rule_set_text(config.get(f"{name}RuleSet"))
        is_default = name == "default"
        metadata = merged_metadata(*(of_config[0], metadata) if is_default else (metadata, of_config[0]))
        rule_set = merged_rule_set(*(of_config[1], rule_set) if is_default else (rule_set, of_config[1]))
    return given._replace(metadata=metadata, rule_set=rule_set)

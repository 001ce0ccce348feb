"""The schema registry: what can be asked of it and done to it, apart from HTTP and from the formats of schemas.

Every method follows the log of `_schemas` first, so it answers what is in the log now. What changes something holds
`_writing`, and raises RegistryError without a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from kmini.registry.registered import (
    DEFAULT_LEVEL,
    IMPORT,
    LEVEL,
    READONLY,
    READONLY_OVERRIDE,
    READWRITE,
    Registered,
)
from kmini.registry.registration import Registration
from kmini.registry.registry_errors import (
    ALL_READ_ONLY,
    CANNOT_IMPORT,
    NO_SUBJECT_LEVEL,
    NO_SUBJECT_MODE,
    READ_ONLY,
    REFERENCE_EXISTS,
    SUBJECT_NOT_FOUND,
    SUBJECT_NOT_SOFT_DELETED,
    SUBJECT_SOFT_DELETED,
    VERSION_NOT_FOUND,
    VERSION_NOT_SOFT_DELETED,
    VERSION_SOFT_DELETED,
)
from kmini.registry.schema_log import Brokers, SchemaLog
from kmini.registry.schema_reading import SchemaReader
from kmini.registry.schemas_topic import (
    Change,
    ConfigSet,
    ModeSet,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionStored,
)

LATEST = -1
"""As the number of a version: the last one that is not soft-deleted."""


class Registry:
    """A registry in front of a broker, or of the brokers of a cluster. Belongs to their loop."""

    def __init__(self, brokers: Brokers, reader: SchemaReader | None = None) -> None:
        self._log = SchemaLog(brokers)
        self._writing = asyncio.Lock()
        self.reader = reader or SchemaReader()
        self.registration = Registration(self._log, self.reader, self._writing)

    async def state(self) -> Registered:
        """What is registered now. Raises RegistryError."""
        return await self._log.state()

    # --- versions

    async def version(self, subject: str, number: int, *, deleted: bool = False) -> SchemaVersion:
        """A version of a subject, soft-deleted ones only with `deleted`; -1 is the last that is not. Raises
        RegistryError."""
        return version_in(await self.state(), subject, number, deleted=deleted)

    async def delete_version(self, subject: str, number: int, *, permanent: bool) -> int:
        """Soft-delete a version, or with `permanent` delete a soft-deleted one; return its number. Raises
        RegistryError."""
        async with self._writing:
            state = await self.state()
            version = version_in(state, subject, number, deleted=True)
            if not permanent and version.is_deleted:
                raise VERSION_SOFT_DELETED(subject=subject, version=_told(number))
            _check_writable(state, subject)
            _check_not_referenced(state, version)
            if permanent and not version.is_deleted:
                raise VERSION_NOT_SOFT_DELETED(subject=subject, version=version.version)
            stored = None if permanent else version._replace(is_deleted=True)
            changes: list[Change] = [VersionStored(subject, version.version, stored)]
            if not permanent and len(state.versions(subject)) == 1:
                changes += _without_settings(state, subject)
            await self._log.append(changes)
            return version.version

    async def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Soft-delete all versions of a subject, or with `permanent` delete it when all are soft-deleted; return their
        numbers. Raises RegistryError."""
        async with self._writing:
            state = await self.state()
            if not state.has_subject(subject, deleted=True):
                raise SUBJECT_NOT_FOUND(subject=subject)
            if not permanent and not state.has_subject(subject):
                raise SUBJECT_SOFT_DELETED(subject=subject)
            _check_writable(state, subject)
            versions = state.versions(subject, deleted=permanent)
            for version in versions:
                _check_not_referenced(state, version)
                if permanent and not version.is_deleted:
                    raise SUBJECT_NOT_SOFT_DELETED(subject=subject)
            numbers = [version.version for version in versions]
            changes: list[Change]
            if permanent:
                changes = [VersionStored(subject, number, None) for number in numbers]
            else:
                changes = [SubjectDeleted(subject, numbers[-1]), *_without_settings(state, subject)]
            await self._log.append(changes)
            return numbers

    # --- settings

    async def config(self, subject: str | None, *, default_to_global: bool = False) -> Mapping[str, Any]:
        """The settings of a subject, or those of all. Raises RegistryError where a subject has none of its own, unless
        those of all are asked for instead."""
        state = await self.state()
        if default_to_global:
            return state.config_in_force(subject)
        config = state.config(subject)
        if config is None:
            if subject is not None:
                raise NO_SUBJECT_LEVEL(subject=subject)
            return {LEVEL: DEFAULT_LEVEL}
        return config

    async def set_config(self, subject: str | None, changed: Mapping[str, Any]) -> None:
        """Change settings of a subject, or of all; None removes one. Raises RegistryError."""
        async with self._writing:
            state = await self.state()
            _check_writable(state, subject)
            merged = {**(state.config(subject) or {}), **changed}
            config = {name: merged[name] for name in CONFIG_NAMES if merged.get(name) is not None}
            await self._log.append([ConfigSet(subject, config)])

    async def delete_config(self, subject: str | None) -> Mapping[str, Any]:
        """Remove the settings of a subject, or of all, and return them. Raises RegistryError."""
        async with self._writing:
            state = await self.state()
            config = state.config(subject)
            if config is None and subject is not None:
                raise SUBJECT_NOT_FOUND(subject=subject)
            _check_writable(state, subject)
            await self._log.append([ConfigSet(subject, None)])
            return {LEVEL: DEFAULT_LEVEL} if config is None else config

    async def mode(self, subject: str | None, *, default_to_global: bool = False) -> str:
        """The mode of a subject, or that of all. Raises RegistryError where a subject has none of its own, unless that
        of all is asked for instead."""
        state = await self.state()
        if default_to_global or subject is None:
            return state.mode_in_force(subject)
        mode = state.mode(subject)
        if mode is None:
            raise NO_SUBJECT_MODE(subject=subject)
        return mode

    async def set_mode(self, subject: str | None, mode: str, *, force: bool = False) -> None:
        """Set the mode of a subject, or of all. IMPORT needs that no schema is registered there, unless `force` says
        otherwise; soft-deleted ones are deleted. Raises RegistryError."""
        async with self._writing:
            state = await self.state()
            changes: list[Change] = []
            if mode == IMPORT and state.mode_in_force(subject) != IMPORT and not force:
                changes = _cleared(state, subject)
            await self._log.append([*changes, ModeSet(subject, mode)])

    async def delete_mode(self, subject: str | None) -> str:
        """Remove the mode of a subject, or of all, and return it. Raises RegistryError."""
        async with self._writing:
            state = await self.state()
            mode = state.mode(subject)
            if mode is None and subject is not None:
                raise SUBJECT_NOT_FOUND(subject=subject)
            await self._log.append([ModeSet(subject, None)])
            return mode or READWRITE


CONFIG_NAMES = (
    "alias",
    "normalize",
    "validateFields",
    LEVEL,
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
"""The settings in the order in which Confluent's registry writes them."""


def version_in(state: Registered, subject: str, number: int, *, deleted: bool) -> SchemaVersion:
    """A version of a subject; -1 is the last that is not soft-deleted. Raises RegistryError."""
    version = state.latest(subject) if number == LATEST else state.version(subject, number)
    if version is not None and (deleted or not version.is_deleted):
        return version
    if not state.has_subject(subject, deleted=deleted):
        raise SUBJECT_NOT_FOUND(subject=subject)
    raise VERSION_NOT_FOUND(version=number)


def _told(number: int) -> int | str:
    return "latest" if number == LATEST else number


def _check_writable(state: Registered, subject: str | None) -> None:
    if state.mode_in_force(subject) in (READONLY, READONLY_OVERRIDE):
        raise ALL_READ_ONLY() if subject is None else READ_ONLY(subject=subject)


def _check_not_referenced(state: Registered, version: SchemaVersion) -> None:
    if state.referrers(version.subject, version.version):
        raise REFERENCE_EXISTS(subject=version.subject, version=version.version)


def _without_settings(state: Registered, subject: str) -> list[Change]:
    """The records that remove the mode and the settings of a subject that has no version left."""
    changes: list[Change] = []
    if state.mode(subject) is not None:
        changes.append(ModeSet(subject, None))
    if state.config(subject) is not None:
        changes.append(ConfigSet(subject, None))
    return changes


def _cleared(state: Registered, subject: str | None) -> list[Change]:
    """The records that delete what is soft-deleted in a subject, or in all, before an import. Raises RegistryError."""
    names = state.subjects(deleted=True) if subject is None else [subject]
    versions = [version for name in names for version in state.versions(name, deleted=True)]
    if any(not version.is_deleted for version in versions):
        raise CANNOT_IMPORT()
    for version in versions:
        _check_not_referenced(state, version)
    return [*(VersionStored(one.subject, one.version, None) for one in versions), SubjectCleared(subject)]

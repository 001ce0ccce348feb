"""What is registered: subjects, versions, ids, levels and modes, as a fold over the records of `_schemas`.

The same records give the same state, so nothing else is stored. A record that cannot be true, such as a second schema
for an id, is left out and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kmini.registry.schema_content import Reference, SchemaContent
from kmini.registry.schemas_topic import (
    Change,
    ConfigSet,
    ModeSet,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionStored,
)

log = logging.getLogger("kmini.registry")

DEFAULT_LEVEL = "BACKWARD"
READWRITE = "READWRITE"
READONLY = "READONLY"
READONLY_OVERRIDE = "READONLY_OVERRIDE"
IMPORT = "IMPORT"
MODES = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT)

LEVEL = "compatibilityLevel"
"""The name of the level among the settings of a subject."""

OF_ONE_SUBJECT = ("alias",)
"""Settings that a subject does not take from those of all."""

Place = tuple[str, int]
"""A subject and the number of a version."""


class Registered:
    """The state of the registry. Only `fold` changes it."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, SchemaVersion]] = {}
        self._places_of_id: dict[int, dict[Place, None]] = {}
        """In the order of registration."""
        self._places_of_content: dict[SchemaContent, dict[Place, None]] = {}
        self._referrers: dict[Place, dict[Place, None]] = {}
        """The versions that refer to one, soft-deleted ones left out."""
        self._guids: dict[str, SchemaContent] = {}
        self._configs: dict[str | None, Mapping[str, Any]] = {}
        self._modes: dict[str | None, str] = {}
        self.max_id = 0
        """The largest id that a record had, deleted ones included: a new schema gets a larger one."""

    # --- versions

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """The subjects with a version, sorted; with `deleted` those of which all versions are soft-deleted, too."""
        return sorted(name for name in self._subjects if deleted or self.has_subject(name))

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        """Whether a subject has a version; with `deleted`, a soft-deleted one counts."""
        return any(deleted or not one.is_deleted for one in self._subjects.get(subject, {}).values())

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions of a subject by number; with `deleted` the soft-deleted ones, too."""
        found = sorted(self._subjects.get(subject, {}).items())
        return [version for _, version in found if deleted or not version.is_deleted]

    def version(self, subject: str, number: int) -> SchemaVersion | None:
        """A version, soft-deleted or not."""
        return self._subjects.get(subject, {}).get(number)

    def latest(self, subject: str) -> SchemaVersion | None:
        """The last version that is not soft-deleted."""
        return next(reversed(self.versions(subject)), None)

    def next_version(self, subject: str) -> int:
        """The number of the next version: one more than any that is stored."""
        return max(self._subjects.get(subject, {}), default=0) + 1

    # --- schemas

    def with_id(self, schema_id: int) -> list[SchemaVersion]:
        """All versions with an id, soft-deleted ones included, the first that was registered first."""
        return [*self._at(self._places_of_id.get(schema_id, ()))]

    def with_content(self, content: SchemaContent) -> list[SchemaVersion]:
        """All versions with a content, as `with_id` gives them."""
        return [*self._at(self._places_of_content.get(content, ()))]

    def with_guid(self, guid: str) -> list[SchemaVersion]:
        """All versions with a content, by its UUID in small letters."""
        content = self._guids.get(guid)
        return [] if content is None else self.with_content(content)

    def next_id(self) -> int:
        """The id of a new schema."""
        return self.max_id + 1

    def referrers(self, subject: str, version: int) -> list[SchemaVersion]:
        """The versions that refer to one; soft-deleted ones do not count."""
        return [*self._at(self._referrers.get((subject, version), ()))]

    def _at(self, places: Iterable[Place]) -> Iterator[SchemaVersion]:
        return (self._subjects[subject][version] for subject, version in places)

    # --- settings

    def config(self, subject: str | None) -> Mapping[str, Any] | None:
        """The settings of a subject itself, or those of all; None if there are none."""
        return self._configs.get(subject)

    def config_in_force(self, subject: str | None) -> Mapping[str, Any]:
        """The settings that hold for a subject: its own, then those of all, then the defaults."""
        of_all = self._configs.get(None, {})
        inherited = {name: value for name, value in of_all.items() if name not in OF_ONE_SUBJECT}
        own = self._configs.get(subject, {}) if subject is not None else {}
        return {LEVEL: DEFAULT_LEVEL, **inherited, **own}

    def mode(self, subject: str | None) -> str | None:
        """The mode of a subject itself, or that of all; None if there is none. READONLY_OVERRIDE for all is that of
        every subject."""
        of_all = self._modes.get(None)
        return of_all if of_all == READONLY_OVERRIDE else self._modes.get(subject)

    def mode_in_force(self, subject: str | None) -> str:
        """The mode that holds for a subject."""
        return self.mode(subject) or self._modes.get(None) or READWRITE

    # --- records

    def fold(self, change: Change) -> None:
        """Take in what a record says."""
        if isinstance(change, VersionStored):
            self._store(change)
        elif isinstance(change, SubjectDeleted):
            for version in self.versions(change.subject):
                if version.version <= change.version:
                    self._put(version._replace(is_deleted=True))
        elif isinstance(change, ConfigSet):
            _set(self._configs, change.subject, change.config)
        elif isinstance(change, ModeSet):
            _set(self._modes, change.subject, change.mode)
        else:
            self._clear(change)

    def _store(self, change: VersionStored) -> None:
        stored = change.stored
        if stored is None:
            self._remove(change.subject, change.version)
            return
        known = next((one for one in self.with_id(stored.id) if one.content.text != stored.content.text), None)
        if known is not None:
            log.warning(
                "a record of _schemas gives version %d of %.100r the id %d of another schema; it is left out",
                stored.version,
                stored.subject,
                stored.id,
            )
            return
        self._put(stored)

    def _clear(self, change: SubjectCleared) -> None:
        names = [*self._subjects] if change.subject is None else [change.subject]
        for name in names:
            for version in self.versions(name, deleted=True):
                if version.is_deleted:
                    self._remove(name, version.version)

    def _put(self, version: SchemaVersion) -> None:
        before = self.version(version.subject, version.version)
        place = (version.subject, version.version)
        if before is not None and (before.id, before.content) != (version.id, version.content):
            self._remove(*place)
            before = None
        self._subjects.setdefault(version.subject, {})[version.version] = version
        self.max_id = max(self.max_id, version.id)
        if before is None:
            self._places_of_id.setdefault(version.id, {})[place] = None
            self._places_of_content.setdefault(version.content, {})[place] = None
            self._guids.setdefault(version.content.guid, version.content)
        for reference in version.content.references:
            if version.is_deleted:
                _discard(self._referrers, _place_of(reference), place)
            else:
                self._referrers.setdefault(_place_of(reference), {})[place] = None

    def _remove(self, subject: str, number: int) -> None:
        version = self._subjects.get(subject, {}).pop(number, None)
        if version is None:
            return
        if not self._subjects[subject]:
            del self._subjects[subject]
        place = (subject, number)
        _discard(self._places_of_id, version.id, place)
        _discard(self._places_of_content, version.content, place)
        if version.content not in self._places_of_content and self._guids.get(version.content.guid) == version.content:
            del self._guids[version.content.guid]
        for reference in version.content.references:
            _discard(self._referrers, _place_of(reference), place)


def _place_of(reference: Reference) -> Place:
    return (reference.subject, reference.version)


def _set(values: dict[Any, Any], key: object, value: object) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _discard(places: dict[Any, dict[Place, None]], key: object, place: Place) -> None:
    found = places.get(key)
    if found is not None:
        found.pop(place, None)
        if not found:
            del places[key]

"""The subjects of the schema registry beside the broker, as the page shows them. Clients use the registry's own port.

The registry (extra "registry") is imported by what serves it; this module needs it only once it is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from kmini.protocol.errors import ResourceNotFound

if TYPE_CHECKING:
    from kmini.control.control_operations import Served
    from kmini.registry.registration import GivenSchema
    from kmini.registry.registry import Registry
    from kmini.registry.schemas_topic import SchemaVersion


class SubjectRow(NamedTuple):
    """A subject in a table."""

    subject: str
    version_count: int
    """Versions that are not deleted."""
    version: int
    """The last one."""
    id: int
    """Of its schema."""
    type: str
    """AVRO, JSON or PROTOBUF."""
    compatibility: str
    """The level in force, that of the subject or of all."""


class SubjectVersion(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    type: str
    schema: str
    references: tuple[str, ...]
    """"name: subject, version" of each."""


class CompatibilityCheck(NamedTuple):
    """Whether a schema might be registered."""

    is_compatible: bool
    messages: tuple[str, ...]
    """What makes it incompatible, in the registry's words."""


class SubjectControl:
    """The subjects of the registry. Raises RuntimeError where none is served, ResourceNotFound for what is not
    registered, and ValueError for a schema that the registry refuses."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def subjects(self) -> list[SubjectRow]:
        """The subjects that have a version, by name; none where no registry is served."""
        if self._served.registry is None:
            return []
        state = await self._served.registry.state()
        from kmini.registry.registered import DEFAULT_LEVEL, LEVEL

        rows = []
        for name in state.subjects(deleted=False):
            versions = state.versions(name)
            last = versions[-1]
            level = str(state.config_in_force(name).get(LEVEL, DEFAULT_LEVEL))
            rows.append(SubjectRow(name, len(versions), last.version, last.id, last.content.type, level))
        return rows

    async def versions(self, subject: str) -> list[SubjectVersion]:
        """The versions of a subject, the first one first."""
        versions = (await self._registry().state()).versions(subject)
        if not versions:
            raise ResourceNotFound(f"there is no subject {subject!r}")
        return [_shown(version) for version in versions]

    async def check(self, subject: str, schema: str, *, type: str = "AVRO") -> CompatibilityCheck:
        """Whether a schema might be registered under a subject, which need not exist. Registers nothing."""
        with _refusals():
            messages = await self._registry().registration.incompatibilities(subject, _given(schema, type), None)
        return CompatibilityCheck(not messages, tuple(messages))

    async def register(self, subject: str, schema: str, *, type: str = "AVRO") -> SubjectVersion:
        """Register a schema under a subject, and return its version; the one that it has, if it is registered."""
        with _refusals():
            return _shown(await self._registry().registration.register(subject, _given(schema, type)))

    def _registry(self) -> Registry:
        registry = self._served.registry
        if registry is None:
            raise RuntimeError("no schema registry is served here: kmini serve --registry 8081 serves one")
        return registry


def _shown(version: SchemaVersion) -> SubjectVersion:
    content = version.content
    references = tuple(f"{one.name}: {one.subject}, version {one.version}" for one in content.references)
    return SubjectVersion(version.subject, version.version, version.id, content.type, content.text, references)


def _given(schema: str, type: str) -> GivenSchema:
    from kmini.registry.registry_requests import schema_of

    return schema_of({"schema": schema, "schemaType": type})


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise what the registry refuses as the API does."""
    from kmini.registry.registry_errors import RegistryError

    try:
        yield
    except RegistryError as error:
        kind = ResourceNotFound if error.status is HTTPStatus.NOT_FOUND else ValueError
        raise kind(error.message) from None

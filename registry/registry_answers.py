"""What the registry answers: the method of each route, from what a request says to a JSON document.

`registry_server.py` has the paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version as release_of
from typing import Any, NamedTuple

from kmini.broker.scheduler import Turn
from kmini.registry.registered import LEVEL, Registered
from kmini.registry.registry import LATEST, Registry, version_in
from kmini.registry.registry_errors import (
    NO_ASSOCIATIONS,
    SCHEMA_NOT_FOUND,
    SCHEMA_OF_ID_NOT_FOUND,
    SUBJECT_NOT_FOUND,
)
from kmini.registry.registry_requests import (
    LEVEL_OF_REQUEST,
    config_of,
    document_of,
    flag,
    id_of,
    mode_of,
    page,
    prefix_of,
    schema_of,
    subject_of,
    version_of,
)
from kmini.registry.schema_content import PROTOBUF, SchemaContent
from kmini.registry.schema_log import Brokers
from kmini.registry.schemas_topic import SchemaVersion


class RegistryRequest(NamedTuple):
    """A request, as far as the registry is concerned."""

    path: Mapping[str, str]
    """The names in the path, decoded."""
    query: Mapping[str, str]
    """The first value of each name."""
    keys: Sequence[str]
    values: Sequence[str]
    """All values of the names "key" and "value" of the query."""
    body: bytes

    @property
    def subject(self) -> str:
        """The subject of the path. Raises RegistryError."""
        return subject_of(self.path["subject"])

    @property
    def subject_or_none(self) -> str | None:
        """The subject of the path; None where it has none, or names the default context. Raises RegistryError."""
        return self.subject or None if "subject" in self.path else None

    def flag(self, name: str) -> bool:
        """Whether the query says `name=true`."""
        return flag(self.query, name)


class RawText(str):
    """An answer that is the text itself, and no JSON of it."""


class RegistryAnswers:
    """Answers requests. Every method raises RegistryError."""

    def __init__(self, registry: Registry, brokers: Brokers) -> None:
        self._registry = registry
        self._brokers = brokers

    # --- subjects and their versions

    async def subjects(self, request: RegistryRequest) -> list[str]:
        state = await self._registry.state()
        prefix = prefix_of(request.query.get("subjectPrefix"))
        only_deleted = request.flag("deletedOnly")
        names = state.subjects(deleted=request.flag("deleted") or only_deleted)
        found = (name for name in names if not only_deleted or not state.has_subject(name))
        return [name for name in found if name.startswith(prefix)][page(request.query)]

    async def look_up(self, request: RegistryRequest) -> dict[str, Any]:
        subject, deleted = request.subject, request.flag("deleted")
        given = schema_of(document_of(request.body))
        found = await self._registry.registration.look_up(
            subject, given, normalize=request.flag("normalize"), deleted=deleted
        )
        if found is None:
            if not (await self._registry.state()).has_subject(subject, deleted=deleted):
                raise SUBJECT_NOT_FOUND(subject=subject)
            raise SCHEMA_NOT_FOUND()
        return await self._version_document(found, request)

    async def delete_subject(self, request: RegistryRequest) -> list[int]:
        return await self._registry.delete_subject(request.subject, permanent=request.flag("permanent"))

    async def latest_with_metadata(self, request: RegistryRequest) -> dict[str, Any]:
        subject, deleted = request.subject, request.flag("deleted")
        wanted = dict(zip(request.keys, request.values, strict=False))
        state = await self._registry.state()
        for version in reversed(state.versions(subject, deleted=deleted)):
            if version.content.metadata and wanted.items() <= version.content.properties.items():
                return await self._version_document(version, request)
        if not state.has_subject(subject, deleted=deleted):
            raise SUBJECT_NOT_FOUND(subject=subject)
        raise SCHEMA_NOT_FOUND()

    async def versions(self, request: RegistryRequest) -> list[int]:
        subject, only_deleted = request.subject, request.flag("deletedOnly")
        deleted = request.flag("deleted") or only_deleted
        state = await self._registry.state()
        if not state.has_subject(subject, deleted=deleted):
            raise SUBJECT_NOT_FOUND(subject=subject)
        found = state.versions(subject, deleted=deleted)
        return [one.version for one in found if one.is_deleted or not only_deleted][page(request.query)]

    async def register(self, request: RegistryRequest) -> dict[str, Any]:
        subject, given = request.subject, schema_of(document_of(request.body))
        stored = await self._registry.registration.register(subject, given, normalize=request.flag("normalize"))
        # Clients keep the schema of this answer in place of theirs. confluent-kafka-python sends Protobuf as a
        # serialized descriptor, and takes no text in its place.
        is_spelt_anew = stored.content.type == PROTOBUF and stored.content.text != given.text
        echoed = {} if is_spelt_anew else stored.content.as_json()
        return {"id": stored.id, "version": stored.version, "guid": stored.content.guid, **echoed}

    async def one_version(self, request: RegistryRequest) -> dict[str, Any]:
        return await self._version_document(await self._version(request), request)

    async def version_text(self, request: RegistryRequest) -> RawText:
        return RawText(await self._text((await self._version(request)).content, request))

    async def delete_version(self, request: RegistryRequest) -> int:
        number = version_of(request.path["version"])
        return await self._registry.delete_version(request.subject, number, permanent=request.flag("permanent"))

    async def referenced_by(self, request: RegistryRequest) -> list[int]:
        state = await self._registry.state()
        version = version_in(state, request.subject, version_of(request.path["version"]), deleted=True)
        ids = {one.id for one in state.referrers(version.subject, version.version)}
        return sorted(ids)[page(request.query)]

    async def _version(self, request: RegistryRequest) -> SchemaVersion:
        number = version_of(request.path["version"])
        return await self._registry.version(request.subject, number, deleted=request.flag("deleted"))

    # --- schemas

    async def schemas(self, request: RegistryRequest) -> list[dict[str, Any]]:
        state = await self._registry.state()
        prefix, deleted = prefix_of(request.query.get("subjectPrefix")), request.flag("deleted")
        found: list[SchemaVersion] = []
        for name in state.subjects(deleted=deleted):
            if name.startswith(prefix):
                versions = state.versions(name, deleted=deleted)
                found += versions[-1:] if request.flag("latestOnly") else versions
        rule_type = request.query.get("ruleType")
        if rule_type:
            found = [version for version in found if rule_type in version.content.rule_types]
        turn, documents = Turn(), []
        for version in found[page(request.query)]:
            documents.append(_document(version))
            if turn.is_over:
                await turn.next()
        return documents

    async def types(self, request: RegistryRequest) -> list[str]:
        return [*self._registry.reader.names]

    async def schema(self, request: RegistryRequest) -> dict[str, Any]:
        state, versions = await self._with_id(request)
        if not versions:
            raise SCHEMA_OF_ID_NOT_FOUND(id=request.path["id"])
        return await self._schema_document(state, versions, request)

    async def schema_text(self, request: RegistryRequest) -> RawText:
        _, versions = await self._with_id(request)
        if not versions:
            raise SCHEMA_OF_ID_NOT_FOUND(id=request.path["id"])
        return RawText(await self._text(versions[0].content, request))

    async def subjects_of_schema(self, request: RegistryRequest) -> list[str]:
        versions = await self._shown_with_id(request)
        return [*dict.fromkeys(version.subject for version in versions)][page(request.query)]

    async def versions_of_schema(self, request: RegistryRequest) -> list[dict[str, Any]]:
        versions = await self._shown_with_id(request)
        return [{"subject": one.subject, "version": one.version} for one in versions[page(request.query)]]

    async def schema_with_guid(self, request: RegistryRequest) -> dict[str, Any]:
        state, versions = await self._with_guid(request)
        return await self._schema_document(state, versions, request)

    async def ids_with_guid(self, request: RegistryRequest) -> list[dict[str, Any]]:
        _, versions = await self._with_guid(request)
        return [{"context": ".", "id": number} for number in dict.fromkeys(version.id for version in versions)]

    async def _with_id(self, request: RegistryRequest) -> tuple[Registered, list[SchemaVersion]]:
        """The versions with the id of the path; those of the subject that the query names first."""
        state, number = await self._registry.state(), id_of(request.path["id"])
        found = [] if number is None else state.with_id(number)
        subject = request.query.get("subject")
        if subject:
            name = subject_of(subject)
            found.sort(key=lambda version: version.subject != name)
        return state, found

    async def _shown_with_id(self, request: RegistryRequest) -> list[SchemaVersion]:
        _, versions = await self._with_id(request)
        if not versions:
            raise SCHEMA_NOT_FOUND()
        return [version for version in versions if request.flag("deleted") or not version.is_deleted]

    async def _with_guid(self, request: RegistryRequest) -> tuple[Registered, list[SchemaVersion]]:
        state, guid = await self._registry.state(), request.path["guid"]
        versions = state.with_guid(guid.lower())
        if not versions:
            raise SCHEMA_OF_ID_NOT_FOUND(id=guid)
        return state, versions

    # --- compatibility, settings, modes

    async def compatibility(self, request: RegistryRequest) -> dict[str, Any]:
        subject, given = request.subject, schema_of(document_of(request.body))
        versions: list[SchemaVersion] | None = None
        if "version" in request.path:
            number = version_of(request.path["version"])
            latest = (await self._registry.state()).latest(subject)
            is_first = number == LATEST and latest is None
            versions = [] if is_first else [await self._registry.version(subject, number)]
        found = await self._registry.registration.incompatibilities(
            subject, given, versions, normalize=request.flag("normalize")
        )
        document: dict[str, Any] = {"is_compatible": not found}
        return {**document, "messages": found} if request.flag("verbose") else document

    async def config(self, request: RegistryRequest) -> Mapping[str, Any]:
        subject = request.subject_or_none
        return await self._registry.config(subject, default_to_global=request.flag("defaultToGlobal"))

    async def set_config(self, request: RegistryRequest) -> dict[str, Any]:
        changed = config_of(document_of(request.body))
        await self._registry.set_config(request.subject_or_none, changed)
        return {
            LEVEL_OF_REQUEST if name == LEVEL else name: value for name, value in changed.items() if value is not None
        }

    async def delete_config(self, request: RegistryRequest) -> Mapping[str, Any]:
        return await self._registry.delete_config(request.subject_or_none)

    async def mode(self, request: RegistryRequest) -> dict[str, str]:
        subject = request.subject_or_none
        return {"mode": await self._registry.mode(subject, default_to_global=request.flag("defaultToGlobal"))}

    async def set_mode(self, request: RegistryRequest) -> dict[str, str]:
        mode = mode_of(document_of(request.body))
        await self._registry.set_mode(request.subject_or_none, mode, force=request.flag("force"))
        return {"mode": mode}

    async def delete_mode(self, request: RegistryRequest) -> dict[str, str]:
        return {"mode": await self._registry.delete_mode(request.subject_or_none)}

    # --- what there is one of

    async def root(self, request: RegistryRequest) -> dict[str, Any]:
        return {}

    async def contexts(self, request: RegistryRequest) -> list[str]:
        return ["."]

    async def associations(self, request: RegistryRequest) -> list[Any]:
        return []

    async def refuse_association(self, request: RegistryRequest) -> None:
        raise NO_ASSOCIATIONS()

    async def cluster(self, request: RegistryRequest) -> dict[str, Any]:
        cluster_id = next((broker.controller.cluster_id for broker in self._brokers()), "")
        clusters = {"kafka-cluster": cluster_id, "schema-registry-cluster": "schema-registry"}
        return {"scope": {"path": [], "clusters": clusters}, "id": ""}

    async def release(self, request: RegistryRequest) -> dict[str, str]:
        return {"version": f"kmini {release_of('kmini')}", "commitId": ""}

    # --- documents

    async def _text(self, content: SchemaContent, request: RegistryRequest) -> str:
        """The text of a schema, in the spelling that `format` of the query asks for."""
        spelling = request.query.get("format", "").strip()
        if not spelling:
            return content.text
        schema = await self._registry.reader.read(content, await self._registry.state())
        return schema.formatted(spelling)

    async def _version_document(self, version: SchemaVersion, request: RegistryRequest) -> dict[str, Any]:
        return {**_document(version), "schema": await self._text(version.content, request)}

    async def _schema_document(
        self, state: Registered, versions: Sequence[SchemaVersion], request: RegistryRequest
    ) -> dict[str, Any]:
        content = versions[0].content
        document = {"guid": content.guid, **content.as_json(), "schema": await self._text(content, request)}
        return {**document, "maxId": state.max_id} if request.flag("fetchMaxId") else document


def _document(version: SchemaVersion) -> dict[str, Any]:
    document = {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "guid": version.content.guid,
        **version.content.as_json(),
    }
    return {**document, "deleted": True} if version.is_deleted else document

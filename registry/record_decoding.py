"""Decodes keys and values of records by the schemas that their serializers registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kmini.broker.scheduler import in_thread
from kmini.registry.formats.values import MOST_BYTES, Undecodable, decoded
from kmini.registry.registered import Registered
from kmini.registry.registry_errors import RegistryError
from kmini.registry.schema_log import Brokers, SchemaLog
from kmini.registry.schema_reading import SchemaReader
from kmini.registry.schemas_topic import SchemaVersion
from kmini.registry.wire_format import SchemaMark, Which, message_place, schema_mark

LONG_BYTES: Final = 4 * 1024
"""Bytes of a key or a value from which on a thread decodes them."""


class DecodedData(NamedTuple):
    """A key or a value that was decoded."""

    schema: SchemaVersion
    """The version of the topic's subject, where several subjects have the schema."""
    json: Any


class RecordDecoding:
    """Decodes records by the registry in front of which a process stands. Belongs to the loop of the brokers."""

    def __init__(self, brokers: Brokers, reader: SchemaReader | None = None) -> None:
        self._log = SchemaLog(brokers)
        self._reader = reader or SchemaReader()

    async def decoded(
        self, topic: str, which: Which, data: bytes, headers: Sequence[tuple[str, bytes | None]]
    ) -> DecodedData | None:
        """The key or the value of a record of a topic; None where it names no schema. Raises Undecodable."""
        mark = schema_mark(which, data, headers)
        if mark is None:
            return None
        if len(data) > MOST_BYTES:
            raise Undecodable(f"The {which} has {len(data):,} bytes, and at most {MOST_BYTES:,} are decoded.")
        try:
            state = await self._log.state()
            version = _version(state, mark, f"{topic}-{which}")
            schema = await self._reader.read(version.content, state)
        except RegistryError as error:
            raise Undecodable(f"The registry failed: {error.message}.") from None
        except ImportError:
            raise Undecodable("Decoding needs the extra 'registry', which is not installed.") from None
        place, payload = _place(mark) if version.content.type == "PROTOBUF" else ([], mark.data)
        if len(payload) < LONG_BYTES:
            return DecodedData(version, decoded(schema, payload, place))
        return DecodedData(version, await in_thread(decoded, schema, payload, place))


def _version(state: Registered, mark: SchemaMark, subject: str) -> SchemaVersion:
    """The version that the data name, of that subject if it has the schema. Raises Undecodable."""
    found = state.with_guid(mark.guid) if mark.guid else state.with_id(mark.id)
    if not found:
        named = f"the GUID {mark.guid}" if mark.guid else f"the id {mark.id}"
        raise Undecodable(f"The registry of this broker has no schema with {named}.")
    return min(found, key=lambda version: (version.subject != subject, version.is_deleted))


def _place(mark: SchemaMark) -> tuple[list[int], bytes]:
    """The place of a Protobuf message, and its bytes. Raises Undecodable."""
    try:
        place, length = message_place(mark.place)
    except ValueError as problem:
        raise Undecodable(f"The data do not say which message they are: {problem}.") from None
    return place, mark.data if mark.is_in_header else mark.data[length:]

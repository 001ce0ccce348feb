"""`?decode=schema`: keys and values of records in answers, decoded by the schema registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kmini.broker.scheduler import Turn
from kmini.web.json_data import data_to_json

if TYPE_CHECKING:
    from kmini.control.control_operations import Served
    from kmini.registry.record_decoding import DecodedData, RecordDecoding
    from kmini.registry.wire_format import Which


class SchemaDecoding:
    """Decodes the records of answers by the registry of the brokers that are served."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._decoding: RecordDecoding | None = None
        """Made when the first answer needs it: its modules take time and memory."""

    async def writer(self, result: Any, topic: str) -> Callable[[bytes | None], Any]:
        """What writes the keys and values of a result. `topic` is that of records that do not name theirs.

        What names a schema is {"schema": {"subject", "version", "id", "type"}, "json": ...}, or {"hex": ...,
        "problem": ...} where it cannot be decoded; other data are as without decoding.
        """
        written: dict[int, Any] = {}
        turn = Turn()
        for record in _records_in(result):
            parts: tuple[tuple[Which, bytes | None], ...] = (("key", record.key), ("value", record.value))
            for which, data in parts:
                if data:
                    found = await self._written(record, getattr(record, "topic", topic), which, data)
                    if found is not None:
                        written[id(data)] = found
            if turn.is_over:
                await turn.next()
        # The result holds the data, so that no other object gets the number of one.
        return lambda data: written[id(data)] if id(data) in written else data_to_json(data)

    async def _written(self, record: Any, topic: str, which: Which, data: bytes) -> Any:
        """A key or a value that names a schema, as JSON; None for another one."""
        from kmini.registry.wire_format import schema_mark

        if schema_mark(which, data, record.headers) is None:
            return None
        from kmini.registry.formats.values import Undecodable
        from kmini.registry.record_decoding import RecordDecoding

        if self._decoding is None:
            self._decoding = RecordDecoding(lambda: self._served.operations.running)
        whole = getattr(record, f"{which}_bytes", len(data))
        try:
            found = await self._decoding.decoded(topic, which, data, record.headers)
        except Undecodable as problem:
            told = str(problem)
            if whole > len(data):
                told = f"Only {len(data):,} of its {whole:,} bytes are here. Ask with most_bytes=0 for all."
            return {"hex": data.hex(), "problem": told}
        return None if found is None else _document(found)


def _document(found: DecodedData) -> dict[str, Any]:
    """Decoded data with the schema that they have, as JSON."""
    version = found.schema
    about = {"subject": version.subject, "version": version.version, "id": version.id, "type": version.content.type}
    return {"schema": about, "json": found.json}


def _records_in(result: Any) -> Iterator[Any]:
    """The records inside a result of a method."""
    waiting = [result]
    while waiting:
        value = waiting.pop()
        if isinstance(value, tuple) and {"key", "value", "headers"} <= {*getattr(value, "_fields", ())}:
            yield value
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()

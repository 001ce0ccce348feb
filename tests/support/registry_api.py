"""A schema registry with its broker or its cluster, on a thread with a loop of its own, and an HTTP client for it.

Schemas are of a tiny format of the tests unless a test wants the real ones, so that what the registry does is seen
apart from what the formats do.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import quote

from kmini.registry.formats.schema_format import (
    CannotCompare,
    Difference,
    InvalidSchema,
    ResolvedReference,
    Schema,
    SchemaFormat,
)
from kmini.registry.registry_server import RegistryServer
from kmini.registry.schema_reading import NAMES, SchemaReader
from support.control_api import DEADLINE_S, ControlApi

V1_JSON = "application/vnd.schemaregistry.v1+json"


class TinySchema(Schema):
    """A schema of the tests: fields that a writer writes, and those without which a reader cannot read."""

    def __init__(self, document: dict[str, Any], references: Sequence[ResolvedReference] = ()) -> None:
        self._document = document
        self._references = references

    @property
    def text(self) -> str:
        return json.dumps(self._document, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> TinySchema:
        return TinySchema({name: sorted(names) for name, names in sorted(self._document.items())}, self._references)

    def differences(self, writer: Schema) -> Sequence[Difference]:
        assert isinstance(writer, TinySchema)
        if "strange" in self._document or "strange" in writer._document:
            raise CannotCompare("'strange' cannot be judged; level NONE registers it")
        missing = [name for name in self._document.get("needs", ()) if name not in writer._document.get("fields", ())]
        return [Difference("FIELD_MISSING", f"/fields/{name}", f"The field '{name}' is missing") for name in missing]

    def value_of(self, data: bytes, place: list[int]) -> Any:
        return json.loads(data)

    def formatted(self, spelling: str) -> str:
        if spelling == "resolved" and self._references:
            return json.dumps({**self._document, "with": [one.text for one in self._references]}, separators=(",", ":"))
        return self.text.upper() if spelling == "loud" else self.text


class TinyFormat(SchemaFormat):
    """Reads JSON objects. With `refers`, a schema must have a reference of each of those names."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, text: str, references: Sequence[ResolvedReference] = ()) -> TinySchema:
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InvalidSchema(f"it is no JSON: {error}") from None
        if not isinstance(document, dict):
            raise InvalidSchema("an object was expected")
        missing = set(document.get("refers", ())) - {reference.name for reference in references}
        if missing:
            raise InvalidSchema(f"nothing is known of {', '.join(sorted(missing))}")
        return TinySchema(document, references)


def tiny_reader() -> SchemaReader:
    """Reads schemas of the tiny format, under all the names."""
    return SchemaReader(TinyFormat, NAMES)


class Reply(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def error_code(self) -> int:
        """The code of an error document."""
        code: int = self.document["error_code"]
        return code

    @property
    def message(self) -> str:
        message: str = self.document["message"]
        return message


class RegistryApi:
    """Serves a schema registry, beside the control API, from `start` to `end`."""

    def __init__(self, data_dir: str, **options: Any) -> None:
        """`options` are those of `ControlApi`."""
        self.control = ControlApi(data_dir, topics={}, **options)
        self.server: RegistryServer
        self.port = 0

    def start(self, reader: SchemaReader | None = None) -> RegistryApi:
        """Start the broker and both servers. Without a `reader`, schemas are of the tiny format."""
        self.control.start()
        self.control.run(self._serve(socket.create_server(("127.0.0.1", 0)), reader or tiny_reader()))
        return self

    async def _serve(self, listening: socket.socket, reader: SchemaReader) -> None:
        self.server = RegistryServer(lambda: self.control.managed.brokers, "127.0.0.1", reader)
        self.port = listening.getsockname()[1]
        self.control.managed.registry_port, self.control.managed.registry = (
            self.port,
            self.server.registry,
        )
        await self.server.start(listening)

    def end(self) -> None:
        """Stop both servers and the broker."""
        self.control.run(self.server.stop())
        self.control.end()

    @property
    def url(self) -> str:
        """The address of the registry."""
        return f"http://127.0.0.1:{self.port}"

    def send(self, verb: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request to the registry."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request(verb, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.send("GET", path)

    def post(self, path: str, document: Any) -> Reply:
        return self.send("POST", path, json.dumps(document).encode(), {"Content-Type": V1_JSON})

    def put(self, path: str, document: Any) -> Reply:
        return self.send("PUT", path, json.dumps(document).encode(), {"Content-Type": V1_JSON})

    def delete(self, path: str) -> Reply:
        return self.send("DELETE", path)

    def register(self, subject: str, schema: Mapping[str, Any], **more: Any) -> Reply:
        """Register a schema of the tiny format; `more` are fields of the request."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return self.post(path, {"schema": json.dumps(schema), **more})

    def registered(self, subject: str, *schemas: Mapping[str, Any], **more: Any) -> list[int]:
        """Register schemas that are taken; return their ids."""
        replies = [self.register(subject, schema, **more) for schema in schemas]
        assert [reply.status for reply in replies] == [200] * len(schemas), replies
        return [reply.document["id"] for reply in replies]

    def records(self) -> list[tuple[str, str | None]]:
        """The keys and values in the log of `_schemas`, as texts."""
        shown = self.control.run(self.control.managed.operations.records("_schemas", isolation="uncommitted"))
        return [(record.key.decode(), None if record.value is None else record.value.decode()) for record in shown]

    def write(self, key: bytes | None, value: bytes | None) -> None:
        """Append a record to `_schemas` as another program does."""
        self.control.run(self.control.managed.operations.produce("_schemas", value, key=key))

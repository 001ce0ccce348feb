"""Calls of a control server: one request for each method, on a connection of its own, which ends with the call."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

try:
    import h11
except ImportError as error:
    raise ImportError("kmini.connect needs h11; pip install '.[http]' in a clone of kmini installs it") from error

from kmini.broker.clock import milliseconds
from kmini.control.access import JSON
from kmini.control.arguments import signature_of
from kmini.control.json_types import kind_of, to_json
from kmini.control.problems import error_of
from kmini.control.routes import BROKER, ONLY_BROKER, PREFIX, ROUTE_OF, Route
from kmini.testkit.contents import Position, Record, RecordPage

CONNECT_S = 10.0
"""Seconds that a connection may take."""

PIECE_BYTES = 65_536
"""Bytes that are read at once."""


class ControlClient:
    """Asks one control server."""

    def __init__(self, url: str, token: str | None) -> None:
        """Raises ValueError for what is no address."""
        self.url = url.rstrip("/")
        self._target = urlsplit(self.url)
        if self._target.scheme not in ("http", "https") or not self._target.hostname:
            raise ValueError(f"url={url!r}: must begin with http:// or https://")
        self._headers = [("Host", self._target.netloc.rpartition("@")[2]), ("Content-Type", JSON)]
        if token is not None:
            self._headers.append(("Authorization", f"Bearer {token}"))

    async def call(self, route: Route, about: Mapping[str, str], arguments: Mapping[str, Any]) -> Any:
        """The JSON that a route answers, or its text; None for an answer without a body. Raises the exception that the
        method raises there, and RuntimeError where no server answers."""
        left = {name: to_json(plain(value)) for name, value in arguments.items()}
        path = route.path
        for name in route.path_arguments:
            if name == BROKER and name not in left:
                value = ONLY_BROKER
            else:
                value = about[name] if name in about else left.pop(route.argument(name, left))
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""), 1)
        path = f"{self._target.path}{PREFIX}{path.rstrip('/')}"
        try:
            answer = await self._ask(route.verb, path, json.dumps(left).encode() if left else b"")
        except (OSError, asyncio.TimeoutError, h11.RemoteProtocolError) as error:
            raise RuntimeError(f"the control server at {self.url} does not answer: {error}") from None
        result = _result(route, answer)
        return _Page(result, answer.following) if answer.following is not None else result

    async def _ask(self, verb: str, path: str, body: bytes) -> _Answer:
        """Send a request and read its answer. Raises OSError, TimeoutError and RemoteProtocolError."""
        is_encrypted = self._target.scheme == "https"
        port = self._target.port or (443 if is_encrypted else 80)
        opening = asyncio.open_connection(self._target.hostname, port, ssl=is_encrypted or None)
        reader, writer = await asyncio.wait_for(opening, CONNECT_S)
        try:
            http = h11.Connection(h11.CLIENT)
            headers = [*self._headers, ("Content-Length", str(len(body))), ("Connection", "close")]
            writer.write(http.send(h11.Request(method=verb, target=path, headers=headers)) or b"")
            writer.write(http.send(h11.Data(data=body)) or b"")
            http.send(h11.EndOfMessage())
            await writer.drain()
            head, pieces = None, []
            while not isinstance(event := http.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    http.receive_data(await reader.read(PIECE_BYTES))
                elif isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    pieces.append(event.data)
            assert head is not None
            values = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
            return _Answer(head.status_code, values, b"".join(pieces))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


class _Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    """By their names in small letters."""
    body: bytes

    @property
    def following(self) -> Position | None:
        """Where a page that is no whole goes on, which its header Link says."""
        link = self.headers.get("link")
        if link is None:
            return None
        cursor = parse_qs(urlsplit(link.partition("<")[2].partition(">")[0]).query)["cursor"][0]
        partition, offset = cursor.split(":")[:2]
        return Position(int(partition), int(offset))


def plain(value: Any) -> Any:
    """A duration as milliseconds; anything else as it is."""
    return milliseconds(value) if isinstance(value, timedelta) else value


class _Page(list[Any]):
    """A list that is no whole, and where the rest begins."""

    def __init__(self, items: list[Any], following: Position) -> None:
        super().__init__(items)
        self.following = following


_RECORDS = kind_of(list[Record])


def _page_of(records: list[Record], answer: list[Any]) -> RecordPage:
    page = RecordPage(records)
    if isinstance(answer, _Page):
        page.next = answer.following
    return page


def _result(route: Route, answer: _Answer) -> Any:
    if answer.status < 400 and answer.headers.get("content-type", "").startswith("text/plain"):
        return answer.body.decode("utf-8", "surrogatepass")
    try:
        document = json.loads(answer.body) if answer.body else None
    except ValueError:
        raise RuntimeError(
            f"{route.verb} {route.path} answers {answer.status} and no JSON: is that kmini's server?"
        ) from None
    if answer.status < 400:
        return document
    problem = {"title": f"{route.verb} {route.path}: {answer.status}"}
    raise error_of(document if isinstance(document, dict) else problem)


class ConnectedTable:
    """Has the methods of a table of operations, each by its route."""

    def __init__(self, client: ControlClient, table: type, about: Mapping[str, str] | None = None) -> None:
        """`about` has what paths name: the topic, the group, the rule."""
        self._client = client
        self._table_class = table
        self._about = about or {}

    @property
    def _there(self) -> Any:
        """The methods as their routes have them, for a class that has others of the same names."""
        return ConnectedTable(self._client, self._table_class, self._about)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        route = _route_of(self._table_class, name)
        if route is None:
            raise AttributeError(f"{self._table_class.__name__} has no {name} over HTTP")
        method = getattr(self._table_class, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(method).bind(None, *args, **kwargs)
            given = {**bound.arguments, **bound.arguments.get("what", {})}
            arguments = {key: value for key, value in given.items() if key in signature_of(method).arguments}
            result = await self._client.call(route, self._about, arguments)
            kind = signature_of(method).result
            if kind is None:  # the answer may tell what was made
                return None
            found = result if route.is_text else kind.read(result)
            return _page_of(found, result) if kind == _RECORDS else found

        call.__name__ = name
        return call


def _route_of(table: type, method: str) -> Route | None:
    """The route of a method of a table, or of the table that it is derived from."""
    return next((found for base in table.__mro__ if (found := ROUTE_OF.get((base, method))) is not None), None)

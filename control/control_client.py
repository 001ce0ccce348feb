"""Calls of a control server: one request for each method, on the loop of the thread that asks."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote

try:
    import aiohttp
    from yarl import URL
except ImportError as error:
    raise ImportError("kmini.connect needs aiohttp; pip install '.[http]' in a clone of kmini installs it") from error

from kmini.broker.clock import milliseconds
from kmini.control.access import JSON
from kmini.control.calls import signature_of
from kmini.control.json_kinds import kind_of, to_json
from kmini.control.problems import error_of
from kmini.control.routes import BROKER, ONLY_BROKER, PREFIX, ROUTE_OF, Route
from kmini.testkit.contents import Position, Record, RecordPage

CONNECT_S = 10.0
"""Seconds that a connection may take."""


class ControlClient:
    """Asks one control server. Its methods run on one loop."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None

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
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=0),  # any number of calls may wait
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            )
        try:
            async with self._session.request(
                route.verb,
                URL(f"{self.url}{PREFIX}{path.rstrip('/')}", encoded=True),
                data=json.dumps(left).encode() if left else None,
                headers={"Content-Type": JSON},
            ) as answer:
                body = await answer.read()
                result = _result(route, answer.status, answer.content_type, body)
                return _Page(result, URL(answer.links["next"]["url"])) if "next" in answer.links else result
        except aiohttp.ClientError as error:
            raise RuntimeError(f"the control server at {self.url} does not answer: {error}") from None

    async def close(self) -> None:
        """End the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await asyncio.sleep(0)  # the transports end in the next turn


def plain(value: Any) -> Any:
    """A duration as milliseconds; anything else as it is."""
    return milliseconds(value) if isinstance(value, timedelta) else value


class _Page(list[Any]):
    """A list that is no whole, and the address of what follows."""

    def __init__(self, items: list[Any], following: URL) -> None:
        super().__init__(items)
        self.following = following


_RECORDS = kind_of(list[Record])


def _page_of(records: list[Record], answer: list[Any]) -> RecordPage:
    page = RecordPage(records)
    if isinstance(answer, _Page):
        partition, offset = answer.following.query["cursor"].split(":")[:2]
        page.next = Position(int(partition), int(offset))
    return page


def _result(route: Route, status: int, content_type: str, body: bytes) -> Any:
    if content_type == "text/plain" and status < 400:
        return body.decode()
    try:
        document = json.loads(body) if body else None
    except ValueError:
        raise RuntimeError(f"{route.verb} {route.path} answers {status} and no JSON: is that kmini's server?") from None
    if status < 400:
        return document
    raise error_of(document if isinstance(document, dict) else {"title": f"{route.verb} {route.path}: {status}"})


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

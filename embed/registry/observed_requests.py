"""What tests see of the requests to the registry: the journal has them, and fault rules act on them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import hdrs, web

from kmini.broker.journal.registry_requests import (
    RegistryAnswer,
    RegistryQuestion,
    RegistrySource,
    begin,
    end,
)
from kmini.broker.journal.request_journal import RequestJournal
from kmini.registry.schema_log import Served

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CLIENT_HAS_GONE = "the client has gone"


class ObservedRequests:
    """Stands around the service of every request."""

    def __init__(self, served: Served) -> None:
        self._served = served

    @property
    def _journal(self) -> RequestJournal | None:
        return next((broker.services.journal for broker in self._served.brokers), None)

    @web.middleware
    async def observe(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The outermost middleware of the registry."""
        journal = self._journal
        if journal is None:
            return await handler(request)
        entry = begin(journal, _source(request), _question(request), request.content_length or 0)
        outcome: RegistryAnswer | str = CLIENT_HAS_GONE
        try:
            response = await handler(request)
            outcome = _answer(response)
            return response
        finally:
            end(journal, entry, outcome)


def _source(request: web.Request) -> RegistrySource:
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    host, port = peer[:2] if peer else (request.remote or "", 0)
    return RegistrySource(request.headers.get(hdrs.USER_AGENT), f"{host}:{port}", _principal(request))


def _principal(request: web.Request) -> str:
    """The user that a request names, whether or not the registry knows it. The password is not looked at."""
    scheme, _, encoded = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() == "basic":
        try:
            name = base64.b64decode(encoded).decode().partition(":")[0]
        except (binascii.Error, ValueError):
            name = ""
        if name:
            return f"User:{name}"
    return "User:ANONYMOUS"


def _question(request: web.Request) -> RegistryQuestion:
    return RegistryQuestion(request.method, request.raw_path, request.match_info.get("subject"))


def _answer(response: web.StreamResponse) -> RegistryAnswer:
    body = response.body if isinstance(response, web.Response) else b""
    data = body if isinstance(body, bytes) else b""
    if response.status < HTTPStatus.BAD_REQUEST:
        return RegistryAnswer(response.status, 0, "", len(data))
    try:
        document = json.loads(data)
        code, message = int(document["error_code"]), str(document["message"])
    except (ValueError, KeyError, TypeError):
        code, message = response.status, response.reason or ""
    return RegistryAnswer(response.status, code, message, len(data))

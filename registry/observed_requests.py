"""What tests see of the requests to the registry: the journal has them, and fault rules act on them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from kmini.broker.broker import BrokerServer
from kmini.broker.faults.registry_rules import (
    Disconnected,
    FaultedCall,
    RegistryAsked,
    RegistryClient,
    RegistryExchange,
    status_of,
)
from kmini.broker.journal.registry_requests import (
    RegistryAnswer,
    RegistryQuestion,
    RegistrySource,
    begin,
    end,
)
from kmini.broker.network.connection import disable_linger
from kmini.registry.registry_errors import RegistryError
from kmini.registry.schema_log import Brokers
from kmini.web.http_serving import BodyMissing, BodyTooLarge, Handler, Request, Response, Unreadable

AnswerError = Callable[[Request, RegistryError], Response]

CLIENT_HAS_GONE = "the client has gone"


class ObservedRequests:
    """Stands around the service of every request."""

    def __init__(self, brokers: Brokers, answer_error: AnswerError) -> None:
        """`answer_error` makes the answer of an error."""
        self._brokers = brokers
        self._answer_error = answer_error

    async def observe(self, request: Request, handler: Handler) -> Response:
        """Answer a request by a handler, as the rules say."""
        broker = next(iter(self._brokers()), None)
        if broker is None:
            return await handler(request)
        question, source, journal = _question(request), _source(request), broker.services.journal
        entry = None
        if journal is not None:
            entry = begin(journal, source, question, request.content_length or 0)
        outcome: RegistryAnswer | str = CLIENT_HAS_GONE
        try:
            call = _faulted(broker, source, question)
            if call is None:
                response = await handler(request)
            else:
                for name in call.names:
                    if entry is not None:
                        entry.note_fault(name)
                response = await call.answer(lambda: handler(request), lambda *error: self._refuse(request, *error))
            outcome = _answer(response)
            return response
        except Disconnected as end_of_connection:
            outcome = str(end_of_connection)
            return await _disconnect(request, rst=end_of_connection.rst)
        finally:
            if journal is not None and entry is not None:
                end(journal, entry, outcome)

    def _refuse(self, request: Request, code: int, message: str) -> Response:
        """The answer of an error that a rule asks for."""
        return self._answer_error(request, RegistryError(HTTPStatus(status_of(code)), code, message))


def _faulted(broker: BrokerServer, source: RegistrySource, question: RegistryQuestion) -> FaultedCall[Response] | None:
    """The request with the fault rules that act on it; None if none does."""
    rules = broker.services.registry_rules
    if not rules:
        return None
    host, _, port = source.peer.rpartition(":")
    client = RegistryClient((host, int(port)), source.principal)
    exchange = RegistryExchange(
        broker.services, client, source.client_id or "", f"registry {question.method} {question.path}"
    )
    asked = RegistryAsked(exchange, *question)
    taken = [active for active in rules if active.takes(asked)]
    return FaultedCall(exchange, taken) if taken else None


async def _disconnect(request: Request, *, rst: bool) -> Response:
    """Close the connection. What is returned is not sent."""
    if rst:
        disable_linger(request.transport)
        request.transport.abort()
    else:
        with suppress(BodyTooLarge, BodyMissing, Unreadable):
            await request.read()  # the system resets a connection that is closed with bytes unread
        request.transport.close()
    return Response()


def _source(request: Request) -> RegistrySource:
    host, port = request.peer
    return RegistrySource(request.headers.get("User-Agent"), f"{host}:{port}", _principal(request))


def _principal(request: Request) -> str:
    """The user that a request names, whether or not the registry knows it. The password is not looked at."""
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            name = base64.b64decode(encoded).decode().partition(":")[0]
        except (binascii.Error, ValueError):
            name = ""
        if name:
            return f"User:{name}"
    return "User:ANONYMOUS"


def _question(request: Request) -> RegistryQuestion:
    return RegistryQuestion(request.method, request.target, request.names.get("subject"))


def _answer(response: Response) -> RegistryAnswer:
    data = response.body if isinstance(response.body, bytes) else b""
    if response.status < HTTPStatus.BAD_REQUEST:
        return RegistryAnswer(response.status, 0, "", len(data))
    document = json.loads(data)
    return RegistryAnswer(response.status, int(document["error_code"]), str(document["message"]), len(data))

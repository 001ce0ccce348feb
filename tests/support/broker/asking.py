"""Ask the handlers of a broker as a client would, in any version, without a socket."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kmini.broker.api.request_context import CloseConnection, Context
from kmini.broker.broker import BrokerServer
from kmini.broker.handlers import HANDLERS
from kmini.broker.security.resources import ANONYMOUS, Principal
from kmini.protocol.errors import KafkaError
from kmini.protocol.schema import Request
from support.broker.access_rules import HOST


class SeemingConnection(SimpleNamespace):
    """A connection without a socket. Like a real one it is equal to itself only."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


async def ask_handler(broker: BrokerServer, request: Request, version: int | None = None) -> Any:
    """Send a request to a broker's handler in the wire format of `version`, by default the newest; decode the answer.

    The client seems to have arrived at client-side.example:19092.
    """
    version = request.max_version if version is None else version
    return await ask_in(context_of(broker, version), request)


def context_of(broker: BrokerServer, version: int) -> Context:
    """The context of requests of one connection, in one version."""
    connection = SeemingConnection(
        listener=SimpleNamespace(name="PLAINTEXT", advertised=None),
        arrived_at=("client-side.example", 19092),
        peer=("192.0.2.7", 40000),
        principal=ANONYMOUS,
        sasl=None,
        waiting=None,
        is_closing=False,
        when_lost=lambda callback: None,
    )
    connection.advertised = lambda: broker.server.advertised.addresses_for(connection)  # type: ignore[arg-type]
    return Context(broker.services, connection, version, "test")  # type: ignore[arg-type]


async def ask_in(context: Context, request: Request) -> Any:
    """What `ask_handler` does, as the next request of a connection."""
    handler, version = HANDLERS[request.api_key].load(), context.version
    sent = type(request).decode(bytearray(b"".join(request.encode(version))), version)
    try:
        answer = await handler.function(sent, context)
        assert answer is not None
    except KafkaError as error:
        answer = handler.request.response(error_code=error.code)
    return type(answer).decode(b"".join(answer.encode(version)), version)


async def ask_as_user(broker: BrokerServer, user: str, request: Request, version: int | None = None) -> Any:
    """Ask a broker with an authorizer as a user, in the wire format of `version`; None if it hangs up."""
    version = request.max_version if version is None else version
    handler = broker.server.handlers[request.api_key].load()
    connection = SeemingConnection(
        listener=SimpleNamespace(name="PLAINTEXT", advertised=None, sasl=None),
        arrived_at=("127.0.0.1", 9092),
        peer=(HOST, 40000),
        principal=Principal.user(user),
        sasl=None,
        waiting=None,
        is_closing=False,
        when_lost=lambda callback: None,
    )
    connection.advertised = lambda: broker.server.advertised.addresses_for(connection)  # type: ignore[arg-type]
    sent = type(request).decode(bytearray(b"".join(request.encode(version))), version)
    try:
        answer = await handler.function(sent, Context(broker.services, connection, version, "test"))  # type: ignore[arg-type]
    except CloseConnection:
        return None
    except KafkaError as error:
        answer = handler.request.response(error_code=error.code)
    return None if answer is None else type(answer).decode(b"".join(answer.encode(version)), version)


def authenticated(broker: BrokerServer, version: int, user: str = "alice", *, by_token: bool = False) -> Context:
    """The context of requests of a connection that has authenticated as a user, by a delegation token or without."""
    context = context_of(broker, version)
    context.connection.principal = Principal.user(user)
    context.connection.sasl = SimpleNamespace(is_by_token=by_token)  # type: ignore[assignment]
    return context

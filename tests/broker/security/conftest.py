"""Brokers with an authorizer, and authenticated clients without a socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kmini.broker.api.request_context import CloseConnection, Context
from kmini.broker.broker import BrokerServer
from kmini.broker.security.resources import Principal
from kmini.protocol.errors import KafkaError
from kmini.protocol.schema import Request
from support.broker.access_rules import HOST, STANDARD


@pytest.fixture
async def guarded_broker(start_broker: Callable[..., Awaitable[BrokerServer]]) -> BrokerServer:
    return await start_broker(
        authorizer_class_name=STANDARD,
        super_users="User:admin",
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    )


@pytest.fixture
def ask_as() -> Callable[..., Awaitable[Any]]:
    """Ask a broker as a user, in the wire format of `version`; None if it hangs up."""

    async def ask(broker: BrokerServer, user: str, request: Request, version: int | None = None) -> Any:
        version = request.max_version if version is None else version
        handler = broker.server.handlers[request.api_key].load()
        connection = SimpleNamespace(
            listener=SimpleNamespace(name="PLAINTEXT", advertised=None, sasl=None),
            arrived_at=("127.0.0.1", 9092),
            peer=(HOST, 40000),
            principal=Principal.user(user),
            sasl=None,
            waiting=None,
            is_closing=False,
        )
        connection.advertised = lambda: broker.server.addresses_for(connection)  # type: ignore[arg-type]
        sent = type(request).decode(bytearray(b"".join(request.encode(version))), version)
        try:
            answer = await handler.function(sent, Context(broker.services, connection, version, "test"))  # type: ignore[arg-type]
        except CloseConnection:
            return None
        except KafkaError as error:
            answer = handler.request.response(error_code=error.code)
        return None if answer is None else type(answer).decode(b"".join(answer.encode(version)), version)

    return ask

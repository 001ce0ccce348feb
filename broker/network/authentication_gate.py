"""The authentication gate of one connection: which requests reach dispatch before the client has authenticated.

The state of the authentication is in `security/sasl.py`. A connection has a gate as long as that state may refuse a
request: until the client has authenticated, or for the whole connection if authentications expire (KIP-368).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ...protocol.errors import IllegalSaslState
from ...protocol.framing import NEED_DATA, frame_of
from ..security.sasl_exchange import AuthenticationFailed

if TYPE_CHECKING:
    from ...protocol.framing import Frame, NeedData, ServerConnection
    from ..security.sasl import SaslSession
    from .dispatch import Dispatcher


class GatedConnection(Protocol):
    """The connection behind a gate, as the gate uses it."""

    in_service: asyncio.Future[Any] | None

    def write(self, buffers: Iterable[bytes | bytearray | memoryview]) -> None: ...

    def close(self) -> None: ...


class AuthenticationGate:
    """Admits requests and takes bare tokens, by the state of a session."""

    def __init__(
        self, session: SaslSession, connection: GatedConnection, framing: ServerConnection, dispatcher: Dispatcher
    ) -> None:
        self._session = session
        self._connection = connection
        self._framing = framing
        self._dispatcher = dispatcher

    def next_frame(self) -> Frame | Literal[NeedData.NEED_DATA] | None:
        """The next request, if it may be dispatched now, or NEED_DATA; None after a bare token, which was answered, or
        a request that was refused. Raises what `ServerConnection.next_frame` does."""
        if self._session.takes_tokens:
            token = self._framing.next_token()
            if token is NEED_DATA:
                return NEED_DATA
            self._take_token(token)
            return None
        frame = self._framing.next_frame()
        if frame is NEED_DATA or self._session.admits(frame.api_key):
            return frame
        self._refuse(frame)
        return None

    def _take_token(self, token: bytes) -> None:
        """Answer a bare token."""
        try:
            answer = self._session.evaluate(token)
        except AuthenticationFailed as failure:
            self._connection.in_service = asyncio.get_running_loop().create_task(self._fail(failure))
        else:
            self._connection.write(frame_of(answer, ()))

    def _refuse(self, frame: Frame) -> None:
        """Hang up on a request that is not admitted; during an exchange, answer it with ILLEGAL_SASL_STATE first."""
        session = self._session
        if session.has_failed:  # the failure was answered and logged
            frame.release()
            self._connection.close()
            return
        self._dispatcher.refuse(frame, session.refusal_reason, IllegalSaslState() if session.is_exchanging else None)

    async def _fail(self, failure: AuthenticationFailed) -> None:
        await self._session.wait_after_failure(failure)
        self._connection.close()

"""What a request names and what its answer says, as the journal of a broker has it; for requests of any Kafka.

Frames go on before they are looked at here, so that a look costs the exchange no time. Bodies of SASL are not decoded.
`proxied_connection.py` pairs answers with requests, but for those that get none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from kmini.broker.api.answer_errors import error_codes
from kmini.broker.api.key_fields import KeyFields, key_fields
from kmini.broker.journal.entries import JournalEntry
from kmini.protocol.api_keys import API_NAMES
from kmini.protocol.errors import MalformedMessage, error_name
from kmini.protocol.messages.headers import RequestHeader, read_response_header
from kmini.trace.proxy_state import ProxyState
from kmini.trace.rewriting import request_class

if TYPE_CHECKING:
    import asyncio

    from kmini.protocol.schema import Request, Response

SASL_APIS = frozenset({17, 36})
"""SaslHandshake and SaslAuthenticate: their requests are not decoded."""
NO_ANSWER_IS_DUE = "no answer is due"
"""Why a Produce with acks 0 has no answer."""


class TracedExchange(NamedTuple):
    """A request and its answer, as they passed."""

    since_s: float
    """Seconds from the beginning of the trace to the request."""
    connection: int
    """Counts the connections of the trace, from 1."""
    entry: JournalEntry
    note: str | None
    """Why request or answer were not decoded; None where both were."""


class Passing:
    """A request on its way: it went to the broker, and its answer is not there yet."""

    __slots__ = (
        "answered",
        "body",
        "bytes_in",
        "connection",
        "expects_answer",
        "faults",
        "header",
        "key_fields",
        "node",
        "note",
        "peer",
        "request",
        "started_s",
    )

    def __init__(self, header: RequestHeader, bytes_in: int, connection: int, peer: str, node: int) -> None:
        self.header = header
        self.bytes_in = bytes_in
        self.connection = connection
        self.peer = peer
        self.node = node
        self.started_s = perf_counter()
        self.key_fields = KeyFields()
        self.note: str | None = None
        self.request: Request | None = None
        """The decoded request, where its answer is read with it."""
        self.body: memoryview | None = None
        """The bytes of a request that is decoded when its answer is there."""
        self.expects_answer = True
        """False for a Produce with acks 0, once it is decoded."""
        self.faults: tuple[str, ...] = ()
        self.answered: asyncio.Future[Response] | None = None
        """Takes the decoded answer, where fault rules do something with it before the client gets it."""

    def note_fault(self, name: str) -> None:
        """Note that a fault rule acted on the request."""
        self.faults += (name,)

    @property
    def api(self) -> str:
        """Kafka's name of the API."""
        return API_NAMES.get(self.header.api_key, f"api-{self.header.api_key}")

    @property
    def message(self) -> type[Request] | None:
        """The class of the request; None where kmini knows neither API nor version."""
        found = request_class(self.header.api_key)
        if found is None or not found.min_version <= self.header.api_version <= found.max_version:
            return None
        return found


class Observer:
    """Reads requests and answers, and hands out each exchange when it is complete."""

    def __init__(self, show: Callable[[TracedExchange], None]) -> None:
        self.learned = ProxyState()
        self._show = show
        self._began_s = perf_counter()
        self._began_wall_s = time.time()
        self._count = 0

    def decode(self, passing: Passing, body: memoryview) -> Request | None:
        """Read a request and its key fields. None, and a note, for one that kmini cannot decode."""
        passing.body = None
        message = passing.message
        if message is None:
            passing.note = f"not decoded: kmini does not know version {passing.header.api_version}"
            if request_class(passing.header.api_key) is None:
                passing.note = "not decoded: kmini does not know this API"
            return None
        if passing.header.api_key in SASL_APIS:
            return None
        try:
            request = message.decode(body, passing.header.api_version)
        except MalformedMessage as error:
            passing.note = f"the request does not decode: {error}"
            return None
        passing.key_fields = key_fields(request, self.learned.names)
        if not request.holds_views:
            passing.request = request
        elif getattr(request, "acks", None) == 0:
            passing.expects_answer = False
        return request

    def decode_answer(self, passing: Passing, frame: memoryview) -> Response | None:
        """Read an answer, from its correlation id on. None, and a note, for one that kmini cannot decode."""
        if passing.body is not None:
            self.decode(passing, passing.body)
        message = passing.message
        if message is None:
            return None
        response, version = message.response, passing.header.api_version
        try:
            _, position = read_response_header(frame, response.header_version(version))
            body = frame[position:]
            answer: Response = response.decode(body, response.version_of(body, version))
        except MalformedMessage as error:
            passing.note = f"the answer does not decode: {error}"
            return None
        self.learned.learn(passing.request, answer)
        return answer

    def answered(self, passing: Passing, answer: Response | None, bytes_out: int, ended_s: float) -> None:
        """Hand out an exchange whose answer has passed."""
        codes = [] if answer is None else error_codes(answer)
        self._hand_out(passing, ended_s, bytes_out, tuple(map(error_name, dict.fromkeys(codes))), None)

    def closed(self, passing: Passing, reason: str) -> None:
        """Hand out an exchange that has no answer."""
        self._hand_out(passing, perf_counter(), 0, (), reason)

    def _hand_out(
        self, passing: Passing, ended_s: float, bytes_out: int, errors: tuple[str, ...], closed: str | None
    ) -> None:
        if passing.body is not None:
            self.decode(passing, passing.body)
        self._count += 1
        header, asked = passing.header, passing.key_fields
        since_s = passing.started_s - self._began_s
        time_ms = round((self._began_wall_s + since_s) * 1000)
        entry = JournalEntry(
            self._count,
            passing.node,
            passing.api,
            header.api_version,
            header.client_id,
            passing.peer,
            "",  # the proxy reads no login
            header.correlation_id,
            time_ms,
            time_ms,
            (ended_s - passing.started_s) * 1000,
            asked.partitions,
            asked.groups,
            asked.members,
            asked.transactional_ids,
            asked.producers,
            passing.bytes_in,
            bytes_out,
            errors,
            closed,
            passing.faults,
        )
        self._show(TracedExchange(since_s, passing.connection, entry, passing.note))

"""Fault rules in front of any Kafka: the rules of `broker/faults`, over requests that pass through the proxy.

A rule gets a request before the broker does, and the broker's answer before the client does. Requests that no rule is
about pass as they do without rules. While rules act on a request, later ones of its connection wait, as they would in a
broker, which serves one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kmini.broker.api.interception import Exchange, Intercepted
from kmini.broker.api.request_context import CloseConnection, Context
from kmini.broker.clock import Clock
from kmini.broker.faults.active_rules import ActiveRules
from kmini.broker.faults.rule_checks import Possible, rules_from_json
from kmini.broker.purgatory import Purgatory
from kmini.broker.security.resources import ANONYMOUS
from kmini.protocol.errors import MalformedMessage, UnsupportedVersion
from kmini.protocol.framing import response_frame
from kmini.protocol.messages import REQUESTS
from kmini.trace.observer import NO_ANSWER_IS_DUE
from kmini.trace.rewriting import API_VERSIONS

if TYPE_CHECKING:
    from kmini.broker.api.request_context import RequestConnection
    from kmini.broker.faults.rule import Rule
    from kmini.broker.journal.request_journal import Recorder
    from kmini.broker.services import Services
    from kmini.protocol.primitives import Buffer
    from kmini.protocol.schema import Response
    from kmini.trace.observer import Observer, Passing
    from kmini.trace.proxied_connection import ProxiedConnection
    from kmini.trace.proxy import BrokerPort

_UNKNOWABLE = {"principal": "SASL passes the proxy unread", "listener": "the proxy does not know them"}
"""Conditions that no request through the proxy can be judged by, and why."""


class _Recorder(NamedTuple):
    """Notes on a request which rules acted."""

    entry: Passing


class _Listener(NamedTuple):
    """The listener of a proxied connection; no rule asks for it."""

    name: str = "TRACE"


class _Metrics(NamedTuple):
    """The counters of a broker: the proxy has its own (`statistics.py`)."""

    requests: dict[int, Any]


class _Server:
    """The server of a broker: it asks `gate` about each new connection."""

    is_closed = False
    gate: Callable[[Any], str | None] | None = None


class ProxiedServices(Intercepted):
    """The parts of a broker that fault rules reach, for the broker behind a port of the proxy."""

    def __init__(self, port: BrokerPort, faults: ProxiedFaults) -> None:
        super().__init__([])
        self._port = port
        self.purgatory = faults.purgatory
        self.clock = faults.clock
        self.controller = self.fetch_sessions = faults.learned
        self.metrics = _Metrics({})
        self.registry_rules: Sequence[Any] = ()

    @property
    def node_id(self) -> int:
        """The number of the broker; -1 while it is not known."""
        return self._port.node_id


class ProxiedBroker:
    """A broker behind the proxy, as fault rules see one."""

    logs = None

    def __init__(self, port: BrokerPort, faults: ProxiedFaults) -> None:
        self.services = ProxiedServices(port, faults)
        self.server = _Server()
        self.on_reset: list[Callable[[], object]] = []


class RuledConnection:
    """A proxied connection, as fault rules see the connection of a client."""

    listener = _Listener()
    principal = ANONYMOUS
    sasl = None
    software = ("", "")

    def __init__(self, connection: ProxiedConnection) -> None:
        self._connection = connection
        self.waiting: asyncio.Future[bool] | None = None
        self.waiting_what = ""

    @property
    def peer(self) -> tuple[str, int]:
        return self._connection.peer

    @property
    def is_closing(self) -> bool:
        return self._connection.is_closing

    @property
    def in_service(self) -> asyncio.Future[Any] | None:
        return self._connection.in_service

    @in_service.setter
    def in_service(self, future: asyncio.Future[Any] | None) -> None:
        self._connection.in_service = future

    def serve(self) -> None:
        """Take the requests that wait."""
        self._connection.client.pump()

    def mute(self, throttle_ms: int) -> None:
        """Take no request for this long."""
        self._connection.mute(throttle_ms)

    def reset(self) -> None:
        """Close at once, so that the client's system reports a reset (RST)."""
        self._connection.abort()

    def write(self, buffers: Iterable[Buffer]) -> None:
        """Write bytes to the client."""
        self._connection.client.write([*buffers])


class ProxiedFaults:
    """The fault rules of a proxy."""

    def __init__(self, documents: object, observer: Observer) -> None:
        """`documents` are rules as JSON objects. Raises ValueError and TypeError, which say what is wrong with them."""
        self.learned = observer.learned
        self._observer = observer
        self.clock = Clock()
        self.purgatory = Purgatory(self.clock)
        self._active = ActiveRules()
        self._brokers: dict[BrokerPort, ProxiedBroker] = {}
        self._rules = rules_from_json(documents, _possible())
        for rule in self._rules:
            _check_conditions(rule)

    def attach(self, port: BrokerPort) -> None:
        """Have the rules act on what passes through a port. The first port puts them in force."""
        broker = self._brokers[port] = ProxiedBroker(port, self)
        self._active.attach(broker)
        if len(self._brokers) == 1:
            self._active.arm(self._rules)

    def summaries(self) -> Iterator[str]:
        """What became of each rule, in a sentence."""
        for active in self._active.rules:
            yield f"fault rule {active.rule.name!r}: {active.summary()}"

    def close(self) -> None:
        """Take the rules back; what they hold goes on."""
        self._active.clear()
        self.purgatory.close()

    # --- connections

    def refusal(self, connection: ProxiedConnection, port: BrokerPort) -> str | None:
        """Ask the rules about a new connection; return the rule that refused it."""
        gate = self._brokers[port].server.gate
        return None if gate is None else gate(RuledConnection(connection))

    # --- requests

    def concern(
        self, connection: ProxiedConnection, port: BrokerPort, passing: Passing, body: memoryview
    ) -> Coroutine[Any, Any, None] | None:
        """Decode a request. Returns the coroutine that serves it where rules may act on it, else None."""
        request = self._observer.decode(passing, body)
        services = self._brokers[port].services
        if request is None or not services.interceptors:
            return None
        context = Context(
            cast("Services", services),
            cast("RequestConnection", RuledConnection(connection)),
            passing.header.api_version,
            passing.header.client_id,
        )
        if not services.is_intercepted(request, context):
            return None
        exchange = Exchange(passing.header, request, context, len(body), cast("Recorder", _Recorder(passing)))
        return self._serve(connection, exchange, passing)

    async def _serve(self, connection: ProxiedConnection, exchange: Exchange, passing: Passing) -> None:
        """Serve a request as the rules say, and answer it."""

        async def serve() -> Response | None:
            answered = connection.send(passing, exchange.request)
            return None if answered is None else await answered

        observer = self._observer
        try:
            await connection.all_answered()
            answer = await self._active.intercept(exchange, serve)
        except asyncio.CancelledError:
            observer.closed(passing, "the connection ended before the answer")
            raise
        except (CloseConnection, MalformedMessage) as error:
            observer.closed(passing, str(error))
            connection.close()
            return
        if answer is None:
            observer.closed(passing, "a fault rule wrote the answer" if passing.expects_answer else NO_ANSWER_IS_DUE)
            return
        buffers = response_frame(passing.header.correlation_id, answer, _version(answer, passing))
        observer.answered(passing, answer, sum(map(len, buffers)), perf_counter())
        connection.client.write(buffers)


def _possible() -> Possible:
    """What rules may be about: every API that kmini decodes, of brokers that are not known yet."""
    return Possible(REQUESTS, None, has_disk=False)


def _check_conditions(rule: Rule) -> None:
    """Refuse a condition that the proxy cannot judge. Raises ValueError."""
    for name, reason in _UNKNOWABLE.items():
        if getattr(rule.when, name) is not None:
            raise ValueError(f"fault rule {rule.name!r}: {name} is no condition in front of another broker: {reason}")


def _version(answer: Any, passing: Passing) -> int:
    """The version of an answer: that of its request, but for ApiVersions with UNSUPPORTED_VERSION (KIP-511)."""
    if answer.api_key == API_VERSIONS and answer.error_code == UnsupportedVersion.code:
        return 0
    return passing.header.api_version

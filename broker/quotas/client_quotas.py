"""The quotas that one broker holds its clients to, and how much of each has been used.

Each broker counts by itself, as in Kafka. What `controller/client_quotas.py` stores comes here with every change.
`throttling.py` has what they do to a request, `mutations.py` what they do to requests that create and delete
partitions; the server asks about connections itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from ..api.interception import Exchange, Look, Serve, every_request
from ..controller.client_quotas import IP
from ..security.resources import ANONYMOUS
from .mutations import MUTATIONS
from .precedence import Quota, QuotasOfKind
from .rates import Rate, Sensors, TokenBucket, Windows
from .throttling import REQUESTS, Charge

if TYPE_CHECKING:
    from ...protocol.schema import Request
    from ..api.request_context import Context
    from ..services import Services

PRODUCE, FETCH, WRITE_TXN_MARKERS, SHARE_FETCH = 0, 1, 27, 78
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36

_EXEMPT = {WRITE_TXN_MARKERS, SASL_HANDSHAKE, SASL_AUTHENTICATE}
"""Requests that are never held to a quota, as in Kafka."""

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
CONNECTIONS = "connection_creation_rate"

BYTES_OF = {PRODUCE: PRODUCER, FETCH: CONSUMER, SHARE_FETCH: CONSUMER}
"""The quota that counts the bytes of an API."""


class ClientQuotas:
    """The quotas of clients at one broker."""

    def __init__(self, services: Services) -> None:
        config = services.config.current
        self.windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        """The samples of everything but mutations."""
        mutations = Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
        self._services = services
        self._quotas = {kind: QuotasOfKind() for kind in (PRODUCER, CONSUMER, REQUESTS, MUTATIONS)}
        new_rate = partial(Rate, self.windows)
        self._rates: dict[str, Sensors[Rate]] = {kind: Sensors(new_rate) for kind in (PRODUCER, CONSUMER, REQUESTS)}
        self._buckets: Sensors[TokenBucket] = Sensors(partial(TokenBucket, mutations))
        self._of_addresses: dict[str | None, float] = {}
        """How many connections a second an address may make; None stands for any other address."""
        self._connections: Sensors[Rate] = Sensors(new_rate)

    # --- changes

    def update(self, entity: str) -> None:
        """Put the quotas in force that are stored for an entity, which is given by its key. What clients have used
        stays counted."""
        named = json.loads(entity)
        stored = self._services.controller.client_quotas.get(entity, {})
        bounds = {kind: float(value) for kind, value in stored.items()}
        if IP in named:
            if CONNECTIONS in bounds:
                self._of_addresses[named[IP]] = bounds[CONNECTIONS]
            else:
                self._of_addresses.pop(named[IP], None)
            return
        for kind, quotas in self._quotas.items():
            quotas.set(named, bounds.get(kind))
        self._place()

    def _place(self) -> None:
        """Have those requests come here that quotas have to do with, and no others."""
        api_keys = {api_key for api_key, kind in BYTES_OF.items() if self._quotas[kind]}
        if self._quotas[REQUESTS]:
            self._services.intercept(self.intercept, every_request)
        elif api_keys:
            self._services.intercept(self.intercept, _look_at(api_keys))
        else:
            self.end()

    def end(self) -> None:
        """Have no request come here."""
        self._services.intercept_no_more(self.intercept)

    # --- requests

    def of(self, kind: str, context: Context) -> Quota | None:
        """The quota of a client, if it has one of this kind."""
        return self._quotas[kind].of(context.connection.principal.name, context.client_id or "")

    def rate(self, kind: str, quota: Quota, now_ms: int) -> Rate:
        """The rate of all clients that share a quota."""
        return self._rates[kind].get(quota.sharers, now_ms)

    def bucket(self, quota: Quota, now_ms: int) -> TokenBucket:
        """The token bucket of all clients that share a quota of mutations."""
        return self._buckets.get(quota.sharers, now_ms)

    def intercept(self, exchange: Exchange, serve: Serve) -> Coroutine[Any, Any, Any]:
        """The interceptor: charge a request to the quotas of its client."""
        request: Any = exchange.request
        context = exchange.context
        counted = BYTES_OF.get(request.api_key)
        if request.api_key not in _EXEMPT and not _is_broker(request, context) and not _logs_in(context):
            has_bytes = counted is not None and self.of(counted, context) is not None
            is_timed = self.of(REQUESTS, context) is not None
            if has_bytes or is_timed:
                return Charge(self, exchange, counted, is_timed=is_timed).answer(serve)
        return serve()  # type: ignore[return-value]  # a handler's coroutine

    # --- connections

    def connection_throttle_ms(self, host: str, now_ms: int) -> int:
        """Count a connection of an address. If it is one too many, return after how many milliseconds it is to be
        closed; it does not count then."""
        bound = self._of_addresses.get(host, self._of_addresses.get(None))
        if bound is None:
            return 0
        rate = self._connections.get(host, now_ms)
        rate.record(1, now_ms)
        throttle_ms = rate.bounded_throttle_ms(bound, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
            self._services.metrics.throttled(CONNECTIONS, throttle_ms)
        return throttle_ms


def _look_at(api_keys: Collection[int]) -> Look:
    def look(request: Request, context: Context) -> bool:
        return request.api_key in api_keys

    return look


def _is_broker(request: Any, context: Context) -> bool:
    """Whether a request is a follower's, or comes from a broker of this process."""
    if context.is_of_broker:
        return True
    if request.api_key != FETCH:
        return False
    state = request.replica_state
    return bool((state.replica_id if state else request.replica_id) >= 0)


def _logs_in(context: Context) -> bool:
    """Whether a client has still to authenticate: its ApiVersions comes before its user is known."""
    connection = context.connection
    return connection.sasl is not None and connection.principal == ANONYMOUS

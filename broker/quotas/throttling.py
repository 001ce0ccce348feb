"""What a request costs its client of quotas, and how the client is throttled (KIP-13, 124, 219).

A client above a quota gets its answer at once, with `throttle_time_ms`, and nothing more of its connection is served
for that long. A fetch above a quota is answered with no records, does not count, and leaves its session as it was.
"""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import KafkaError
from ...protocol.framing import response_frame
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.messages.produce import ProduceRequest
from ...storage.config_key import MAX_INT

if TYPE_CHECKING:
    from ...protocol.schema import Response
    from ..api.interception import Exchange, Serve
    from .client_quotas import ClientQuotas

T = TypeVar("T")

REQUESTS = "request_percentage"


class Charge:
    """One request of a client that has a quota.

    `request_percentage` is of the time that the handler runs on the event loop, without its waits. Decoding, encoding
    and work in other threads do not count. Kafka counts the time of its threads, with all that.
    """

    def __init__(self, quotas: ClientQuotas, exchange: Exchange, counted: str | None, *, is_timed: bool) -> None:
        """`counted` is the quota that counts the bytes of the API, if there is one."""
        self._quotas = quotas
        self._exchange = exchange
        self._request: Any = exchange.request
        self._context = exchange.context
        self._counted = counted
        self._is_timed = is_timed
        self._is_fetch = isinstance(self._request, FetchRequest)
        self._is_settled = False
        self._throttle_ms = 0
        self.spent_s = 0.0
        """How long the handler has run, up to its last wait."""
        self.resumed_s = 0.0
        """When it went on after that."""

    # --- the way of the request

    async def answer(self, serve: Serve) -> Any:
        """What the interceptor returns."""
        context = self._context
        if self._is_fetch:
            self._limit_fetch()
            # A kept fetch answers without asking. This one is resolved, and asks.
            context.charge, context.kept = self, None
        served: Any = serve()
        try:
            answer: Any = await (_timed(served, self) if self._is_timed else served)
        except KafkaError:
            self._settle(self._size(None))
            self._mute()
            raise
        finally:
            context.charge = None
        if not self._is_settled:
            self._settle(self._size(answer))
            if self._is_fetch and self._throttle_ms and not answer.error_code:
                answer = self.empty_fetch()
        if self._throttle_ms and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = max(answer.throttle_time_ms, self._throttle_ms)
        self._mute()
        return answer

    def _limit_fetch(self) -> None:
        """Let a fetch wait for, and get, no more than its quota allows in all windows but one."""
        assert self._counted is not None
        quota = self._quotas.of(self._counted, self._context)
        if quota is None:
            return
        number, length_ms = self._quotas.windows
        window_bytes = min(int(quota.bound * (number - 1) * length_ms / 1000), MAX_INT)
        request = self._request
        limit = self._context.services.config.current.fetch_max_bytes
        request.max_bytes = min(request.max_bytes, limit, window_bytes)
        request.min_bytes = min(request.min_bytes, request.max_bytes)

    def is_over(self, answer: FetchResponse) -> bool:
        """Charge for a fetch that would be answered so; whether the client is above a quota. The handler asks before it
        counts anything as answered."""
        self._settle(self._size(answer))
        return self._throttle_ms > 0

    def empty_fetch(self, session_id: int = 0) -> FetchResponse:
        """The answer to a fetch of a client above a quota, in a session or in none."""
        return FetchResponse(throttle_time_ms=self._throttle_ms, session_id=session_id)

    # --- the price

    def _size(self, answer: Response | None) -> int:
        """The bytes that count: of a produce request, or of the answer to a fetch."""
        request, version = self._request, self._exchange.header.api_version
        if isinstance(request, ProduceRequest):
            header = self._exchange.header.encode(request.header_version(version))
            return len(header) + self._exchange.size_bytes
        if answer is None or self._counted is None:
            return 0
        sent = sum(map(len, response_frame(0, answer, version)))
        # As Kafka counts: with the size in front, without the header, which is an int32 and, if flexible, a tag buffer.
        return sent - 4 - answer.header_version(version)

    def _settle(self, size: int) -> None:
        """Count the request, and decide for how long the client is throttled."""
        self._is_settled = True
        quotas, context = self._quotas, self._context
        now_ms = context.services.clock.liveness_ms()
        bytes_ms = time_ms = 0
        rate = None
        if self._counted is not None and (quota := quotas.of(self._counted, context)):
            rate = quotas.rate(self._counted, quota, now_ms)
            rate.record(size, now_ms)
            bytes_ms = rate.throttle_ms(quota.bound, now_ms)
        if self._is_timed and self._is_answered and (quota := quotas.of(REQUESTS, context)):
            spent = quotas.rate(REQUESTS, quota, now_ms)
            spent.record(100 * self._seconds(), now_ms)
            time_ms = spent.bounded_throttle_ms(quota.bound, now_ms)
        self._throttle_ms = max(bytes_ms, time_ms)
        if self._throttle_ms:
            exceeded = self._counted if self._counted and bytes_ms > time_ms else REQUESTS
            context.services.metrics.throttled(exceeded, self._throttle_ms)
            if self._is_fetch and rate is not None:
                rate.record(-size, now_ms)

    @property
    def _is_answered(self) -> bool:
        """False for a produce with acks=0, whose time does not count, as in Kafka."""
        return not (isinstance(self._request, ProduceRequest) and self._request.acks == 0)

    def _seconds(self) -> float:
        return self.spent_s + (perf_counter() - self.resumed_s if self.resumed_s else 0.0)

    def _mute(self) -> None:
        if self._throttle_ms:
            self._context.connection.mute(self._throttle_ms)


@types.coroutine
def _timed(coroutine: Coroutine[Any, Any, T], charge: Charge) -> Generator[Any, Any, T]:
    """Run a handler, and tell the charge how long it runs between its waits."""
    error: BaseException | None = None
    while True:
        charge.resumed_s = perf_counter()
        try:
            awaited = coroutine.send(None) if error is None else coroutine.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            charge.spent_s += perf_counter() - charge.resumed_s
            charge.resumed_s = 0.0
        error = None
        try:
            yield awaited
        except BaseException as thrown:
            error = thrown

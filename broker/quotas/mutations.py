"""The quota of partitions that a client creates and deletes, `controller_mutation_rate` (KIP-599)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import ThrottlingQuotaExceeded

if TYPE_CHECKING:
    from ..api.request_context import Context
    from .rates import TokenBucket

A = TypeVar("A")

MUTATIONS = "controller_mutation_rate"


class Mutations:
    """What a request creates and deletes, charged to the quota of its client, if that has one."""

    def __init__(self, context: Context, *, strict_since: int) -> None:
        """From version `strict_since` on, what is above the quota is refused. Older clients know no such error: their
        requests are done, and they are throttled."""
        self._context = context
        self._is_strict = context.version >= strict_since
        self._until_ms = 0
        self._charged: tuple[TokenBucket, float] | None = None
        """What is left of the client's quota, and the quota."""
        quotas = context.services.quotas
        if quotas is not None and not context.is_of_broker:
            quota = quotas.of(MUTATIONS, context)
            if quota is not None:
                self._charged = quotas.bucket(quota, self._now_ms()), quota.bound

    def _now_ms(self) -> int:
        return self._context.services.clock.liveness_ms()

    def record(self, partitions: int) -> None:
        """Count partitions that are created or deleted. Raises ThrottlingQuotaExceeded."""
        if self._charged is None:
            return
        (bucket, bound), now_ms = self._charged, self._now_ms()
        throttle_ms = bucket.throttle_ms(bound, now_ms) if self._is_strict else 0
        if not throttle_ms:
            bucket.record(partitions, bound, now_ms)
            throttle_ms = 0 if self._is_strict else bucket.throttle_ms(bound, now_ms)
        if throttle_ms:
            self._until_ms = now_ms + throttle_ms
            if self._is_strict:
                raise ThrottlingQuotaExceeded()

    def throttle(self, answer: A) -> A:
        """Have the answer say how long the client is throttled, if it is."""
        services = self._context.services
        throttle_ms = self._until_ms - self._now_ms() if self._until_ms else 0
        if throttle_ms > 0:
            answer.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]
            services.metrics.throttled(MUTATIONS, throttle_ms)
            self._context.connection.mute(throttle_ms)
        return answer

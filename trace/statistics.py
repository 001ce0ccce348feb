"""The statistics of a trace: for each API and each client requests, errors, latencies and bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from kmini.trace.observer import TracedExchange

MOST_CLIENTS = 1_000
"""Clients that are told apart; what others do is added up."""
_STEP = 1.05
"""The ratio of two neighbouring latencies that are told apart."""
_LEAST_MS = 0.001
COLUMNS = ("REQUESTS", "ERRORS", "P50-MS", "P99-MS", "BYTES-IN", "BYTES-OUT")
_OTHERS = "(others)"


class Totals:
    """What adds up of exchanges."""

    def __init__(self) -> None:
        self.count = 0
        self.errors = 0
        """Exchanges with an error in the answer, or without an answer that was due."""
        self.bytes_in = 0
        self.bytes_out = 0
        self._latencies: Counter[int] = Counter()
        """Answers by the logarithm of their latency: memory stays small, and percentiles are right within 5 %."""

    def add(self, exchange: TracedExchange) -> None:
        """Count an exchange."""
        entry = exchange.entry
        self.count += 1
        self.errors += bool(entry.errors)
        self.bytes_in += entry.bytes_in
        self.bytes_out += entry.bytes_out
        if entry.closed is None and entry.ms is not None:
            self._latencies[math.ceil(math.log(max(entry.ms, _LEAST_MS), _STEP))] += 1

    def percentile_ms(self, share: float) -> float | None:
        """The latency in milliseconds that this share of the answers did not exceed; None without answers."""
        wanted = math.ceil(sum(self._latencies.values()) * share)
        for step in sorted(self._latencies):
            wanted -= self._latencies[step]
            if wanted <= 0:
                return _STEP**step
        return None


class Statistics:
    """Totals for each API and each client."""

    def __init__(self) -> None:
        self.by_api: dict[str, Totals] = {}
        self.by_client: dict[str, Totals] = {}

    def add(self, exchange: TracedExchange) -> None:
        """Count an exchange."""
        entry = exchange.entry
        client = "-" if entry.client_id is None else entry.client_id
        if client not in self.by_client and len(self.by_client) >= MOST_CLIENTS:
            client = _OTHERS
        for table, key in ((self.by_api, entry.api), (self.by_client, client)):
            if key not in table:
                table[key] = Totals()
            table[key].add(exchange)

    def tables(self) -> Iterator[tuple[tuple[str, ...], list[tuple[object, ...]]]]:
        """The columns and rows of two tables: by API and by client, the most requests first."""
        for title, totals in (("API", self.by_api), ("CLIENT", self.by_client)):
            rows: list[tuple[object, ...]] = [
                (
                    name,
                    one.count,
                    one.errors,
                    _rounded(one.percentile_ms(0.5)),
                    _rounded(one.percentile_ms(0.99)),
                    one.bytes_in,
                    one.bytes_out,
                )
                for name, one in sorted(totals.items(), key=lambda item: (-item[1].count, item[0]))
            ]
            yield (title, *COLUMNS), rows


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 2)

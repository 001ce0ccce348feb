"""Exchanges of a trace, made up."""

from __future__ import annotations

from kmini.broker.api.key_fields import KeyPartition
from kmini.broker.journal.entries import JournalEntry
from kmini.trace.observer import TracedExchange


def exchange(
    api: str = "Produce",
    client_id: str | None = "app",
    *,
    topic: str = "orders",
    ms: float = 1.0,
    bytes_in: int = 0,
    bytes_out: int = 0,
    errors: tuple[str, ...] = (),
    closed: str | None = None,
) -> TracedExchange:
    """An exchange about a topic."""
    entry = JournalEntry(
        1, 1, api, 9, client_id, "127.0.0.1:40112", "", 5, 1_700_000_000_000, 1_700_000_000_000, ms,
        (KeyPartition(topic, 0),), (), (), (), (), bytes_in, bytes_out, errors, closed, (),
    )  # fmt: skip
    return TracedExchange(0.5, 1, entry, None)

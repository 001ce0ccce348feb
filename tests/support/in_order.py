"""Whether events of a client came in an order, whatever came between them."""

from __future__ import annotations

from collections.abc import Iterable


def contains_in_order(seen: Iterable[str], wanted: Iterable[str]) -> bool:
    """A client that joins its group once more than it has to notes more events than a test waits for."""
    rest = iter(seen)
    return all(event in rest for event in wanted)

"""The server-side assignors of consumer groups (KIP-848): which member reads which partitions.

Each takes all members and gives the whole target assignment, as a generator that yields often, so that a large group
does not hold the loop. Racks are part of the input, and no assignor looks at them, as in Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from .range_assignor import assign_ranges
from .subscribers import Subscriber, Target
from .uniform_assignor import assign_uniformly

__all__ = ["ASSIGNORS", "Assignor", "Subscriber", "Target"]

Assignor = Callable[[Mapping[str, Subscriber], Mapping[bytes, int], bool], Generator[None, None, Target]]
"""Takes the members by id, the number of partitions by topic id, and whether all members subscribe to the same
topics."""

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""The assignors by name."""

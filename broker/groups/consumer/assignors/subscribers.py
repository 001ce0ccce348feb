"""What assignors take and give."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

STEP = 500
"""Partitions, or members, after which an assignor yields."""


class Subscriber(NamedTuple):
    """A member, as an assignor sees it."""

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[bytes]
    """The ids of the topics that it subscribes to."""
    assigned: Mapping[bytes, Collection[int]]
    """Its present target, as partitions by topic id."""


Target = dict[str, dict[bytes, tuple[int, ...]]]
"""By member id and topic id, the partitions in ascending order. Every member has an entry, and every topic in it has
partitions."""

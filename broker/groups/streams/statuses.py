"""The statuses that a heartbeat tells the members of a streams group (KIP-1071).

`configured_topology.py` finds those about topics, `member_steps.py` STALE_TOPOLOGY and ASSIGNMENT_DELAYED, and
`heartbeats.py` SHUTDOWN_APPLICATION.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Status(Enum):
    """A status, with its code in the answer to a heartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Problem(NamedTuple):
    """A status that the members of a group are told, with its detail for people."""

    status: Status
    detail: str

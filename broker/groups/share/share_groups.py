"""All that serves the share groups of one coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..modern.group_life import Coordinated
from .heartbeats import ShareHeartbeats
from .life import ShareGroupLife
from .partition_states import StatesOfPartitions
from .share_offsets import ShareOffsets

if TYPE_CHECKING:
    from ...share_state.persister import Persister


class ShareGroups:
    """The share groups of one coordinator. Belongs to the broker's loop."""

    def __init__(self, shared: Coordinated, persister: Callable[[], Persister]) -> None:
        """`persister` gives what reaches the share coordinators. Raises KafkaError."""
        self.life = ShareGroupLife(shared)
        self.states = StatesOfPartitions(self.life, persister)
        self.members = ShareHeartbeats(self.life, self.states)
        self.offsets = ShareOffsets(self.life, self.states)

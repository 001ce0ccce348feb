"""All that serves the streams groups of one coordinator."""

from __future__ import annotations

from ..modern.group_life import Coordinated
from .heartbeats import StreamsHeartbeats
from .internal_topics import InternalTopics
from .life import StreamsGroupLife
from .member_steps import TaskSteps


class StreamsGroups:
    """The streams groups of one coordinator. Belongs to the broker's loop."""

    def __init__(self, shared: Coordinated) -> None:
        self.life = StreamsGroupLife(shared)
        self.steps = TaskSteps(self.life)
        self.internal_topics = InternalTopics(shared.clock)
        self.heartbeat = StreamsHeartbeats(self.life, self.steps).heartbeat

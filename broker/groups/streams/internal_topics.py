"""The internal topics of streams groups, made for their members (KIP-1071).

What hinders the creation of a topic is remembered for some time: members are told it, and until then heartbeats do not
try again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import KafkaError, TopicAlreadyExists
from ...controller import topic_plans, topics
from ...network.peer_log import PeerLog
from ...scheduler import Turn
from .topology import InternalTopic

if TYPE_CHECKING:
    from ...clock import Clock
    from ...controller.topic_plans import TopicCreator
    from ...controller.topology import Topic

log = PeerLog(logging.getLogger("kmini.groups"))

MOST_FAILURES = 1_000
"""Topics whose failure is remembered."""


class _Failure(NamedTuple):
    """Why a topic could not be made."""

    reason: str
    until_ms: int
    """When it is tried again, in liveness time."""


class InternalTopics:
    """Makes the internal topics of the groups of one coordinator. Belongs to the broker's loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, _Failure] = {}
        self._in_the_making: set[str] = set()

    async def create(
        self, creator: TopicCreator, wanted: Iterable[InternalTopic], *, retry_after_ms: int
    ) -> Mapping[str, str]:
        """Create the topics that are neither being made nor have failed in the last `retry_after_ms`. Return by name
        why those that failed did, now or then."""
        wanted = list(wanted)
        now_ms = self._clock.liveness_ms()
        self._failures = {name: each for name, each in self._failures.items() if each.until_ms > now_ms}
        tried = [each for each in wanted if each.name not in self._in_the_making and each.name not in self._failures]
        names = {each.name for each in tried}
        self._in_the_making |= names
        try:
            await self._create(creator, tried, now_ms + retry_after_ms)
        finally:
            self._in_the_making -= names
        return {each.name: self._failures[each.name].reason for each in wanted if each.name in self._failures}

    async def _create(self, creator: TopicCreator, wanted: Iterable[InternalTopic], until_ms: int) -> None:
        planned: list[Topic] = []
        room = topic_plans.MAX_NEW_PARTITIONS
        turn = Turn()
        for each in wanted:
            if turn.is_over:
                await turn.next()
            try:
                topic = topic_plans.plan(
                    creator,
                    each.name,
                    partitions=each.partitions,
                    replication_factor=each.replication_factor or topic_plans.DEFAULT,
                    configs=dict(each.configs),
                    room=room,
                )
            except TopicAlreadyExists:
                continue
            except KafkaError as error:
                self._failed(each.name, error, until_ms)
            else:
                planned.append(topic)
                room -= len(topic.partitions)
        try:
            await topics.create_all(creator, planned)
        except KafkaError as error:
            for topic in planned:
                self._failed(topic.name, error, until_ms)

    def _failed(self, name: str, error: KafkaError, until_ms: int) -> None:
        log.warning("the internal topic %s could not be made: %s", name, error.message)
        if len(self._failures) >= MOST_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[name] = _Failure(error.message, until_ms)

"""What the proxy learns from answers: the names of topics, and what fetch sessions read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kmini.broker.api.key_fields import Names

if TYPE_CHECKING:
    from kmini.protocol.schema import Request, Response

MOST_TOPICS = 100_000
"""Names of topics that are remembered; beyond that the oldest is forgotten."""
MOST_SESSIONS = 2_000
"""Fetch sessions that are remembered; beyond that the oldest is forgotten."""

Fetched = tuple[str, bytes, int]
"""Topic or topic id, and partition."""
_NAMING = frozenset({"CreateTopics", "DescribeTopicPartitions", "Metadata"})
"""APIs whose answers have names of topics beside their ids."""
_NOTHING: tuple[Fetched, ...] = ()


class Topic(NamedTuple):
    """A topic, as the controller of a broker has it."""

    name: str


class ProxyState:
    """Names of topics by their ids, and the partitions of fetch sessions (KIP-227)."""

    def __init__(self) -> None:
        self._topics: dict[bytes, Topic] = {}
        self._sessions: dict[int, tuple[Fetched, ...]] = {}
        self.names = Names(self._name_of, self.keys_of)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this id; None if no answer has named it."""
        return self._topics.get(bytes(topic_id))

    def keys_of(self, session_id: int) -> tuple[Fetched, ...]:
        """The partitions that a fetch session reads; none for an unknown session."""
        return self._sessions.get(session_id, _NOTHING)

    def learn(self, request: Request | None, answer: Response) -> None:
        """Take from an answer what later requests do not say themselves."""
        if answer.name == "Fetch":
            if request is not None:
                self._learn_session(request, answer)
        elif answer.name in _NAMING:
            self._learn_topics(answer)

    def _name_of(self, topic_id: bytes) -> str | None:
        topic = self.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _learn_topics(self, answer: Any) -> None:
        for topic in answer.topics:
            if topic.name and any(topic.topic_id):
                self._topics[bytes(topic.topic_id)] = Topic(topic.name)
        while len(self._topics) > MOST_TOPICS:
            del self._topics[next(iter(self._topics))]

    def _learn_session(self, request: Any, answer: Any) -> None:
        session_id = answer.session_id
        if request.session_epoch < 0 or answer.error_code:
            self._sessions.pop(request.session_id, None)
            return
        if not session_id:
            return
        named = [(one.topic, bytes(one.topic_id), each.partition) for one in request.topics for each in one.partitions]
        if request.session_epoch > 0:
            if not named and not request.forgotten_topics_data:
                return
            named = [*self.keys_of(session_id), *named]
        forgotten = {
            (topic.topic, bytes(topic.topic_id), number)
            for topic in request.forgotten_topics_data
            for number in topic.partitions
        }
        self._remember(session_id, (key for key in dict.fromkeys(named) if key not in forgotten))

    def _remember(self, session_id: int, read: Iterable[Fetched]) -> None:
        self._sessions.pop(session_id, None)
        self._sessions[session_id] = tuple(read)
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

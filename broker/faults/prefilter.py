"""A cheap look at each request while there are rules: most rules are about another client or another topic.

A screen knows, for one API, which clients and which topics its rules may mean. A request that no rule can mean is let
pass, and only counted. The first requests are let pass by no screen: beside them the rules note why they do not mean
them (`Matcher.nearest`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .matching import pattern

if TYPE_CHECKING:
    from ...protocol.schema import Request
    from ..api.request_context import Context
    from .rule import When

_LOOKED_AT = 100
"""Requests of an API that pass no screen."""
_CLIENTS = 1_000
"""Names of clients that a screen remembers at most."""
_TOPICS = {"Produce": ("topic_data", "name"), "Fetch": ("topics", "topic")}
"""Where the requests that come most often have the names of their topics."""

Look = Callable[[Any, "Context"], bool]
"""Whether a rule may mean a request."""

EVERYTHING = frozenset({"*"})
"""In place of the names of topics: all requests of a client are looked at. No topic has this name."""


class Screen:
    """The look at the requests of one API."""

    __slots__ = ("_array", "_by_client", "_has_sessions", "_name", "_rules", "looks", "passed")

    def __init__(self, api: str, rules: Sequence[When]) -> None:
        self.looks = _LOOKED_AT
        """Requests that it lets not pass, whatever they are."""
        self.passed = 0
        """Requests that it has let pass."""
        self._array, self._name = _TOPICS.get(api, ("", ""))
        self._has_sessions = api == "Fetch"
        self._rules = [(_client_fits(when.client_id), _topic_of(when) if self._array else None) for when in rules]
        self._by_client: dict[str | None, frozenset[str]] = {}
        """The topics that the rules about a client name, by its client id."""

    def stops(self, request: Request, context: Context) -> bool:
        """Whether a rule may mean a request, so that it is to be looked at."""
        if self.looks:
            self.looks -= 1
            return True
        client_id = context.client_id
        wanted = self._by_client.get(client_id)
        if wanted is None:
            wanted = self._remember(client_id)
        if wanted:
            if wanted is EVERYTHING or (self._has_sessions and request.session_epoch > 0):  # type: ignore[attr-defined]
                return True  # also a fetch of a session, which reads more than it names
            for topic in getattr(request, self._array):
                name = getattr(topic, self._name)
                if name in wanted or not name:  # without a name it has an id
                    return True
        self.passed += 1
        return False

    def look(self) -> Look:
        """The function that does what `stops` does: quicker for the requests that come most often."""
        by_client, stops = self._by_client, self.stops

        def stops_produce(request: Any, context: Context) -> bool:
            wanted = by_client.get(context.client_id, EVERYTHING)
            if wanted is EVERYTHING:  # or the client is not known yet
                return stops(request, context)
            for topic in request.topic_data:
                if topic.name in wanted or (wanted and not topic.name):
                    return True
            self.passed += 1
            return False

        def stops_fetch(request: Any, context: Context) -> bool:
            wanted = by_client.get(context.client_id, EVERYTHING)
            if wanted is EVERYTHING or request.session_epoch > 0:
                return stops(request, context)
            for topic in request.topics:
                if topic.topic in wanted or (wanted and not topic.topic):
                    return True
            self.passed += 1
            return False

        return {"topic_data": stops_produce, "topics": stops_fetch}.get(self._array, stops)

    def _remember(self, client_id: str | None) -> frozenset[str]:
        topics = [topic for fits, topic in self._rules if fits(client_id or "")]
        wanted = EVERYTHING if None in topics else frozenset(topic for topic in topics if topic is not None)
        if len(self._by_client) >= _CLIENTS:
            self._by_client.clear()
        self._by_client[client_id] = wanted
        return wanted


def _client_fits(client_id: str | None) -> Callable[[str], bool]:
    return pattern("*" if client_id is None else client_id)


def _topic_of(when: When) -> str | None:
    """The one topic that a rule is about; None if it may be about others."""
    return None if when.topic is None or {"*", "?"} & set(when.topic) else when.topic

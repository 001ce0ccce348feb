"""A hint about clients that look for the coordinator of a group again and again, and never join.

That is what a client does, without an error, whose group protocol is not offered: librdkafka finds the coordinator,
sees that its heartbeat is not served there, and begins again. A group and a client are named once, at info.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ..network.peer_log import PeerLog, remember, remembered

if TYPE_CHECKING:
    from ..clock import Clock

peer_log = PeerLog(logging.getLogger("kmini.client"))

OFTEN = 10
"""Searches of a client for one group after which there is a hint. Clients that work need one or two."""

WITHIN_MS = 60_000
"""Milliseconds of liveness time within which they come."""


class _Searched(NamedTuple):
    since_ms: int
    times: int


class CoordinatorSearches:
    """The searches for coordinators of groups that do not exist."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._searched: dict[tuple[str, str, str], _Searched] = {}
        """By group, client id and host of the client."""

    def note(self, group_id: str, client_id: str | None, host: str, *, exists: bool) -> None:
        """Count a search for the coordinator of a group, which exists if a client has joined it or committed offsets;
        log the hint when it is the tenth in vain."""
        key = (remembered(group_id), remembered(client_id), host)
        if exists:
            self._searched.pop(key, None)
            return
        now_ms = self._clock.liveness_ms()
        seen = self._searched.get(key)
        if seen is None or now_ms - seen.since_ms > WITHIN_MS:
            seen = _Searched(now_ms, 0)
        seen = seen._replace(times=seen.times + 1)
        remember(self._searched, key, seen)
        if seen.times == OFTEN:
            peer_log.info(
                "client %s at %s has asked %d times in %d s for the coordinator of group %s, and no client has joined "
                "it: its group protocol may be one that is not offered (group.coordinator.rebalance.protocols, "
                "kmini.as.version)",
                *(client_id or "without a name", host, OFTEN, (now_ms - seen.since_ms) // 1000, group_id),
            )

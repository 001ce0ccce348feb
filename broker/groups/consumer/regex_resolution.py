"""The resolution of regular expressions: which topics they stand for (KIP-848).

It runs in the background, for all expressions of a group at once, with the topics that the client that asked for it may
describe. It begins with a heartbeat, if none is in progress, and

- an expression is not resolved yet, or
- topics have changed since, or the last resolution is older than `group.consumer.regex.refresh.interval.ms`;

but at most every 10 seconds, so that a group whose members change their expressions all the time costs little.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...api.error_mapping import kafka_error
from ...network.peer_log import PeerLog
from ...regular_expressions import Pattern
from ...scheduler import Turn
from .members import Expression
from .state_changes import Change, ExpressionChange, GroupEpoch

if TYPE_CHECKING:
    from .consumer_group import ConsumerGroup
    from .life import ConsumerGroupLife

log = PeerLog(logging.getLogger("kmini.groups"))

MayDescribe = Callable[[str], bool]
"""Whether a client may describe a topic."""

LEAST_INTERVAL_MS = 10_000
"""Milliseconds between two resolutions of a group, at least."""


class Expressions:
    """The resolutions of all groups. Belongs to the broker's loop."""

    def __init__(self, life: ConsumerGroupLife) -> None:
        self._life = life

    def check(self, regex: str) -> None:
        """Raise InvalidRegularExpression for what is no regular expression of RE2."""
        Pattern(regex)

    def heartbeat_came(self, group: ConsumerGroup, may_describe: MayDescribe) -> None:
        """Begin a resolution if the group needs one."""
        if not group.is_resolving and self._is_due(group):
            group.is_resolving = True
            group.resolved_at_ms = self._life.clock.now_ms()
            group.resolved_version = self._life.catalog.version
            self._life.writes.start(self._resolve(group, may_describe))

    def _is_due(self, group: ConsumerGroup) -> bool:
        last_ms = group.resolved_at_ms
        if last_ms is None:
            return True
        age_ms = self._life.clock.now_ms() - last_ms
        if 0 <= age_ms < LEAST_INTERVAL_MS:
            return False
        if group.expression_subscribers.keys() - group.expressions.keys():
            return True
        is_old = not 0 <= age_ms < self._life.config.group_consumer_regex_refresh_interval_ms
        return is_old or group.resolved_version != self._life.catalog.version

    async def _resolve(self, group: ConsumerGroup, may_describe: MayDescribe) -> None:
        try:
            now_ms, version = self._life.clock.now_ms(), self._life.catalog.version
            resolved = {
                regex: Expression(topics, version, now_ms)
                for regex, topics in (await self._matches(group, may_describe)).items()
            }
            await self._life.turns.free(group.group_id)
            if self._life.keeps(group):
                await self._life.write(group, self._changes(group, resolved))
        except Exception as error:
            log.warning("group %s: %s", group.group_id, kafka_error(error, "resolving its regular expressions"))
        finally:
            group.is_resolving = False

    async def _matches(self, group: ConsumerGroup, may_describe: MayDescribe) -> dict[str, frozenset[str]]:
        turn = Turn()
        names = list(self._life.catalog.names)
        matches: dict[str, frozenset[str]] = {}
        for regex in list(group.expression_subscribers):
            pattern, found = Pattern(regex), []
            for name in names:
                if turn.is_over:
                    await turn.next()
                if await pattern.matches(name, turn) and may_describe(name):
                    found.append(name)
            matches[regex] = frozenset(found)
        return matches

    def _changes(self, group: ConsumerGroup, resolved: Mapping[str, Expression]) -> list[Change]:
        """The changes of the group: expressions that members still subscribe to, and another group epoch if topics of
        one have changed."""
        wanted = {regex: each for regex, each in resolved.items() if group.expression_subscribers[regex]}
        changes: list[Change] = [ExpressionChange(regex, each) for regex, each in wanted.items()]
        is_other = any(each.topics != self._topics_now(group, regex) for regex, each in wanted.items())
        metadata_hash = self._hash_with(group, wanted)
        if changes and (is_other or metadata_hash != group.metadata_hash):
            changes.append(GroupEpoch(group.epoch + 1, metadata_hash, self._life.catalog.version))
        return changes

    def _topics_now(self, group: ConsumerGroup, regex: str) -> frozenset[str]:
        present = group.expressions.get(regex)
        return frozenset() if present is None else present.topics

    def _hash_with(self, group: ConsumerGroup, resolved: Mapping[str, Expression]) -> int:
        names = set(group.subscribers)
        for regex in group.expression_subscribers:
            expression = resolved.get(regex) or group.expressions.get(regex)
            names |= expression.topics if expression is not None else frozenset()
        return self._life.catalog.hash_of(names)

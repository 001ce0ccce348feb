"""Fault rules by the story that people test: the methods of `broker.faults` that make a rule of `recipes.py`."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from kmini.broker.clock import Duration
from kmini.broker.faults import recipes

Armed = TypeVar("Armed")


class FaultStories(Generic[Armed]):
    """The stories that have a name."""

    def _story(self, document: dict[str, Any]) -> Armed:
        """Put the rule of a story in force."""
        raise NotImplementedError

    def leader_not_available(self, topic: str, *, for_ms: Duration, partition: int | None = None) -> Armed:
        """Metadata says LEADER_NOT_AVAILABLE for a topic, or one partition, for this long."""
        return self._story(recipes.leader_not_available(topic, for_ms, partition))

    def leader_moved(self, topic: str, *, times: int = 1, partition: int | None = None) -> Armed:
        """The next produces and fetches of a topic are answered NOT_LEADER_OR_FOLLOWER; nothing is written."""
        return self._story(recipes.leader_moved(topic, times, partition))

    def stale_leader(
        self, topic: str, *, leader: int, epoch: int | None = None, times: int = 1, partition: int | None = None
    ) -> Armed:
        """So many answers to Metadata name this broker as the leader, with this leader epoch, as a broker does that
        has not learned of a change yet."""
        return self._story(recipes.stale_leader(topic, leader, epoch, times, partition))

    def broker_missing_from_metadata(self, broker: int) -> Armed:
        """Clients are not told of a broker, until the rule is removed; it serves those that know it."""
        return self._story(recipes.broker_missing_from_metadata(broker))

    def controller_moved(self, *, times: int = 1) -> Armed:
        """The next requests that create or delete topics, or add partitions, are answered NOT_CONTROLLER."""
        return self._story(recipes.controller_moved(times))

    def unknown_topic_until(
        self, topic: str, *, times: int | None = None, for_ms: Duration | None = None, until: str | None = None
    ) -> Armed:
        """Metadata does not know a topic: so many times, for so long, or until a request of an API comes."""
        return self._story(recipes.unknown_topic_until(topic, times, for_ms, until))

    def no_coordinator(self, group: str | None = None, *, times: int = 1, transactional_id: str | None = None) -> Armed:
        """The next searches for the coordinator of a group, or of a transactional id, find none:
        COORDINATOR_NOT_AVAILABLE. Raises ValueError without either, or with both."""
        return self._story(recipes.no_coordinator(group, transactional_id, times))

    def coordinator_load_in_progress(
        self, group: str | None = None, *, for_ms: Duration, transactional_id: str | None = None
    ) -> Armed:
        """The coordinator of a group, or of a transactional id, says that it still loads, for this long. Raises
        ValueError without either, or with both."""
        return self._story(recipes.coordinator_load_in_progress(group, transactional_id, for_ms))

    def coordinator_moved(
        self, group: str | None = None, *, times: int = 1, transactional_id: str | None = None
    ) -> Armed:
        """The next requests of a group, or about transactions of an id, are answered NOT_COORDINATOR: clients look for
        the coordinator again. Raises ValueError without either, or with both."""
        return self._story(recipes.coordinator_moved(group, transactional_id, times))

    def rebalance_storm(self, group: str, *, times: int = 3) -> Armed:
        """So many heartbeats of a group are answered REBALANCE_IN_PROGRESS: its members join again and again."""
        return self._story(recipes.rebalance_storm(group, times))

    def produce_succeeds_but_answer_is_lost(self, topic: str, *, times: int = 1) -> Armed:
        """The next records of a topic are written, and the connection ends before the answer."""
        return self._story(recipes.produce_succeeds_but_answer_is_lost(topic, times))

    def commit_answer_is_lost(self, transactional_id: str, *, times: int = 1) -> Armed:
        """The transaction ends, and the connection before the answer."""
        return self._story(recipes.commit_answer_is_lost(transactional_id, times))

    def transaction_hangs(self, transactional_id: str) -> Armed:
        """Transactions of an id do not end: their commits and aborts wait until the rule releases them, and consumers
        at `read_committed` stop before the first record. `broker.transactions.abort` ends one."""
        return self._story(recipes.transaction_hangs(transactional_id))

    def producer_fenced(self, transactional_id: str) -> Armed:
        """A producer is told that a newer one has taken over its transactional id."""
        return self._story(recipes.producer_fenced(transactional_id))

    def slow_fetch(self, topic: str, *, delay: Duration) -> Armed:
        """Fetches of a topic are answered this much later."""
        return self._story(recipes.slow_fetch(topic, delay))

    def slow_broker(self, *, delay: Duration, broker: int | None = None) -> Armed:
        """Every request is served this much later."""
        return self._story(recipes.slow_broker(delay, broker))

    def network_partition(self, client_id: str) -> Armed:
        """No request of a client is answered, on any connection, until the rule is removed."""
        return self._story(recipes.network_partition(client_id))

    def outage(self, *, for_ms: Duration, broker: int | None = None) -> Armed:
        """Every connection ends with its next request, for this long."""
        return self._story(recipes.outage(for_ms, broker))

    def disk_full(self, topic: str | None = None, *, broker: int | None = None) -> Armed:
        """The disk has no room for a topic, or for anything, until the rule is removed."""
        return self._story(recipes.disk_full(topic, broker))

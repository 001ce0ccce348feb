"""Fault rules by the story that people test: each is a method of `broker.faults`, and one rule under the name of its
story."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from kmini.broker.clock import Duration
from kmini.protocol.errors import InvalidArgument

Armed = TypeVar("Armed")

_OF_GROUPS = ["JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch"]
"""Requests that a consumer sends to the coordinator of its group."""
_OF_THE_CONTROLLER = ["CreateTopics", "DeleteTopics", "CreatePartitions"]
"""Requests that an administrator's client sends to the controller."""
_OF_TRANSACTIONS = ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"]
"""Requests that a producer sends to the coordinator of its transactions."""
_ANSWER_LOST = {"disconnect": True, "applied": True}
"""The act of a rule that serves a request and ends the connection before the answer."""


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


class FaultStories(Generic[Armed]):
    """The stories that have a name."""

    def _load_one(self, document: dict[str, Any]) -> Armed:
        """Put a rule in force that is given as a JSON object."""
        raise NotImplementedError

    def _story(
        self, name: str, api: str | list[str], act: dict[str, Any], which: dict[str, Any] | None = None, **when: Any
    ) -> Armed:
        apis = [api] if isinstance(api, str) else api
        when = _given({"api": apis, **when})
        return self._load_one({"name": name, "when": when, "which": _given(which or {}), "do": [act]})

    def _coordinator_story(
        self,
        story: str,
        error: str,
        group: str | None,
        transactional_id: str | None,
        which: dict[str, Any],
        api: str | None = None,
    ) -> Armed:
        """An error to requests for the coordinator of a group, or of a transactional id. Raises ValueError unless one
        of them is given."""
        if (group is None) == (transactional_id is None):
            raise InvalidArgument(f"{story} needs a group or a transactional id")
        return self._story(
            f"{story} {transactional_id if group is None else group}",
            api or (_OF_TRANSACTIONS if group is None else _OF_GROUPS),
            {"error": error},
            which,
            group=group,
            transactional_id=transactional_id,
        )

    def leader_not_available(self, topic: str, *, for_ms: Duration, partition: int | None = None) -> Armed:
        """Metadata says LEADER_NOT_AVAILABLE for a topic, or one partition, for this long."""
        error = {"error": "LEADER_NOT_AVAILABLE"}
        return self._story(
            f"leader_not_available {topic}", "Metadata", error, {"for": for_ms}, topic=topic, partition=partition
        )

    def leader_moved(self, topic: str, *, times: int = 1, partition: int | None = None) -> Armed:
        """The next produces and fetches of a topic are answered NOT_LEADER_OR_FOLLOWER; nothing is written."""
        error, which = {"error": "NOT_LEADER_OR_FOLLOWER"}, {"times": times}
        return self._story(
            f"leader_moved {topic}", ["Produce", "Fetch"], error, which, topic=topic, partition=partition
        )

    def stale_leader(
        self, topic: str, *, leader: int, epoch: int | None = None, times: int = 1, partition: int | None = None
    ) -> Armed:
        """So many answers to Metadata name this broker as the leader, with this leader epoch, as a broker does that
        has not learned of a change yet."""
        act = _given({"leader": leader, "epoch": epoch})
        return self._story(f"stale_leader {topic}", "Metadata", act, {"times": times}, topic=topic, partition=partition)

    def broker_missing_from_metadata(self, broker: int) -> Armed:
        """Clients are not told of a broker, until the rule is removed; it serves those that know it."""
        name = f"broker_missing_from_metadata {broker}"
        return self._story(name, ["Metadata", "DescribeCluster"], {"without_broker": broker})

    def controller_moved(self, *, times: int = 1) -> Armed:
        """The next requests that create or delete topics, or add partitions, are answered NOT_CONTROLLER."""
        return self._story("controller_moved", _OF_THE_CONTROLLER, {"error": "NOT_CONTROLLER"}, {"times": times})

    def unknown_topic_until(
        self, topic: str, *, times: int | None = None, for_ms: Duration | None = None, until: str | None = None
    ) -> Armed:
        """Metadata does not know a topic: so many times, for so long, or until a request of an API comes."""
        error, which = {"error": "UNKNOWN_TOPIC_OR_PARTITION"}, {"times": times, "for": for_ms, "until": until}
        return self._story(f"unknown_topic_until {topic}", "Metadata", error, which, topic=topic)

    def no_coordinator(self, group: str | None = None, *, times: int = 1, transactional_id: str | None = None) -> Armed:
        """The next searches for the coordinator of a group, or of a transactional id, find none:
        COORDINATOR_NOT_AVAILABLE. Raises ValueError without either, or with both."""
        error = "COORDINATOR_NOT_AVAILABLE"
        return self._coordinator_story(
            "no_coordinator", error, group, transactional_id, {"times": times}, "FindCoordinator"
        )

    def coordinator_load_in_progress(
        self, group: str | None = None, *, for_ms: Duration, transactional_id: str | None = None
    ) -> Armed:
        """The coordinator of a group, or of a transactional id, says that it still loads, for this long. Raises
        ValueError without either, or with both."""
        story, error = "coordinator_load_in_progress", "COORDINATOR_LOAD_IN_PROGRESS"
        return self._coordinator_story(story, error, group, transactional_id, {"for": for_ms})

    def coordinator_moved(
        self, group: str | None = None, *, times: int = 1, transactional_id: str | None = None
    ) -> Armed:
        """The next requests of a group, or about transactions of an id, are answered NOT_COORDINATOR: clients look for
        the coordinator again. Raises ValueError without either, or with both."""
        return self._coordinator_story(
            "coordinator_moved", "NOT_COORDINATOR", group, transactional_id, {"times": times}
        )

    def rebalance_storm(self, group: str, *, times: int = 3) -> Armed:
        """So many heartbeats of a group are answered REBALANCE_IN_PROGRESS: its members join again and again."""
        error = {"error": "REBALANCE_IN_PROGRESS"}
        return self._story(f"rebalance_storm {group}", "Heartbeat", error, {"times": times}, group=group)

    def produce_succeeds_but_answer_is_lost(self, topic: str, *, times: int = 1) -> Armed:
        """The next records of a topic are written, and the connection ends before the answer."""
        name = f"produce_succeeds_but_answer_is_lost {topic}"
        return self._story(name, "Produce", _ANSWER_LOST, {"times": times}, topic=topic)

    def commit_answer_is_lost(self, transactional_id: str, *, times: int = 1) -> Armed:
        """The transaction ends, and the connection before the answer."""
        name = f"commit_answer_is_lost {transactional_id}"
        return self._story(name, "EndTxn", _ANSWER_LOST, {"times": times}, transactional_id=transactional_id)

    def transaction_hangs(self, transactional_id: str) -> Armed:
        """Transactions of an id do not end: their commits and aborts wait until the rule releases them, and consumers
        at `read_committed` stop before the first record. `broker.transactions.abort` ends one."""
        name = f"transaction_hangs {transactional_id}"
        return self._story(name, "EndTxn", {"hold": "before"}, transactional_id=transactional_id)

    def producer_fenced(self, transactional_id: str) -> Armed:
        """A producer is told that a newer one has taken over its transactional id."""
        name, error = f"producer_fenced {transactional_id}", {"error": "INVALID_PRODUCER_EPOCH"}
        return self._story(name, _OF_TRANSACTIONS[1:], error, transactional_id=transactional_id)

    def slow_fetch(self, topic: str, *, delay: Duration) -> Armed:
        """Fetches of a topic are answered this much later."""
        return self._story(f"slow_fetch {topic}", "Fetch", {"delay": delay, "when": "after"}, topic=topic)

    def slow_broker(self, *, delay: Duration, broker: int | None = None) -> Armed:
        """Every request is served this much later."""
        return self._story("slow_broker", "*", {"delay": delay}, broker=broker)

    def network_partition(self, client_id: str) -> Armed:
        """No request of a client is answered, on any connection, until the rule is removed."""
        return self._story(f"network_partition {client_id}", "*", {"silent": True}, client_id=client_id)

    def outage(self, *, for_ms: Duration, broker: int | None = None) -> Armed:
        """Every connection ends with its next request, for this long."""
        return self._story("outage", "*", {"disconnect": True}, {"for": for_ms}, broker=broker)

    def disk_full(self, topic: str | None = None, *, broker: int | None = None) -> Armed:
        """The disk has no room for a topic, or for anything, until the rule is removed."""
        name = "disk_full" if topic is None else f"disk_full {topic}"
        return self._story(name, "disk", {"disk": "full"}, topic=topic, broker=broker)

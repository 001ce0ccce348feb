"""Fault rules by the story that people test: each is one rule, as JSON, under the name of its story."""

from __future__ import annotations

from typing import Any

from ...protocol.errors import InvalidArgument

Document = dict[str, Any]

_OF_GROUPS = ["JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch"]
"""Requests that a consumer sends to the coordinator of its group."""
_OF_THE_CONTROLLER = ["CreateTopics", "DeleteTopics", "CreatePartitions"]
"""Requests that an administrator's client sends to the controller."""
_OF_TRANSACTIONS = ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"]
"""Requests that a producer sends to the coordinator of its transactions."""


def _rule(name: str, api: str | list[str], act: Document, *, which: Document | None = None, **when: Any) -> Document:
    given = {key: value for key, value in when.items() if value is not None}
    apis = [api] if isinstance(api, str) else api
    chosen = {key: value for key, value in (which or {}).items() if value is not None}
    return {"name": name, "when": {"api": apis, **given}, "which": chosen, "do": [act]}


def leader_not_available(topic: str, for_ms: Any, partition: int | None) -> Document:
    return _rule(
        f"leader_not_available {topic}",
        "Metadata",
        {"error": "LEADER_NOT_AVAILABLE"},
        which={"for": for_ms},
        topic=topic,
        partition=partition,
    )


def leader_moved(topic: str, times: int, partition: int | None) -> Document:
    return _rule(
        f"leader_moved {topic}",
        ["Produce", "Fetch"],
        {"error": "NOT_LEADER_OR_FOLLOWER"},
        which={"times": times},
        topic=topic,
        partition=partition,
    )


def unknown_topic_until(topic: str, times: int | None, for_ms: Any, until: str | None) -> Document:
    return _rule(
        f"unknown_topic_until {topic}",
        "Metadata",
        {"error": "UNKNOWN_TOPIC_OR_PARTITION"},
        which={"times": times, "for": for_ms, "until": until},
        topic=topic,
    )


def stale_leader(topic: str, leader: int, epoch: int | None, times: int, partition: int | None) -> Document:
    act = {"leader": leader} if epoch is None else {"leader": leader, "epoch": epoch}
    return _rule(f"stale_leader {topic}", "Metadata", act, which={"times": times}, topic=topic, partition=partition)


def broker_missing_from_metadata(broker: int) -> Document:
    return _rule(f"broker_missing_from_metadata {broker}", ["Metadata", "DescribeCluster"], {"without_broker": broker})


def controller_moved(times: int) -> Document:
    return _rule("controller_moved", _OF_THE_CONTROLLER, {"error": "NOT_CONTROLLER"}, which={"times": times})


def no_coordinator(group: str | None, transactional_id: str | None, times: int) -> Document:
    return _of_coordinator(
        "no_coordinator", "COORDINATOR_NOT_AVAILABLE", group, transactional_id, {"times": times}, api="FindCoordinator"
    )


def coordinator_load_in_progress(group: str | None, transactional_id: str | None, for_ms: Any) -> Document:
    return _of_coordinator(
        "coordinator_load_in_progress", "COORDINATOR_LOAD_IN_PROGRESS", group, transactional_id, {"for": for_ms}
    )


def coordinator_moved(group: str | None, transactional_id: str | None, times: int) -> Document:
    return _of_coordinator("coordinator_moved", "NOT_COORDINATOR", group, transactional_id, {"times": times})


def _of_coordinator(
    story: str, error: str, group: str | None, transactional_id: str | None, which: Document, *, api: str | None = None
) -> Document:
    """An error to requests for the coordinator of a group, or of a transactional id. Raises ValueError unless one of
    them is given."""
    if (group is None) == (transactional_id is None):
        raise InvalidArgument(f"{story} needs a group or a transactional id")
    return _rule(
        f"{story} {transactional_id if group is None else group}",
        api or (_OF_TRANSACTIONS if group is None else _OF_GROUPS),
        {"error": error},
        which=which,
        group=group,
        transactional_id=transactional_id,
    )


def rebalance_storm(group: str, times: int) -> Document:
    return _rule(
        f"rebalance_storm {group}",
        "Heartbeat",
        {"error": "REBALANCE_IN_PROGRESS"},
        which={"times": times},
        group=group,
    )


def produce_succeeds_but_answer_is_lost(topic: str, times: int) -> Document:
    return _rule(
        f"produce_succeeds_but_answer_is_lost {topic}",
        "Produce",
        {"disconnect": True, "applied": True},
        which={"times": times},
        topic=topic,
    )


def commit_answer_is_lost(transactional_id: str, times: int) -> Document:
    return _rule(
        f"commit_answer_is_lost {transactional_id}",
        "EndTxn",
        {"disconnect": True, "applied": True},
        which={"times": times},
        transactional_id=transactional_id,
    )


def transaction_hangs(transactional_id: str) -> Document:
    return _rule(
        f"transaction_hangs {transactional_id}", "EndTxn", {"hold": "before"}, transactional_id=transactional_id
    )


def producer_fenced(transactional_id: str) -> Document:
    return _rule(
        f"producer_fenced {transactional_id}",
        [*_OF_TRANSACTIONS[1:]],
        {"error": "INVALID_PRODUCER_EPOCH"},
        transactional_id=transactional_id,
    )


def slow_fetch(topic: str, delay: Any) -> Document:
    return _rule(f"slow_fetch {topic}", "Fetch", {"delay": delay, "when": "after"}, topic=topic)


def slow_broker(delay: Any, broker: int | None) -> Document:
    return _rule("slow_broker", "*", {"delay": delay}, broker=broker)


def network_partition(client_id: str) -> Document:
    return _rule(f"network_partition {client_id}", "*", {"silent": True}, client_id=client_id)


def outage(for_ms: Any, broker: int | None) -> Document:
    return _rule("outage", "*", {"disconnect": True}, which={"for": for_ms}, broker=broker)


def disk_full(topic: str | None, broker: int | None) -> Document:
    return _rule(
        "disk_full" if topic is None else f"disk_full {topic}", "disk", {"disk": "full"}, topic=topic, broker=broker
    )

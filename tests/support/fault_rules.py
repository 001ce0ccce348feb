"""Fault rules for tests that need no broker."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from kmini.broker.faults.matching import Asked
from kmini.broker.faults.rule import Rule
from kmini.broker.faults.rule_checks import Possible, rule_from_json
from kmini.broker.handlers import HANDLERS
from kmini.protocol import messages as m
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record

ALL_APIS = Possible(HANDLERS, [1])
"""A broker that serves everything."""


def rule(
    api: str | list[str] = "Produce", *, name: str = "rule", do: Any = None, which: Any = None, **when: Any
) -> Rule:
    """A rule that is made as from JSON."""
    document = {
        "name": name,
        "when": {"api": api, **when},
        "which": which or {},
        "do": do if do is not None else [{"delay": 1}],
    }
    return rule_from_json(document, ALL_APIS)


def produce_request(*topics: str) -> m.ProduceRequest:
    """A produce without records to partition 0 of each topic."""
    Topic = m.ProduceRequest.Topic
    return m.ProduceRequest(
        acks=1,
        timeout_ms=1_000,
        topic_data=[
            Topic(name=name, partition_data=[Topic.Partition(index=0, records=None)]) for name in topics or ("orders",)
        ],
    )


def asked(
    request: Any = None, *, version: int = 9, client_id: str | None = "app-1", broker: int = 1, port: int = 40_112
) -> Asked:
    """A request as the conditions of rules see it."""
    services: Any = SimpleNamespace(
        node_id=broker,
        controller=SimpleNamespace(topic_by_id=lambda topic_id: None),
        fetch_sessions=SimpleNamespace(keys_of=lambda session_id: ()),
    )
    connection: Any = SimpleNamespace(
        listener=SimpleNamespace(name="PLAINTEXT"), principal="User:ANONYMOUS", peer=("127.0.0.1", port)
    )
    context: Any = SimpleNamespace(services=services, connection=connection, client_id=client_id)
    request = produce_request() if request is None else request
    return Asked(request.name, version, context, request)


def produce(*topics: str, acks: int = 1) -> m.ProduceRequest:
    """A produce of one record to partition 0 of each topic."""
    request = produce_request(*topics)
    request.acks = acks
    for topic in request.topic_data:
        topic.partition_data[0].records = bytes(build_batch([Record(0, time.time_ns() // 1_000_000, None, b"v", ())]))
    return request


def fetch(topic: str = "orders", *, offset: int = 0, max_wait_ms: int = 0) -> m.FetchRequest:
    """A fetch of partition 0."""
    Topic = m.FetchRequest.Topic
    wanted = Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[Topic(topic=topic, partitions=[wanted])])


def codes_of(answer: Any) -> dict[str, int]:
    """The error code of partition 0 by topic."""
    return {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}

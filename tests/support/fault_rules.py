"""Fault rules for tests that need no broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kmini.broker.faults.matching import Asked
from kmini.broker.faults.rule import Rule
from kmini.broker.faults.rule_checks import Possible, rule_from_json
from kmini.broker.handlers import HANDLERS
from kmini.protocol import messages as m

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

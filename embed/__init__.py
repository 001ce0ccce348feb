"""A Kafka broker in a pip install: real semantics, small and fast.

from kmini import Broker

with Broker(topics={"orders": 3}) as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
"""

import os
from typing import TYPE_CHECKING, Any

if os.environ.get("KMINI_PURE"):
    from kmini.protocol.extension_modules import prefer_sources

    prefer_sources()

if TYPE_CHECKING:
    from kmini.arrivals import RecordsMissing
    from kmini.broker.controller.controller import ControllerError
    from kmini.broker.journal.entries import JournalEntry
    from kmini.broker.network.socket_server import PortTaken
    from kmini.broker.settings.broker_config import ConfigError
    from kmini.clock_handle import AsyncClock, Clock
    from kmini.cluster import AsyncCluster, BrokerNotRunning, Cluster, ReplicaOffsets
    from kmini.contents import PartitionOffsets, Record
    from kmini.embedded import AsyncBroker, Broker
    from kmini.fault_handle import AsyncFault, AsyncFaults, Fault, Faults
    from kmini.journal_handle import AsyncRequests, Requests, RequestsLost
    from kmini.protocol.errors import KafkaError
    from kmini.pytest_plugin.leftovers import KafkaTestWarning
    from kmini.selection import Mark
    from kmini.topic_handle import AsyncTopic, Topic, TopicPartitionState

_HOMES = {
    "AsyncBroker": "embedded",
    "AsyncClock": "clock_handle",
    "AsyncCluster": "cluster",
    "AsyncRequests": "journal_handle",
    "AsyncFault": "fault_handle",
    "AsyncFaults": "fault_handle",
    "AsyncTopic": "topic_handle",
    "Broker": "embedded",
    "BrokerNotRunning": "cluster",
    "Clock": "clock_handle",
    "Cluster": "cluster",
    "ConfigError": "broker.settings.broker_config",
    "ControllerError": "broker.controller.controller",
    "JournalEntry": "broker.journal.entries",
    "Fault": "fault_handle",
    "Faults": "fault_handle",
    "KafkaError": "protocol.errors",
    "KafkaTestWarning": "pytest_plugin.leftovers",
    "Mark": "selection",
    "PartitionOffsets": "contents",
    "PortTaken": "broker.network.socket_server",
    "Record": "contents",
    "RecordsMissing": "arrivals",
    "ReplicaOffsets": "cluster",
    "Requests": "journal_handle",
    "RequestsLost": "journal_handle",
    "Topic": "topic_handle",
    "TopicPartitionState": "topic_handle",
}
"""The module of each public name."""

__all__ = [
    "AsyncBroker",
    "AsyncClock",
    "AsyncCluster",
    "AsyncFault",
    "AsyncFaults",
    "AsyncRequests",
    "AsyncTopic",
    "Broker",
    "BrokerNotRunning",
    "Clock",
    "Cluster",
    "ConfigError",
    "ControllerError",
    "Fault",
    "Faults",
    "JournalEntry",
    "KafkaError",
    "KafkaTestWarning",
    "Mark",
    "PartitionOffsets",
    "PortTaken",
    "Record",
    "RecordsMissing",
    "ReplicaOffsets",
    "Requests",
    "RequestsLost",
    "Topic",
    "TopicPartitionState",
]


def __getattr__(name: str) -> Any:
    """Import the module of a public name when it is used: the command line does not need the embedded broker."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"kmini.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'kmini' has no attribute {name!r}")

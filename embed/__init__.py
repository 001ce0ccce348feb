"""A Kafka broker in a pip install: real semantics, small and fast.

from kmini import Broker

with Broker(topics={"orders": 3}) as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
"""

import os
import sys
from typing import TYPE_CHECKING, Any

if os.environ.get("KMINI_PURE"):
    from kmini.protocol.extension_modules import prefer_sources

    prefer_sources()

if TYPE_CHECKING:
    from kmini.arrivals import RecordsMissing
    from kmini.broker.controller.controller import ControllerError
    from kmini.broker.journal.entries import JournalEntry
    from kmini.broker.network.socket_server import PortTaken
    from kmini.broker.resetting import ResetReport
    from kmini.broker.settings.broker_config import ConfigError
    from kmini.broker.snapshots import Snapshot, SnapshotError
    from kmini.client_connections import ClientConnection
    from kmini.clock_handle import AsyncClock, Clock
    from kmini.cluster import AsyncCluster, Cluster, ReplicaOffsets
    from kmini.contents import PartitionOffsets, Record
    from kmini.control.connected import connect
    from kmini.descriptions import GroupDescription, GroupMember, OpenTransaction
    from kmini.embedded import AsyncBroker, Broker
    from kmini.expectation import Expectation
    from kmini.fault_draft import FaultDraft
    from kmini.fault_handle import AsyncFault, AsyncFaults, Fault, Faults
    from kmini.group_handle import AsyncGroup, Group
    from kmini.journal_handle import AsyncRequests, Requests, RequestsLost
    from kmini.protocol.errors import KafkaError
    from kmini.pytest_plugin.leftovers import KafkaTestWarning
    from kmini.seeds import SeedError
    from kmini.selection import Mark
    from kmini.shared_operations import BrokerNotRunning
    from kmini.topic_handle import AsyncTopic, Topic, TopicPartitionState
    from kmini.transaction_handle import AsyncTransactions, Transactions
    from kmini.waiting import NotInTime

_HOMES = {
    "AsyncBroker": "embedded",
    "AsyncClock": "clock_handle",
    "AsyncCluster": "cluster",
    "AsyncFault": "fault_handle",
    "AsyncFaults": "fault_handle",
    "AsyncGroup": "group_handle",
    "AsyncRequests": "journal_handle",
    "AsyncTopic": "topic_handle",
    "AsyncTransactions": "transaction_handle",
    "Broker": "embedded",
    "BrokerNotRunning": "shared_operations",
    "ClientConnection": "client_connections",
    "Clock": "clock_handle",
    "Cluster": "cluster",
    "ConfigError": "broker.settings.broker_config",
    "ControllerError": "broker.controller.controller",
    "Expectation": "expectation",
    "Fault": "fault_handle",
    "FaultDraft": "fault_draft",
    "Faults": "fault_handle",
    "Group": "group_handle",
    "GroupDescription": "descriptions",
    "GroupMember": "descriptions",
    "JournalEntry": "broker.journal.entries",
    "KafkaError": "protocol.errors",
    "KafkaTestWarning": "pytest_plugin.leftovers",
    "Mark": "selection",
    "NotInTime": "waiting",
    "OpenTransaction": "descriptions",
    "PartitionOffsets": "contents",
    "PortTaken": "broker.network.socket_server",
    "Record": "contents",
    "RecordsMissing": "arrivals",
    "ReplicaOffsets": "cluster",
    "Requests": "journal_handle",
    "RequestsLost": "journal_handle",
    "ResetReport": "broker.resetting",
    "SeedError": "seeds",
    "Snapshot": "broker.snapshots",
    "SnapshotError": "broker.snapshots",
    "Topic": "topic_handle",
    "TopicPartitionState": "topic_handle",
    "Transactions": "transaction_handle",
    "connect": "control.connected",
}
"""The module of each public name."""

__all__ = [
    "AsyncBroker",
    "AsyncClock",
    "AsyncCluster",
    "AsyncFault",
    "AsyncFaults",
    "AsyncGroup",
    "AsyncRequests",
    "AsyncTopic",
    "AsyncTransactions",
    "Broker",
    "BrokerNotRunning",
    "ClientConnection",
    "Clock",
    "Cluster",
    "ConfigError",
    "ControllerError",
    "Expectation",
    "Fault",
    "FaultDraft",
    "Faults",
    "Group",
    "GroupDescription",
    "GroupMember",
    "JournalEntry",
    "KafkaError",
    "KafkaTestWarning",
    "Mark",
    "NotInTime",
    "OpenTransaction",
    "PartitionOffsets",
    "PortTaken",
    "Record",
    "RecordsMissing",
    "ReplicaOffsets",
    "Requests",
    "RequestsLost",
    "ResetReport",
    "SeedError",
    "Snapshot",
    "SnapshotError",
    "Topic",
    "TopicPartitionState",
    "Transactions",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Import the module of a public name when it is used: the command line does not need the embedded broker."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"kmini.{_HOMES[name]}"), name)
    # The interpreter adds a similar name, of those that dir() lists, when it prints the error.
    raise AttributeError(f"module 'kmini' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    """The public names, also those that are imported when they are used."""
    return sorted({*globals(), *__all__})

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
    from kmini.broker.controller.controller import ControllerError
    from kmini.broker.journal.entries import JournalEntry
    from kmini.broker.network.socket_server import PortTaken
    from kmini.broker.reset import ResetReport
    from kmini.broker.settings.broker_config import ConfigError
    from kmini.broker.snapshots import Snapshot, SnapshotError
    from kmini.control.connected import connect
    from kmini.protocol.errors import KafkaError
    from kmini.pytest_plugin.leftovers import KafkaTestWarning
    from kmini.testkit.arrivals import RecordsMissing
    from kmini.testkit.client_connections import ClientConnection
    from kmini.testkit.clock_handle import AsyncClock, Clock
    from kmini.testkit.cluster import AsyncCluster, Cluster, ReplicaOffsets
    from kmini.testkit.contents import PartitionOffsets, Record
    from kmini.testkit.descriptions import (
        GroupDescription,
        GroupMember,
        InFlightRecords,
        OpenTransaction,
        SharePartition,
    )
    from kmini.testkit.embedded import AsyncBroker, Broker
    from kmini.testkit.expectation import Expectation
    from kmini.testkit.fault_draft import FaultDraft
    from kmini.testkit.fault_handle import AsyncFault, AsyncFaults, Fault, Faults
    from kmini.testkit.group_handle import AsyncGroup, Group
    from kmini.testkit.journal_handle import AsyncRequests, Requests, RequestsLost
    from kmini.testkit.operations import BrokerNotRunning
    from kmini.testkit.record_selection import Mark
    from kmini.testkit.seeds import SeedError
    from kmini.testkit.topic_handle import AsyncTopic, Topic, TopicPartitionState
    from kmini.testkit.transaction_handle import AsyncTransactions, Transactions
    from kmini.testkit.waiting import NotInTime

_HOMES = {
    "AsyncBroker": "testkit.embedded",
    "AsyncClock": "testkit.clock_handle",
    "AsyncCluster": "testkit.cluster",
    "AsyncFault": "testkit.fault_handle",
    "AsyncFaults": "testkit.fault_handle",
    "AsyncGroup": "testkit.group_handle",
    "AsyncRequests": "testkit.journal_handle",
    "AsyncTopic": "testkit.topic_handle",
    "AsyncTransactions": "testkit.transaction_handle",
    "Broker": "testkit.embedded",
    "BrokerNotRunning": "testkit.operations",
    "ClientConnection": "testkit.client_connections",
    "Clock": "testkit.clock_handle",
    "Cluster": "testkit.cluster",
    "ConfigError": "broker.settings.broker_config",
    "ControllerError": "broker.controller.controller",
    "Expectation": "testkit.expectation",
    "Fault": "testkit.fault_handle",
    "FaultDraft": "testkit.fault_draft",
    "Faults": "testkit.fault_handle",
    "Group": "testkit.group_handle",
    "GroupDescription": "testkit.descriptions",
    "GroupMember": "testkit.descriptions",
    "InFlightRecords": "testkit.descriptions",
    "JournalEntry": "broker.journal.entries",
    "KafkaError": "protocol.errors",
    "KafkaTestWarning": "pytest_plugin.leftovers",
    "Mark": "testkit.record_selection",
    "NotInTime": "testkit.waiting",
    "OpenTransaction": "testkit.descriptions",
    "PartitionOffsets": "testkit.contents",
    "PortTaken": "broker.network.socket_server",
    "Record": "testkit.contents",
    "RecordsMissing": "testkit.arrivals",
    "ReplicaOffsets": "testkit.cluster",
    "Requests": "testkit.journal_handle",
    "RequestsLost": "testkit.journal_handle",
    "ResetReport": "broker.reset",
    "SeedError": "testkit.seeds",
    "SharePartition": "testkit.descriptions",
    "Snapshot": "broker.snapshots",
    "SnapshotError": "broker.snapshots",
    "Topic": "testkit.topic_handle",
    "TopicPartitionState": "testkit.topic_handle",
    "Transactions": "testkit.transaction_handle",
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
    "InFlightRecords",
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
    "SharePartition",
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

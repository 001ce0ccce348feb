"""A Kafka broker in a pip install: real semantics, small and fast.

from kmini import Broker

with Broker(topics={"orders": 3}) as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmini.cluster import AsyncCluster, Cluster, ReplicaOffsets
    from kmini.embedded import AsyncBroker, AsyncClock, AsyncTopic, Broker, Clock, PartitionOffsets, Topic

__all__ = [
    "AsyncBroker",
    "AsyncClock",
    "AsyncCluster",
    "AsyncTopic",
    "Broker",
    "Clock",
    "Cluster",
    "PartitionOffsets",
    "ReplicaOffsets",
    "Topic",
]

_OF_CLUSTERS = ("AsyncCluster", "Cluster", "ReplicaOffsets")


def __getattr__(name: str) -> Any:
    """Import the embedded broker when it is asked for: the command line does without."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("kmini.cluster" if name in _OF_CLUSTERS else "kmini.embedded"), name)
    raise AttributeError(f"module 'kmini' has no attribute {name!r}")

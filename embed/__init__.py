"""A Kafka broker in a pip install: real semantics, small and fast.

from kmini import Broker

with Broker(topics={"orders": 3}) as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmini.embedded import AsyncBroker, Broker, PartitionOffsets

__all__ = ["AsyncBroker", "Broker", "PartitionOffsets"]


def __getattr__(name: str) -> Any:
    """Import the embedded broker when it is asked for: the command line does without."""
    if name in __all__:
        from kmini import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module 'kmini' has no attribute {name!r}")

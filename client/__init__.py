"""A small Kafka client on asyncio: for the command line, for replication, and for programs that need no more.

    async with Client("127.0.0.1:9092") as client:
        await client.create_topics({"orders": NewTopic(partitions=3)})
        await client.produce("orders", 0, [record(b"value", key=b"key")])
        outcome = await client.delete_records_before({("orders", 0): 1}, timeout_ms=5_000)

From the bottom up: `connection` (one broker: framing, pipelining, time-outs), `cluster_connections` (leaders, retries),
and `client` with its parts (`produce`, `consume`, `groups`, ...). Errors are those of `kmini.protocol.errors`; errors
that arise on this side of the wire are `Disconnected` (with `NoBrokerAnswers` and `NotAKafkaBroker`) and
`RequestTimedOut`.
"""

from .address import Address, parse_addresses
from .client import Client
from .cluster_connections import ClusterConnections
from .configs import ConfigEntry, ConfigResource
from .connection import Connection, ConnectionSettings
from .consume import ConsumedRecord
from .delete_records import DeleteRecordsResult
from .errors import Disconnected, NoBrokerAnswers, NotAKafkaBroker
from .group_descriptions import GroupDescription, GroupMember, ShareGroupOffset
from .groups import CommittedOffset, GroupListing
from .produce import ProduceResult, record
from .sasl import Sasl
from .topics import NewTopic
from .transactions import TransactionDescription, TransactionListing

__all__ = [
    "Address",
    "Client",
    "ClusterConnections",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigResource",
    "Connection",
    "ConnectionSettings",
    "ConsumedRecord",
    "DeleteRecordsResult",
    "Disconnected",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "NewTopic",
    "NoBrokerAnswers",
    "NotAKafkaBroker",
    "ProduceResult",
    "Sasl",
    "ShareGroupOffset",
    "TransactionDescription",
    "TransactionListing",
    "parse_addresses",
    "record",
]

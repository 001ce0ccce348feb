"""Which Kafka answers at an address, as far as its protocol tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kmini.client import Client, ConfigResource
from kmini.client.deadline import Deadline
from kmini.protocol.api_keys import API_KEYS

_MARKERS = (
    ("4.3", "DescribeLogDirs", 5),
    ("4.2", "ListOffsets", 11),
    ("4.1", "Produce", 13),
    ("4.0", "ListOffsets", 10),
    ("3.9", "Fetch", 17),
    ("3.8", "Produce", 11),
    ("3.7", "Fetch", 16),
    ("3.6", "AddPartitionsToTxn", 4),
    ("3.5", "Fetch", 15),
    ("3.3", "DescribeAcls", 3),
    ("3.2", "JoinGroup", 9),
    ("3.1", "Fetch", 13),
    ("3.0", "ListOffsets", 7),
    ("2.8", "Produce", 9),
)
"""Releases of Apache Kafka, the newest first, each with an API of which it was the first to serve this version."""

AS_VERSION = "kmini.as.version"


async def server_identity(client: Client) -> str:
    """Name the server and its release: "Apache Kafka 4.3", "kmini as Kafka 4.3". No request tells the third number of a
    release. Raises KafkaError if no broker answers."""
    metadata = await client.metadata([])
    connection = await client.cluster.any_connection(Deadline(client.timeout_ms))
    node = metadata.brokers[0].node_id
    settings = await client.describe_configs(ConfigResource.broker(node), [AS_VERSION])
    return identity_of(metadata.cluster_id, connection.versions, (entry.name for entry in settings))


def identity_of(cluster_id: str | None, versions: Mapping[int, tuple[int, int]], settings: Iterable[str]) -> str:
    """The server and its release, by its cluster id, the versions that it serves of each API key, and the names of its
    settings, `AS_VERSION` among those asked for."""
    if (cluster_id or "").startswith("redpanda."):
        return "Redpanda"
    release = release_of({api: highest for api, (_, highest) in versions.items()})
    return f"kmini as Kafka {release}" if AS_VERSION in settings else f"Apache Kafka {release}"


def release_of(highest: Mapping[int, int]) -> str:
    """The release whose requests these are, by the highest version of each API key."""
    for release, api, version in _MARKERS:
        if highest.get(API_KEYS[api], -1) >= version:
            return release
    return "before 2.8"

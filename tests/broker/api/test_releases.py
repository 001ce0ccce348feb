"""What a broker passes for: the ranges of releases of Apache Kafka, and what clients make of them."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, infer_broker_version_from_api_versions

from kmini.broker.api.registry import served
from kmini.broker.api.releases import ADVERTISED_FLOORS, RELEASES, Feature, Release
from kmini.broker.broker import BrokerServer
from kmini.broker.handlers import HANDLERS
from kmini.broker.handlers.api_versions import api_versions
from kmini.protocol.api_keys import API_KEYS, API_NAMES
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

BETWEEN_BROKERS = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition", "Envelope"}
ZOOKEEPER_ONLY = {API_KEYS[name] for name in BETWEEN_BROKERS | {"AllocateProducerIds"}}
"""What kafka-python's table of 3.9, asked from a broker with ZooKeeper, has and one in KRaft mode has not."""

QUORUM = {"DescribeQuorum", "UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter"}
KRAFT_ONLY = {API_KEYS[name] for name in QUORUM | {"ListConfigResources", "DescribeTopicPartitions"}}

WITH_TELEMETRY = {API_KEYS[name] for name in ("GetTelemetrySubscriptions", "PushTelemetry")}
"""Advertised only by a broker with a plugin that takes them."""

CLIENT = ApiVersionsRequest(client_software_name="kmini-tests", client_software_version="1")


@pytest.mark.parametrize("name", RELEASES)
def test_the_table_is_what_a_real_broker_of_the_release_told_kafka_python(name: str) -> None:
    """An independent reading: kafka-python's own tables, taken from brokers."""
    theirs = BROKER_API_VERSIONS[tuple(map(int, name.split(".")))]
    ours = {
        api_key: (ADVERTISED_FLOORS.get(api_key, versions.min), versions.max)
        for api_key, versions in RELEASES[name].versions.items()
    }
    differing = {
        API_NAMES[api_key]: (ours.get(api_key), theirs.get(api_key))
        for api_key in ours.keys() | theirs.keys()
        if ours.get(api_key) != theirs.get(api_key)
    }
    assert {API_KEYS[api] for api in differing} <= ZOOKEEPER_ONLY | KRAFT_ONLY | WITH_TELEMETRY, differing


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_narrows_what_is_served_and_adds_nothing(name: str) -> None:
    versions, everything = RELEASES[name].versions, HANDLERS
    handlers = served(HANDLERS, RELEASES[name])
    assert handlers.keys() == everything.keys() & versions.keys()
    for api_key, handler in handlers.items():
        assert handler.max_version == min(versions[api_key].max, everything[api_key].max_version), handler
        assert handler.min_version == max(versions[api_key].min, everything[api_key].min_version), handler
        assert handler.load().function is everything[api_key].load().function


def test_an_api_without_a_version_in_common_is_not_served() -> None:
    fetch = HANDLERS[API_KEYS["Fetch"]]
    beyond = Release({API_KEYS["Fetch"]: RELEASES["4.3"].versions[API_KEYS["Fetch"]]._replace(min=90, max=91)}, ())
    assert fetch.max_version < 90
    assert served(HANDLERS, beyond) == {}


@pytest.mark.sockets
@pytest.mark.parametrize("name", [None, *RELEASES])
async def test_kafka_python_infers_the_release(start_broker: Any, name: str | None) -> None:
    inferred = tuple(map(int, (name or "4.3").split(".")))
    settings = {"kmini_as_version": name} if name else {}
    broker = await start_broker(**settings)
    answer = await tell(broker)
    told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert infer_broker_version_from_api_versions(told) == inferred


@pytest.mark.parametrize(("name", "level", "lowest"), [(None, 30, 7), ("4.3", 30, 7), ("4.0", 25, 7), ("3.9", 21, 1)])
async def test_the_feature_told_is_the_releases(start_broker: Any, name: str | None, level: int, lowest: int) -> None:
    broker = await start_broker(**({"kmini_as_version": name} if name else {}))
    answer = await tell(broker)
    supported, finalized = answer.supported_features[0], answer.finalized_features[0]
    others = [feature.name for feature in answer.finalized_features[1:]]
    newest = ["transaction.version", "group.version", "share.version", "streams.version"]
    assert others == {"3.9": [], "4.0": newest[:2]}.get(name or "4.3", newest)
    assert (supported.name, supported.min_version, supported.max_version) == ("metadata.version", lowest, level)
    assert (finalized.name, finalized.min_version_level, finalized.max_version_level) == (
        "metadata.version",
        level,
        level,
    )


async def test_a_release_with_zookeeper_has_no_features(start_broker: Any) -> None:
    broker = await start_broker(kmini_as_version="2.8")
    answer = await tell(broker, 3)
    assert (answer.supported_features, answer.finalized_features) == ([], [])


async def test_features_with_a_level_0_are_told_from_version_4_on_and_finalized_above_0(start_broker: Any) -> None:
    broker = await start_broker()
    features = (Feature("at.rest", 0, 2, 0), Feature("in.force", 0, 2, 1), Feature("always", 1, 2, 2))
    broker.services.release = Release({}, features)
    for version, supported in ((3, ["always"]), (4, ["at.rest", "in.force", "always"])):
        answer = await tell(broker, version)
        assert [feature.name for feature in answer.supported_features] == supported
        assert [(f.name, f.max_version_level) for f in answer.finalized_features] == [("in.force", 1), ("always", 2)]


async def tell(broker: BrokerServer, version: int = 4) -> ApiVersionsResponse:
    context: Any = SimpleNamespace(services=broker.services, connection=SimpleNamespace(), version=version)
    return await api_versions(CLIENT, context)


# --- over a connection


@pytest.mark.sockets
async def test_a_version_outside_the_release_is_refused_as_the_release_refuses_it(start_broker: Any) -> None:
    broker = await start_broker(kmini_as_version="4.3")
    for api, version in (("Produce", 2), ("Fetch", 3), ("ListOffsets", 0), ("CreateTopics", 1), ("DeleteTopics", 0)):
        assert await send(broker, API_KEYS[api], version) is None, api


@pytest.mark.sockets
async def test_a_version_that_came_after_the_release_is_refused(start_broker: Any) -> None:
    broker = await start_broker(kmini_as_version="3.9")
    for api, version in (("Fetch", 18), ("Metadata", 13), ("DescribeCluster", 2), ("DescribeLogDirs", 5)):
        assert await send(broker, API_KEYS[api], version) is None, api


@pytest.mark.sockets
@pytest.mark.parametrize("name", RELEASES)
async def test_an_unknown_version_of_api_versions_is_answered_with_the_range_of_the_release(
    start_broker: Any, name: str
) -> None:
    broker = await start_broker(kmini_as_version=name)
    body = await send(broker, API_KEYS["ApiVersions"], 99)
    assert body is not None
    answer = ApiVersionsResponse.decode(body, 0)
    told = [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys]
    assert told == [(18, 0, 3 if name == "2.8" else 4)]


async def send(broker: BrokerServer, api_key: int, version: int) -> bytes | None:
    """Send a request without a body; the answer behind its header, or None where the connection was closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.server.listeners[0].port)
    try:
        header = struct.pack(">hhih", api_key, version, 1, -1)
        writer.write(struct.pack(">i", len(header)) + header)
        size = await reader.read(4)
        if not size:
            return None
        return (await reader.readexactly(int.from_bytes(size, "big")))[4:]
    finally:
        writer.close()

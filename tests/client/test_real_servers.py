"""The client against real servers: kmini, and Apache Kafka itself."""

from __future__ import annotations

import random

import pytest

from kmini.client import Client, CommittedOffset, ConfigEntry, ConfigResource, GroupListing, NewTopic, record
from kmini.protocol.errors import (
    GroupIdNotFound,
    InvalidConfig,
    InvalidPartitions,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.list_offsets import MAX_TIMESTAMP
from kmini.protocol.records.compression import Codec
from support.until import until_async


async def go_through_everything(bootstrap_servers: str, topic: str) -> None:
    """All that the client can ask, on a topic that does not exist yet."""
    async with Client(bootstrap_servers) as client:
        assert await client.create_topics({topic: NewTopic(2, 1, {"retention.ms": "-1"})}) == {topic: None}
        outcomes = await client.create_topics({topic: NewTopic()})
        assert isinstance(outcomes[topic], TopicAlreadyExists)
        await until_known(client, topic)
        partitions = await client.partitions(topic)
        assert partitions == [(topic, 0), (topic, 1)]

        chance = random.Random(7)
        sent = []
        for number, codec in enumerate(list(Codec) * 4):
            batch = [
                record(
                    chance.randbytes(200), key=b"%d" % number, headers=[("n", b"1")], timestamp_ms=1_000_000 + number
                )
                for _ in range(50)
            ]
            result = await client.produce(topic, 0, batch, codec=codec, acks=(-1, 1)[number % 2])
            assert result.base_offset == len(sent)
            sent += batch
        assert await client.beginning(partitions) == {(topic, 0): 0, (topic, 1): 0}
        end = await client.end(partitions)
        assert end == {(topic, 0): len(sent), (topic, 1): 0}
        found = [found async for found in client.consume(dict.fromkeys(partitions, 0), until=end)]
        assert [(one.offset, one.key, one.value, one.headers, one.timestamp) for one in found] == [
            (offset, one.key, one.value, one.headers, one.timestamp) for offset, one in enumerate(sent)
        ]
        at_time = await client.list_offsets({(topic, 0): 1_000_003})
        assert (at_time[(topic, 0)].offset, at_time[(topic, 0)].timestamp) == (150, 1_000_003)
        latest = await client.list_offsets({(topic, 0): MAX_TIMESTAMP})
        assert latest[(topic, 0)].timestamp == 1_000_019

        results = await client.delete_records_before(
            {(topic, 0): 120, (topic, 1): -1, (topic, 2): 0}, timeout_ms=20_000
        )
        assert results[(topic, 0)] == (120, None)
        assert results[(topic, 1)] == (0, None)
        assert isinstance(results[(topic, 2)].error, UnknownTopicOrPartition)
        beyond = await client.delete_records_before({(topic, 0): len(sent) + 1}, timeout_ms=20_000)
        assert beyond[(topic, 0)].low_watermark == -1
        assert isinstance(beyond[(topic, 0)].error, OffsetOutOfRange)
        assert await client.beginning([(topic, 0)]) == {(topic, 0): 120}
        kept = [found.offset async for found in client.consume({(topic, 0): 120}, until={(topic, 0): len(sent)})]
        assert kept == list(range(120, len(sent)))
        assert await client.delete_topics([topic]) == {topic: None}


async def go_through_groups_and_settings(bootstrap_servers: str, topic: str) -> None:
    """Run every operation on groups without members, and on settings."""
    group = f"readers-of-{topic}"
    async with Client(bootstrap_servers) as client:
        assert await client.create_topics({topic: NewTopic(2, 1)}) == {topic: None}
        await until_known(client, topic)
        assert await client.committed_offsets(group) == {}
        offsets = {(topic, 0): 7, (topic, 1): CommittedOffset(8, "so far", 3)}
        assert await client.commit_offsets(group, offsets) == {(topic, 0): None, (topic, 1): None}
        found = await client.committed_offsets(group)
        assert found == {(topic, 0): CommittedOffset(7), (topic, 1): CommittedOffset(8, "so far", 3)}
        assert GroupListing(group, "", "Empty", "classic") in await client.list_groups()
        assert group not in [listed.group_id for listed in await client.list_groups(states=["Stable"])]
        described = await client.describe_group(group)
        assert (described.state, described.protocol_type, described.members) == ("Empty", "", ())
        assert await client.delete_offsets(group, [(topic, 0)]) == {(topic, 0): None}
        assert set(await client.committed_offsets(group)) == {(topic, 1)}
        outcomes = await client.delete_groups([group, "missing"])
        assert outcomes[group] is None
        assert isinstance(outcomes["missing"], GroupIdNotFound)
        with pytest.raises(GroupIdNotFound):
            await client.describe_group(group)

        resource = ConfigResource.topic(topic)
        assert await client.alter_configs({resource: {"retention.ms": "60000"}}) == {resource: None}
        await until_configured(client, resource, ConfigEntry("retention.ms", "60000", "dynamic-topic", False, False))
        assert await client.alter_configs({resource: {"retention.ms": None}}) == {resource: None}
        await until_configured(client, resource, ConfigEntry("retention.ms", "604800000", "default", False, False))
        refused = await client.alter_configs({resource: {"retention.ms": "soon"}})
        assert isinstance(refused[resource], InvalidConfig)
        assert await client.create_partitions({topic: 3}) == {topic: None}
        assert isinstance((await client.create_partitions({topic: 3}))[topic], InvalidPartitions)


async def until_configured(client: Client, resource: ConfigResource, entry: ConfigEntry) -> None:
    """Apache Kafka answers before the broker that is asked next has the change."""

    async def is_configured() -> bool:
        return entry in await client.describe_configs(resource)

    await until_async(is_configured, f"{entry} of {resource}")


async def until_known(client: Client, topic: str) -> None:
    """Apache Kafka answers CreateTopics before every broker, itself included, knows the topic."""

    async def is_known() -> bool:
        return topic in {described.name for described in (await client.metadata()).topics}

    await until_async(is_known, f"{topic} in the metadata")


async def test_everything_works_against_kmini(server, topic_names) -> None:
    await go_through_everything(server.bootstrap_servers, topic_names("client"))


async def test_everything_works_against_apache_kafka(apache_kafka_server, topic_names) -> None:
    await go_through_everything(apache_kafka_server.bootstrap_servers, topic_names("client"))


async def test_groups_and_settings_work_against_kmini(server, topic_names) -> None:
    await go_through_groups_and_settings(server.bootstrap_servers, topic_names("groups"))


async def test_groups_and_settings_work_against_apache_kafka(apache_kafka_server, topic_names) -> None:
    await go_through_groups_and_settings(apache_kafka_server.bootstrap_servers, topic_names("groups"))

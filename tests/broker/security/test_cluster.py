"""Several brokers behind listeners with authentication, which they use among themselves, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmini.broker.controller import topics
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.security.resources import AclOperation, PermissionType, ResourceType
from kmini.broker.settings.broker_config import ConfigError
from kmini.client import Client, Sasl
from kmini.client.produce import record
from kmini.protocol import messages as m
from kmini.protocol.errors import TopicAuthorizationFailed
from kmini.protocol.topics import TopicPartition
from support.broker.access_rules import STANDARD, acl
from support.broker.clusters import Clusters, broker_configs

pytestmark = pytest.mark.sockets

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
BROKER = 'username="broker" password="between-us"'
USERS = 'user_broker="between-us" user_alice="wonderland"'
T0 = TopicPartition("t", 0)


def properties(jaas: str = f"{MODULE} required {BROKER} {USERS};") -> dict[str, str]:
    return {
        "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f"{MODULE} required {USERS};",
        "listener.name.brokers.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": STANDARD,
        "super.users": "User:broker",
        "replica.fetch.wait.max.ms": "100",
        "replica.fetch.backoff.ms": "50",
    }


@pytest.fixture
async def cluster(clusters: Clusters) -> LocalCluster:
    cluster = await clusters.start(2, properties())
    topics.create(cluster.brokers[1], "t", replication_factor=2)
    cluster.controller.create_acls([acl(AclOperation.ALL, ResourceType.TOPIC, "*")])
    return cluster


def alice(cluster: LocalCluster) -> Client:
    clients = [broker.server.listener("CLIENTS") for broker in cluster.brokers.values()]
    addresses = ",".join(listener.address for listener in clients if listener is not None)
    return Client(addresses, sasl=Sasl("PLAIN", "alice", "wonderland"), timeout_ms=20_000)


async def test_brokers_replicate_through_their_own_listener_as_themselves(cluster: LocalCluster) -> None:
    async with alice(cluster) as client:
        for number in range(3):
            assert (await client.produce("t", 0, [record(b"%d" % number)])).base_offset == number
    assert [broker.logs.logs[T0].log_end_offset for broker in cluster.brokers.values()] == [3, 3]
    peers = {
        (connection.listener.name, str(connection.principal))
        for broker in cluster.brokers.values()
        for connection in broker.server.connections
    }
    assert ("BROKERS", "User:broker") in peers
    assert not any(name == "CLIENTS" and user == "User:broker" for name, user in peers)


async def test_a_client_that_poses_as_the_follower_changes_nothing(cluster: LocalCluster) -> None:
    """CVE-2018-1288, with the replica id of a follower that there is."""
    async with alice(cluster) as client:
        await client.produce("t", 0, [record(b"0")])
        leader_id = cluster.controller.topics["t"].partitions[0].leader
        follower_id = 3 - leader_id
        partition = cluster.brokers[leader_id].replica_manager.partitions[T0]
        before = (partition.log.high_watermark, partition.low_watermark)
        F = m.FetchRequest.Topic
        asked = F.Partition(partition=0, fetch_offset=1, log_start_offset=1, partition_max_bytes=1000)
        request = m.FetchRequest(
            replica_id=follower_id,
            replica_state=m.FetchRequest.ReplicaState(replica_id=follower_id),
            max_wait_ms=0,
            min_bytes=0,
            topics=[F(topic="t", topic_id=cluster.controller.topics["t"].id, partitions=[asked])],
        )
        answer = await client.send(leader_id, request)
        assert [part.error_code for topic in answer.responses for part in topic.partitions] == [
            TopicAuthorizationFailed.code
        ]
        assert (partition.log.high_watermark, partition.low_watermark) == before


async def test_rules_hold_at_every_broker_at_once(cluster: LocalCluster) -> None:
    async with alice(cluster) as client:
        await client.metadata()
        denial = acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "t", permission=PermissionType.DENY)
        cluster.controller.create_acls([denial])
        for node_id in cluster.brokers:
            answer = await client.send(node_id, m.MetadataRequest(topics=None))
            assert [topic.name for topic in answer.topics] == []


@pytest.mark.parametrize("jaas", [f"{MODULE} required {USERS};", f'{MODULE} required username="broker" {USERS};'])
def test_brokers_that_could_not_reach_each_other_are_not_started(tmp_path: Path, jaas: str) -> None:
    with pytest.raises(ConfigError, match="needs username"):
        LocalCluster(broker_configs(2, properties(jaas)), str(tmp_path))

"""Apache Kafka's own advisories about authorization: a test for each that concerns requests and stored rules.

Tests of CVE-2017-12610 and CVE-2021-38153 are in `test_sasl_plain.py`, that of CVE-2024-56128 in `test_sasl_scram.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.security.acls import AclFilter
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol import messages as m
from kmini.protocol.errors import TopicAuthorizationFailed, TransactionalIdAuthorizationFailed
from kmini.protocol.topics import TopicPartition
from support.broker.access_rules import STANDARD, acl
from support.broker.permission_requests import ID, TOPIC, batch, codes

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


@pytest.fixture
async def broker(guarded_broker: BrokerServer, ask_as: Ask) -> BrokerServer:
    topic = m.CreateTopicsRequest.Topic(name=TOPIC, num_partitions=1, replication_factor=1)
    await ask_as(guarded_broker, "admin", m.CreateTopicsRequest(topics=[topic], timeout_ms=1000))
    await ask_as(guarded_broker, "admin", produce(batch()))
    return guarded_broker


def produce(records: bytes, transactional_id: str | None = None) -> m.ProduceRequest:
    P = m.ProduceRequest.Topic
    return m.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[P(name=TOPIC, partition_data=[P.Partition(index=0, records=records)])],
    )


@pytest.mark.parametrize("replica_id", [0, 1, 2, 1000])
async def test_a_client_cannot_pose_as_a_follower(broker: BrokerServer, ask_as: Ask, replica_id: int) -> None:
    """CVE-2018-1288: a hand-made fetch with a replica id interfered with replication."""
    broker.controller.create_acls([acl(AclOperation.ALL, ResourceType.TOPIC, "*")])
    log = broker.replica_manager.partitions[TopicPartition(TOPIC, 0)].log
    before = (log.log_start_offset, log.high_watermark, log.log_end_offset)
    F = m.FetchRequest.Topic
    for version in (0, 3, 4, 11, 12, 14, 15, 18):
        partition = F.Partition(partition=0, fetch_offset=0, log_start_offset=1, partition_max_bytes=1000)
        request = m.FetchRequest(
            replica_id=replica_id,
            replica_state=m.FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=1),
            max_wait_ms=0,
            min_bytes=0,
            topics=[F(topic=TOPIC, topic_id=broker.controller.topics[TOPIC].id, partitions=[partition])],
        )
        answer = await ask_as(broker, "alice", request, version)
        assert TopicAuthorizationFailed.code in codes(answer), version
        assert not any(part.records for topic in answer.responses for part in topic.partitions)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == before


@pytest.mark.parametrize("transactional_id", [ID, "somebody-elses", None])
async def test_a_transactional_produce_needs_its_transactional_id(
    broker: BrokerServer, ask_as: Ask, transactional_id: str | None
) -> None:
    """CVE-2018-17196: a hand-made produce got round the check of the transactional id."""
    broker.controller.create_acls(
        [
            acl(AclOperation.WRITE, ResourceType.TOPIC, TOPIC),
            acl(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "mine"),
        ]
    )
    log = broker.replica_manager.partitions[TopicPartition(TOPIC, 0)].log
    end = log.log_end_offset
    for version in (3, 9, 11, 12):
        answer = await ask_as(broker, "alice", produce(batch(transactional=True), transactional_id), version)
        assert [*codes(answer)] == [TransactionalIdAuthorizationFailed.code]
        assert log.log_end_offset == end


async def test_deleting_one_rule_of_several_leaves_the_others_also_on_disk(
    broker: BrokerServer, ask_as: Ask, start_broker: StartBroker
) -> None:
    """CVE-2024-27309: with one rule of three deleted, the resource was treated as if it had one."""
    rules = [acl(AclOperation.READ, ResourceType.TOPIC, TOPIC, principal=f"User:{name}") for name in ("a", "b", "c")]
    broker.controller.create_acls(rules)
    request = m.DeleteAclsRequest(
        filters=[
            m.DeleteAclsRequest.Filter(
                resource_type_filter=ResourceType.TOPIC,
                resource_name_filter=TOPIC,
                principal_filter="User:b",
                host_filter=None,
                operation=AclOperation.READ,
                permission_type=3,
            )
        ]
    )
    answer = await ask_as(broker, "admin", request)
    assert [acl.principal for acl in answer.filter_results[0].matching_acls] == ["User:b"]
    for restarted in (False, True):
        if restarted:
            await broker.stop()
            broker = await start_broker(authorizer_class_name=STANDARD, super_users="User:admin")
        assert broker.controller.acls.matching(AclFilter()) == [rules[0], rules[2]]
        F = m.FetchRequest.Topic
        for user, code in (("a", 0), ("b", TopicAuthorizationFailed.code), ("c", 0), ("d", 29)):
            partition = F.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            topics = [F(topic=TOPIC, partitions=[partition])]
            fetch = m.FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, topics=topics)
            answer = await ask_as(broker, user, fetch, 11)
            assert answer.responses[0].partitions[0].error_code == code


# --- the requests that manage rules


def creation(**changed: Any) -> m.CreateAclsRequest.Creation:
    fields = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*", "operation": 3}
    return m.CreateAclsRequest.Creation(**{**fields, "permission_type": 3, **changed})


def everything(**changed: Any) -> m.DescribeAclsRequest:
    fields = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return m.DescribeAclsRequest(**{**fields, **names, **changed})


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_rules_are_made_told_and_deleted_over_the_wire(broker: BrokerServer, ask_as: Ask, version: int) -> None:
    creations = [
        creation(),
        creation(operation=4),
        creation(resource_name="u"),
        creation(),
        creation(principal="nobody"),
    ]
    answer = await ask_as(broker, "admin", m.CreateAclsRequest(creations=creations), version)
    assert [result.error_code for result in answer.results] == [0, 0, 0, 0, 42]
    assert len(broker.controller.acls) == 3, "equal rules are one rule"
    asked = everything(pattern_type_filter=3)
    answer = await ask_as(broker, "admin", asked, version)
    assert {resource.resource_name: len(resource.acls) for resource in answer.resources} == {"t": 2, "u": 1}
    answer = await ask_as(broker, "admin", everything(pattern_type_filter=3, resource_name_filter="u"), version)
    assert [resource.resource_name for resource in answer.resources] == ["u"]
    filters = [
        m.DeleteAclsRequest.Filter(
            resource_type_filter=2,
            resource_name_filter=name,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        for name in ("t", None)
    ]
    answer = await ask_as(broker, "admin", m.DeleteAclsRequest(filters=filters), version)
    assert [len(result.matching_acls) for result in answer.filter_results] == [2, 3]
    assert len(broker.controller.acls) == 0
